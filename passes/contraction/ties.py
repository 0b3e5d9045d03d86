"""The axes of operands and results that an operation ties together.

An operation ties an axis of one value to an axis of another if it only ever combines element i along the one
with element i along the other. If the elements along all tied axes are permuted in the same way, the operation
gives its old results in the new order. The proof of a permutation relies on this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from triton_linear.dialect.mlir_adapter import OpaqueType, Operation, RankedTensorType, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import BOUNDS, terminator
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

Place = tuple[Value, int]
"""An axis of a value."""

_MEMDESC = re.compile(r"memdesc<((?:\d+x)+)")


@dataclass(frozen=True)
class Ties:
    """The groups of axes that an operation ties (`together`), and the axes along which the order has no effect
    (`free`)."""

    together: Sequence[Sequence[Place]] = ()
    free: Sequence[Place] = ()

    def of(self, place: Place) -> Sequence[Place] | None:
        """The axes tied to a place; None if its order must stay.

        A place may be in several groups: a loop may yield one of its arguments as the next value of another.
        """
        groups = [places for places in self.together if place in places]
        if groups:
            return [other for places in groups for other in places]
        return () if place in self.free else None


def extents(type_: Type) -> tuple[int, ...]:
    """The sizes of a tensor or buffer along its axes; () for everything else."""
    if isinstance(type_, RankedTensorType):
        return tuple(type_.shape)
    if isinstance(type_, OpaqueType) and (match := _MEMDESC.match(type_.data)):
        return tuple(map(int, match[1].rstrip("x").split("x")))
    return ()


def rank(value: Value) -> int:
    """The number of axes of a value."""
    return len(extents(value.type))


def is_pure(op: Operation) -> bool:
    """True if an operation can be cloned on permuted operands."""
    if op.name in (names.EXPAND, names.BROADCAST):
        return True
    return named(op.name).elementwise and len(op.regions) == 0


def ties(op: Operation) -> Ties:
    """The ties of an operation; none for unknown operations."""
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op)
    if named(op.name).elementwise and len(op.regions) == 0:
        return _elementwise(op)
    return Ties()


def _tie_axes(values: Iterable[Value]) -> Iterator[Sequence[Place]]:
    """Tie each axis of these values, which have one shape; scalars are left out."""
    shaped = [value for value in values if rank(value)]
    ranks = {rank(value) for value in shaped}
    for axis in range(ranks.pop() if len(ranks) == 1 else 0):
        yield [(value, axis) for value in shaped]


def _elementwise(op: Operation) -> Ties:
    return Ties(list(_tie_axes([*op.operands, *op.results])))


def _constant(op: Operation) -> Ties:
    return _elementwise(op) if op.attributes["value"].is_splat else Ties()


def _access(op: Operation) -> Ties:
    """Ties of an access with a pointer for each element. A pointer to a whole tensor (scalar) fixes the
    order."""
    return _elementwise(op) if rank(op.operands[0]) else Ties()


def _buffer(op: Operation) -> Ties:
    """Ties of an access with an offset for each element."""
    return _elementwise(op) if any(map(rank, op.operands)) else Ties()


def _operand_by_operand(op: Operation) -> Ties:
    """Ties of an operation whose result i is operand i."""
    pairs = zip(op.operands, op.results, strict=True)
    return Ties([places for pair in pairs for places in _tie_axes(pair)])


def _copy(op: Operation) -> Ties:
    """Ties of an operation whose operands have one shape; its results are tokens."""
    return Ties(list(_tie_axes(op.operands)))


def _expand_dims(op: Operation) -> Ties:
    new = op.attributes["axis"].value
    source, result = op.operands[0], op.results[0]
    return Ties([[(source, axis), (result, axis + (axis >= new))] for axis in range(rank(source))])


def _broadcast(op: Operation) -> Ties:
    source, result = op.operands[0], op.results[0]
    sizes = zip(extents(source.type), extents(result.type), strict=True)
    return Ties([[(source, axis), (result, axis)] for axis, (old, new) in enumerate(sizes) if old == new])


def _trans(op: Operation) -> Ties:
    source, result = op.operands[0], op.results[0]
    return Ties([[(source, old), (result, new)] for new, old in enumerate(op.attributes["order"])])


def _index(op: Operation) -> Ties:
    """Ties of an operation that selects one of several buffers."""
    source, result = op.operands[0], op.results[0]
    dropped = rank(source) - rank(result)
    return Ties([[(source, axis + dropped), (result, axis)] for axis in range(rank(result))])


def _reduce(op: Operation) -> Ties:
    along = op.attributes["axis"].value
    tied = []
    for axis in range(rank(op.operands[0])):
        if axis != along:
            results = [(value, axis - (axis > along)) for value in op.results if rank(value)]
            tied.append([*((value, axis) for value in op.operands), *results])
    free = [(value, along) for value in op.operands] if _is_symmetric(op) else []
    return Ties(tied, free)


def _is_symmetric(op: Operation) -> bool:
    """True if the result of a reduction does not depend on the order of its elements, except for rounding."""
    block = op.regions[0].blocks[0]
    if len(op.operands) != 1 or len(block.operations) != 2:
        return False
    combine, end = (view.operation for view in block.operations)
    takes_both = set(combine.operands) == set(block.arguments)
    return named(combine.name).commutes and takes_both and bool(end.operands[0] == combine.results[0])


def _scan(op: Operation) -> Ties:
    along = op.attributes["axis"].value
    places = _tie_axes([*op.operands, *op.results])
    return Ties([tied for axis, tied in enumerate(places) if axis != along])


def _dot(op: Operation) -> Ties:
    """Ties of a dot: a[.., m, k], b[.., k, n] and c, d[.., m, n]. No ties with scales or packed elements: both
    belong to neighbours, which must stay together."""
    a, b, c = list(op.operands)[:3]
    *batches, m, k = extents(a.type)
    n = extents(b.type)[-1]
    fits = extents(b.type) == (*batches, k, n) and extents(c.type) == (*batches, m, n)
    if not fits or any(map(rank, list(op.operands)[3:])):
        return Ties()
    out = [c, *op.results]
    last = rank(a) - 1
    batch = [[(value, axis) for value in (a, b, *out)] for axis in range(last - 1)]
    rows = [(a, last - 1), *((value, last - 1) for value in out)]
    columns = [(b, last), *((value, last) for value in out)]
    return Ties([*batch, rows, columns, [(a, last), (b, last - 1)]])


def _loop(op: Operation) -> Ties:
    block = op.regions[0].blocks[0]
    given = list(op.operands)[BOUNDS:]
    yielded = terminator(block).operands
    carried = zip(given, list(block.arguments)[1:], yielded, op.results, strict=True)
    return Ties([places for values in carried for places in _tie_axes(values)])


def _branch(op: Operation) -> Ties:
    ends = [terminator(region.blocks[0]) for region in op.regions if len(region.blocks)]
    tied: list[Sequence[Place]] = []
    for index, result in enumerate(op.results):
        tied += _tie_axes([result, *(end.operands[index] for end in ends)])
    return Ties(tied)


def _order_free(op: Operation) -> Ties:
    """Ties of an operation for which the order of elements has no effect."""
    return Ties((), [(value, axis) for value in op.operands for axis in range(rank(value))])


_RULES: Mapping[str, Callable[[Operation], Ties]] = {
    names.CONVERT: _elementwise,
    names.BUFFER_LOAD: _buffer,
    names.BUFFER_STORE: _buffer,
    names.CONSTANT: _constant,
    names.FOR: _loop,
    names.IF: _branch,
    names.BROADCAST: _broadcast,
    names.EXPAND: _expand_dims,
    names.LOAD: _access,
    names.RANGE: lambda op: Ties(),
    names.REDUCE: _reduce,
    names.SCAN: _scan,
    names.STORE: _access,
    names.TRANS: _trans,
    names.COPY: _copy,
    names.LOCAL_ALLOC: _elementwise,
    names.LOCAL_DEALLOC: _order_free,
    names.LOCAL_LOAD: _elementwise,
    names.LOCAL_STORE: _copy,
    names.MEMORY_INDEX: _index,
    names.MEMORY_TRANS: _trans,
    **dict.fromkeys(names.DOTS, _dot),
    names.WARP_GROUP_WAIT: _operand_by_operand,
}


@dataclass
class Invariance:
    """Tells if all elements of a value along an axis are equal; `producers` has the operation of each
    result."""

    producers: Mapping[Value, Operation]

    def __post_init__(self) -> None:
        self._known: dict[Place, bool] = {}

    def __call__(self, value: Value, axis: int) -> bool:
        place = value, axis
        if place not in self._known:
            self._known[place] = False  # ends the recursion around a loop
            self._known[place] = self._derive(value, axis)
        return self._known[place]

    def _derive(self, value: Value, axis: int) -> bool:
        if extents(value.type)[axis] == 1:
            return True
        op = self.producers.get(value)
        if op is None or not (is_pure(op) or op.name == names.CONVERT) or op.name == names.RANGE:
            return False
        tied = ties(op).of((value, axis))
        if tied is None:
            return bool(op.name == names.BROADCAST)
        return all(self(other, along) for other, along in tied if other != value)
