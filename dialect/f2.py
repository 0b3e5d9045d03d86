"""Linear algebra over F2, the field of two elements: addition is XOR, multiplication is AND.

A vector is a Python int whose bit i is coordinate i, so no dimension is too large and adding two
vectors is one instruction. A matrix is the sequence of its columns. The number of rows is not part of a
matrix; the functions that need it ask for it.

    columns = (0b01, 0b11)        the matrix  1 1
                                              0 1     row 0 is the lowest bit of every column

If a system has several solutions, the choice is fixed: the free variables are zero. The free variables are the
columns that depend on columns before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Echelon:
    """The span of the vectors added so far, and how each member of it is a sum of them.

    Only vectors that enlarge the span take part in those sums, so the answer of `solve` is unique: the
    vectors that depend on earlier ones get coefficient zero.

    >>> span = Echelon((0b011, 0b110))
    >>> span.add(0b101), span.rank          # 0b101 is the sum of the other two
    (False, 2)
    >>> bin(span.solve(0b101)), span.solve(0b001)
    ('0b11', None)
    """

    __slots__ = ("_pivots", "_size", "rank")

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        # Keyed by bit length: the one stored vector with that leading bit, and the vectors it sums.
        self._pivots: dict[int, tuple[int, int]] = {}
        self._size = 0
        self.rank = 0
        pivots, size = self._pivots, 0
        for vector in vectors:  # as `add`, without its calls: planning spends much of its time here
            if vector < 0:
                raise _negative(vector)
            rest, combination = vector, 1 << size
            size += 1
            while rest:
                stored = pivots.get(rest.bit_length())
                if stored is None:
                    pivots[rest.bit_length()] = rest, combination
                    break
                rest ^= stored[0]
                combination ^= stored[1]
        self._size = size
        self.rank = len(pivots)

    def __len__(self) -> int:
        """Return the number of vectors added, dependent ones included."""
        return self._size

    def _eliminate(self, vector: int) -> tuple[int, int]:
        """Reduce `vector` by the stored vectors: return the remainder and the combination that cancelled."""
        pivots = self._pivots
        combination = 0
        while vector:
            stored = pivots.get(vector.bit_length())
            if stored is None:
                break
            vector ^= stored[0]
            combination ^= stored[1]
        return vector, combination

    def add(self, vector: int) -> bool:
        """Add `vector` as the next one and tell whether it enlarged the span."""
        if vector < 0:
            raise _negative(vector)
        rest, combination = self._eliminate(vector)
        index = self._size
        self._size = index + 1
        if not rest:
            return False
        self._pivots[rest.bit_length()] = (rest, combination ^ 1 << index)
        self.rank += 1
        return True

    def solve(self, target: int) -> int | None:
        """Return the set of added vectors whose sum is `target`, bit i for the i-th; None if none."""
        pivots = self._pivots
        combination = 0
        while target:  # as `_eliminate`, without its call
            stored = pivots.get(target.bit_length())
            if stored is None:
                return None
            target ^= stored[0]
            combination ^= stored[1]
        return combination

    def __contains__(self, vector: int) -> bool:
        """Tell whether `vector` lies in the span."""
        return not self._eliminate(vector)[0]


def _negative(vector: int) -> ValueError:
    return ValueError(f"add: a vector is a non-negative integer, got {vector}")


def enlarges(pivots: dict[int, int], vector: int) -> bool:
    """Add `vector` to the span in `pivots`, and tell whether it enlarged the span.

    `pivots` maps a bit length to the stored vector of that length. This is `Echelon.add` without the record of
    which vectors were summed.

    >>> pivots = {}
    >>> enlarges(pivots, 3), enlarges(pivots, 3)
    (True, False)
    """
    if vector < 0:
        raise _negative(vector)
    while vector:
        stored = pivots.get(vector.bit_length())
        if stored is None:
            pivots[vector.bit_length()] = vector
            return True
        vector ^= stored
    return False


def multiply_vector(columns: Sequence[int], x: int) -> int:
    """A x: the sum of the columns that the set bits of `x` select.

    Requires: `x` has no bit beyond the number of columns.

    >>> bin(multiply_vector((0b01, 0b11), 0b11))
    '0b10'
    """
    if x >> len(columns):
        raise ValueError(f"multiply_vector: vector {x} does not fit in {len(columns)} coordinates")
    result = 0
    while x:
        lowest = x & -x
        result ^= columns[lowest.bit_length() - 1]
        x ^= lowest
    return result


def sums(columns: Iterable[int]) -> list[int]:
    """Return every sum of the columns: entry x is `multiply_vector(columns, x)`.

    >>> sums((1, 4))
    [0, 1, 4, 5]
    """
    values = [0]
    for column in columns:
        values += [value ^ column for value in values]
    return values


def multiply(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """A B, by its columns.

    Requires: the columns of `b` fit in as many coordinates as `a` has columns.
    Ensures: multiply_vector(multiply(a, b), x) == multiply_vector(a, multiply_vector(b, x)).

    >>> multiply((1, 3), (1, 3))
    (1, 2)
    """
    return tuple([multiply_vector(a, column) for column in b])


def rank(columns: Iterable[int]) -> int:
    """dim span(columns).

    >>> rank((0b011, 0b110, 0b101))
    2
    """
    units = 0  # the union of the unit vectors; most often every column is one
    others = []
    for column in columns:
        if column < 0:
            raise _negative(column)
        if column & (column - 1):
            others.append(column)
        else:
            units |= column
    if not others:
        return units.bit_count()
    known = ~units
    pivots: dict[int, int] = {}
    for column in others:  # as `enlarges`, without its calls
        rest = column & known
        while rest:
            stored = pivots.get(rest.bit_length())
            if stored is None:
                pivots[rest.bit_length()] = rest
                break
            rest ^= stored
    return units.bit_count() + len(pivots)


def solve(columns: Iterable[int], target: int) -> int | None:
    """x with A x = target, or None when there is none.

    Choice: the free variables are zero. For many targets keep an `Echelon`.

    >>> solve((0b01, 0b01, 0b10), 0b11)
    5
    """
    return Echelon(columns).solve(target)


def null_space(columns: Sequence[int]) -> tuple[int, ...]:
    """Basis of {x : A x = 0}.

    Ensures: one vector for each free variable, in their order, with the other free variables zero.

    >>> null_space((0b01, 0b01, 0b10, 0))
    (3, 8)
    """
    pivots: dict[int, tuple[int, int]] = {}
    kernel: list[int] = []
    for index, column in enumerate(columns):
        rest, combination = column, 1 << index
        while rest:
            stored = pivots.get(rest.bit_length())
            if stored is None:
                pivots[rest.bit_length()] = rest, combination
                break
            rest ^= stored[0]
            combination ^= stored[1]
        else:
            kernel.append(combination)
    return tuple(kernel)


def in_span(columns: Iterable[int], vector: int) -> bool:
    """Tell whether `vector` is a sum of columns.

    >>> in_span((0b011, 0b110), 0b101)
    True
    """
    return vector in Echelon(columns)


def reduce(columns: Iterable[int]) -> tuple[int, ...]:
    """Reduced echelon basis of span(columns), in increasing order.

    Ensures: equal spans give equal tuples; the leading bit of a member is set in no other member.

    >>> reduce((6, 5)) == reduce((3, 6, 5)) == (3, 5)
    True
    """
    basis: list[int] = []  # kept fully reduced and increasing
    for vector in columns:
        rest = vector
        for member in basis:
            if rest >> (member.bit_length() - 1) & 1:
                rest ^= member
        if rest:
            lead = rest.bit_length() - 1
            basis = [member ^ rest if member >> lead & 1 else member for member in basis]
            basis.append(rest)
            basis.sort()
    return tuple(basis)


def intersection(u: Sequence[int], v: Sequence[int]) -> tuple[int, ...]:
    """Basis of span(u) ∩ span(v).

    Choice: the reduced basis, so equal intersections give equal tuples.

    >>> intersection((0b001, 0b010), (0b011, 0b100))
    (3,)
    """
    if not any(vector & (vector - 1) for vector in (*u, *v)):  # both are spanned by unit vectors
        return _units(_union(u) & _union(v))
    # Zassenhaus: of the rows (u, u) and (v, 0), those that cancel on the left are in both spans on the right.
    width = max([vector.bit_length() for vector in (*u, *v)], default=0)
    pivots: dict[int, int] = {}
    both: list[int] = []
    for row in (*[vector << width | vector for vector in u], *[vector << width for vector in v]):
        rest = row
        while rest >> width:
            stored = pivots.get(rest.bit_length())
            if stored is None:
                pivots[rest.bit_length()] = rest
                break
            rest ^= stored
        else:
            both.append(rest)
    return reduce(both)


def _union(vectors: Iterable[int]) -> int:
    union = 0
    for vector in vectors:
        union |= vector
    return union


def _units(union: int) -> tuple[int, ...]:
    """The unit vectors whose union this is, in increasing order."""
    found: list[int] = []
    while union:
        found.append(union & -union)
        union &= union - 1
    return tuple(found)


def extend(vectors: Iterable[int], candidates: Iterable[int]) -> tuple[int, ...]:
    """The candidates, in order, that enlarge the span of `vectors` and of all candidates before them.

    Ensures: the result is independent of `vectors`, and together they span all of both arguments.

    >>> extend((0b011,), (0b001, 0b010, 0b100))
    (1, 4)
    """
    vectors, candidates = tuple(vectors), tuple(candidates)
    for vector in (*vectors, *candidates):
        if vector & (vector - 1):
            break
    else:  # most often all are unit vectors
        union = _union(vectors)
        return tuple([unit for unit in candidates if unit & ~union and (union := union | unit)])
    pivots: dict[int, int] = {}
    spanning: list[int] = []
    taken: list[int] = []
    for into, several in ((spanning, vectors), (taken, candidates)):
        for vector in several:  # as `enlarges`, without its calls
            if vector < 0:
                raise _negative(vector)
            rest = vector
            while rest:
                stored = pivots.get(rest.bit_length())
                if stored is None:
                    pivots[rest.bit_length()] = rest
                    into.append(vector)
                    break
                rest ^= stored
    return tuple(taken)


def identity(dim: int) -> tuple[int, ...]:
    """Return the columns of the identity matrix.

    >>> identity(3)
    (1, 2, 4)
    """
    return tuple([1 << i for i in range(dim)])
