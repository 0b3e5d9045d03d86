"""The values that an exchange through shared memory loads, for the proof of a plan.

The byte address of each element that a thread stores is affine in the thread number, and so is the element. If
there is a linear map M with

    M(address, round) = element      for all stores, with a bit of its own for each round,

then two threads that store to one address store the same element, and a load gives M of its address, provided
that some thread stored there. M is found by elimination of the pairs (address, element) of the thread bits and
of the stores of thread 0. There is no M if pairs with the same sum of addresses have different sums of
elements. No plan needs an M that is not linear; such a plan is not proved.

An exchange inside warps has no barrier between them. The warp must then be a function of the address, the same
for the stores and the loads of all rounds.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from triton_linear.dialect.dimensions import fields
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.packing import loaded_words, stored_words
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan
from triton_linear.lowering.prove.functions import ThreadFunctions, Value
from triton_linear.lowering.prove.words import Refuted, Word, packed, run_words, words_at
from triton_linear.lowering.target.phases import WIDEST
from triton_linear.lowering.target.targets import Target

_ROW, _READ, _WORD, _HALF = 16, 8, 4, 2
"""Bytes of a row of `ldmatrix` and `stmatrix`, of a lane's read by `ds_read_b64_tr`, of a word, of a
half-word."""
_WARP, _WAVE = 5, 6
_UNITS = {
    "ldmatrix": _WORD,
    "ldmatrix.trans": _HALF,
    "stmatrix": _WORD,
    "stmatrix.trans": _HALF,
    "ds_read_b64_tr_b16": _HALF,
    "ds_read_b64_tr_b8": 1,
}
"""Bytes that stay together, by matrix instruction."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The bits of a thread's number in its CTA (the lane lowest), and the tensor's dimensions."""

    lane_bits: int
    bits: int
    tensor: tuple[tuple[str, int], ...]

    @property
    def element_bits(self) -> int:
        """Bits of a flattened element."""
        return sum(size.bit_length() - 1 for _, size in self.tensor)

    def element(self, flattened: int) -> str:
        """The text of an element: its coordinates."""
        return str(tuple(flattened >> position & mask for position, mask in fields(self.tensor)))

    def thread(self, number: int) -> str:
        """The text of a thread: its lane and its warp."""
        return f"lane {number & (1 << self.lane_bits) - 1} of warp {number >> self.lane_bits}"


@dataclass(frozen=True, slots=True)
class _Addresses:
    """The addresses of one side: the xor of columns[j] over the set bits j of the thread, of the offset of the
    access, and of positions[p] for its element p."""

    columns: tuple[int, ...]
    positions: tuple[int, ...]


def words_after_exchange(
    plan: SharedPlan, words: list[Word], functions: ThreadFunctions, threads: Threads, target: Target
) -> list[Word]:
    """The words of the destination registers; `words`: of the source registers.

    Raises Refuted if an address is outside the scratch or misaligned, if a warp accesses the part of another,
    or if a loaded value is not known.
    """
    slots, rounds = plan.per_word, _values_loaded(plan, words, functions, threads, target)
    loaded = [word for accesses in rounds for values in accesses for word in packed(values, slots)]
    loading = loaded_words(plan)
    run_words(functions, loading.steps, loaded, slots, threads.lane_bits, threads.bits)
    return words_at(loaded, loading.outputs)


def _values_loaded(
    plan: SharedPlan, words: list[Word], functions: ThreadFunctions, threads: Threads, target: Target
) -> list[list[list[Value | None]]]:
    """The values that each load brings, by round and access; raises Refuted as `words_after_exchange`."""
    _check_shape(plan, threads)
    store, load = (_addresses(plan, side, name, threads, target) for side, name in _sides(plan))
    if plan.scope == "warp":
        _check_warps_apart(plan, (store, load), threads)
    slots, storing = plan.per_word, stored_words(plan)
    if storing.given != len(words):
        raise Refuted(f"the exchange takes {storing.given} words, there are {len(words)}")
    made = list(words)
    run_words(functions, storing.steps, made, slots, threads.lane_bits, threads.bits)
    memory = _Memory(plan, store, threads)
    for round_, (accesses, numbers) in enumerate(zip(plan.store.rounds, storing.words, strict=True)):
        for access, needed in zip(accesses, numbers, strict=True):
            values = [value for word in words_at(made, needed) for value in word]
            memory.store(round_, access.offset, values, functions)
    loads = _Loads(memory, load)
    form = functions.affine(0, loads.columns)[1]

    def value(element: int | None) -> Value | None:
        return None if element is None else (element, form)

    return [
        [list(map(value, loads.elements(round_, access.offset))) for access in accesses]
        for round_, accesses in enumerate(plan.load.rounds)
    ]


def _sides(plan: SharedPlan) -> Iterator[tuple[MemorySide, str]]:
    yield plan.store, "store"
    yield plan.load, "load"


def _check_shape(plan: SharedPlan, threads: Threads) -> None:
    if plan.scope not in ("warp", "cta"):
        raise Refuted(f"scope '{plan.scope}' has no barrier")
    if len(plan.store.rounds) != len(plan.load.rounds):
        raise Refuted(f"{len(plan.store.rounds)} rounds are stored and {len(plan.load.rounds)} loaded")
    if plan.store.choices != len(plan.split) or plan.load.choices:
        raise Refuted(
            f"a thread stores one of 2^{plan.store.choices} alternatives, {len(plan.split)} bits choose"
        )
    if any(mask >> threads.bits for mask in plan.split):
        raise Refuted("alternatives are chosen by bits that a thread number does not have")
    width = plan.store.slots << plan.store.choices
    if any(
        len(access.registers) != width or not all(0 <= r < plan.source_registers for r in access.registers)
        for accesses in plan.store.rounds
        for access in accesses
    ):
        raise Refuted(f"a store does not name {width} of the {plan.source_registers} registers")
    for place in plan.outputs:
        round_, access, position = place
        if not (
            0 <= round_ < len(plan.load.rounds)
            and 0 <= access < len(plan.load.rounds[round_])
            and 0 <= position < plan.load.slots
        ):
            raise Refuted(f"no load has the place {place}")


def _addresses(plan: SharedPlan, side: MemorySide, name: str, threads: Threads, target: Target) -> _Addresses:
    """The addresses of one side; raises Refuted if one is misaligned or outside the scratch."""
    size, width = plan.element_bytes, side.slots * plan.element_bytes
    columns = (*side.columns, *((0,) * (threads.bits - len(side.columns))))
    if len(columns) > threads.bits:
        raise Refuted(f"addresses of the {name}s depend on {len(columns)} bits of a thread number")
    if side.matrix:
        able = target.load_matrix if name == "load" else target.store_matrix
        if side.matrix not in able or not _moves(side, size, threads.lane_bits):
            raise Refuted(f"no matrix {name} moves {side.slots} elements of {size} bytes")
        covered = aligned = side.access_bytes
    else:
        covered = aligned = width
        if width != side.access_bytes or width & (width - 1) or width > WIDEST:
            raise Refuted(f"no {name} moves {side.slots} elements of {size} bytes as {side.access_bytes} bytes")
    reached = 0
    for address in (*columns, *(access.offset for accesses in side.rounds for access in accesses)):
        if address < 0 or address % aligned:
            raise Refuted(f"{name} address {address:#x} is no multiple of {aligned}")
        reached |= address
    if reached + covered > plan.scratch_bytes:
        raise Refuted(f"a {name} reaches byte {reached + covered - 1} of {plan.scratch_bytes}")
    if not side.matrix:
        return _Addresses(columns, tuple(range(0, width, size)))
    of_lanes, steps = _spread(side.matrix, columns)
    unit = _UNITS[side.matrix]
    inside = [size << bit for bit in range((unit // size).bit_length() - 1)]
    positions = [0]
    for step in (*inside, *steps):
        if len(positions) < side.slots:
            positions += [position ^ step for position in positions]
    return _Addresses((*of_lanes, *columns[threads.lane_bits :]), tuple(positions))


def _moves(side: MemorySide, size: int, lane_bits: int) -> bool:
    """True if the matrix instruction can move the side's elements of `size` bytes in a warp of 2^`lane_bits`
    lanes."""
    width = side.slots * size
    if size > _UNITS[side.matrix]:
        return False
    if side.matrix.startswith("ds_read"):
        return lane_bits == _WAVE and side.access_bytes == width == _READ
    matrices = [_WORD * count for count in (1, 2, 4)]
    return lane_bits == _WARP and side.access_bytes == _ROW and width in matrices


def _spread(name: str, columns: Sequence[int]) -> tuple[list[int], list[int]]:
    """(columns of the lane bits, columns of the bits of a unit's number) of a matrix access."""
    if not name.startswith("ds_read"):
        # PTX ISA, ldmatrix and stmatrix: register k of lane l has elements 2 (l % 4) and 2 (l % 4) + 1 of row
        # l / 4 of matrix k, and lane 8 k + i names the address of row i. With `.trans` row and column change
        # places: it has rows 2 (l % 4) and 2 (l % 4) + 1 of column l / 4, at 2 (l / 4) bytes in each row.
        low, second, third, *matrices = columns[:_WARP]
        if name.endswith(".trans"):
            return [second, third, 2, 4, 8], [low, *matrices]
        return [4, 8, low, second, third], matrices
    # CDNA4 ISA, ds_read_b64_tr: of n units of 8 bytes, unit u of lane i of 16 is unit i mod n of those that
    # lane (16 u + i) / n of the 16 names.
    unit = _UNITS[name]
    count = (_READ // unit).bit_length() - 1
    along = [unit << bit for bit in range(count)]
    return [*along, *columns[: 4 - count], *columns[4:_WAVE]], list(columns[4 - count : 4])


def _check_warps_apart(plan: SharedPlan, sides: Sequence[_Addresses], threads: Threads) -> None:
    """Raises Refuted unless every address is accessed by one warp only."""
    # The address of thread 0 has a bit of its own, so that the map may be affine.
    origin, width = plan.scratch_bytes.bit_length(), threads.bits - threads.lane_bits
    pivots: dict[int, int] = {}
    for side, addresses in zip((plan.store, plan.load), sides, strict=True):
        warps = [1 << bit >> threads.lane_bits for bit in range(threads.bits)]
        pairs = [
            column << width | warp
            for column, warp in itertools.zip_longest(addresses.columns, warps, fillvalue=0)
        ]
        places = {access.offset for accesses in side.rounds for access in accesses}
        pairs += [(1 << origin | place) << width for place in places]
        if places:
            pairs += [place << width for place in addresses.positions]
        for pair in pairs:
            if other := _add(pivots, pair, width):
                raise Refuted(f"a warp reaches what is also that of the warp whose number differs by {other}")


class _Memory:
    """The stored pairs: M, and for each round the addresses of thread 0 modulo the columns of the threads."""

    def __init__(self, plan: SharedPlan, store: _Addresses, threads: Threads) -> None:
        self._store, self.threads = store, threads
        self._width = threads.element_bits
        self._bits = threads.bits
        self._round = plan.scratch_bytes.bit_length()
        self._pivots: dict[int, int] = {}
        self._form: int | None = None
        self.spanned = _echelon(store.columns)
        self.positions = [_reduced(self.spanned, position) for position in store.positions]
        self.starts: list[set[int]] = [set() for _ in plan.store.rounds]

    def store(
        self, round_: int, offset: int, values: Sequence[Value | None], functions: ThreadFunctions
    ) -> None:
        """Store the values of one access, in its order."""
        if len(values) < len(self.positions):
            raise Refuted(f"a store of {len(self.positions)} elements has {len(values)}")
        start, starts = _reduced(self.spanned, offset), self.starts[round_]
        origin = 1 << self._round + round_ | offset
        for position, reduced, value in zip(self._store.positions, self.positions, values, strict=False):
            address = offset ^ position
            if value is None:
                raise Refuted(f"what is stored to {address:#x} is undefined")
            element, form = value
            if form != self._form:
                self._add_threads(form, functions, address)
            if other := _add(self._pivots, (origin ^ position) << self._width | element, self._width):
                named = self.threads.element
                raise Refuted(
                    f"round {round_}: lane 0 of warp 0 stores element {named(element)} to {address:#x}, "
                    f"by the other stores it is the place of {named(element ^ other)}"
                )
            starts.add(start ^ reduced)

    def _add_threads(self, form: int, functions: ThreadFunctions, address: int) -> None:
        columns = functions.columns((0, form), self._bits)
        if columns is None:
            raise Refuted(f"what threads store to {address:#x} is not affine in their number")
        for bit, pair in enumerate(zip(self._store.columns, columns, strict=True)):
            place, element = pair
            if other := _add(self._pivots, place << self._width | element, self._width):
                named = self.threads
                raise Refuted(
                    f"{named.thread(1 << bit)} stores to {address ^ place:#x} what is {named.element(other)} "
                    "away from what other threads store there"
                )
        self._form = form

    def element(self, address: int, round_: int | None = None) -> int | None:
        """M of an address in a round, or, without a round, of a difference of addresses; None if unknown."""
        pivots, width = self._pivots, self._width
        rest = (address if round_ is None else 1 << self._round + round_ | address) << width
        while rest >> width:
            pivot = pivots.get(rest.bit_length())
            if pivot is None:
                return None
            rest ^= pivot
        return rest


class _Loads:
    """The elements that thread 0 loads, and `columns`, the summands of other threads."""

    def __init__(self, memory: _Memory, load: _Addresses) -> None:
        self._memory = memory
        self.columns = []
        for bit, address in enumerate(load.columns):
            element = memory.element(address)
            if element is None:
                who = memory.threads.thread(1 << bit)
                raise Refuted(f"{who} loads {address:#x} away from lane 0 of warp 0, where nobody stores")
            self.columns.append(element)
        # Every thread loads a stored address if the stores fill the whole coset that the threads access.
        beyond = _echelon([_reduced(memory.spanned, column) for column in load.columns])
        self._reached = _echelon((*memory.spanned.values(), *beyond.values()))
        self._whole = 1 << len(beyond)
        self._filled = [Counter([_reduced(self._reached, s) for s in starts]) for starts in memory.starts]
        # The element and the coset of an address are the sums of those of its offset and its position.
        self._positions = [(memory.element(p), _reduced(self._reached, p)) for p in load.positions]

    def elements(self, round_: int, offset: int) -> list[int | None]:
        """The elements that one access loads in thread 0, in order; None if some thread loads an address
        without a store, or the element is not known."""
        start, coset = self._memory.element(offset, round_), _reduced(self._reached, offset)
        filled = self._filled[round_]
        return [
            None if start is None or step is None or filled[coset ^ own] < self._whole else start ^ step
            for step, own in self._positions
        ]


def _add(pivots: dict[int, int], pair: int, width: int) -> int:
    """Add a pair (key, value), with the value in the low `width` bits, to the graph of a linear map.

    Returns 0, or, if the pair contradicts the map, the difference of the values of that key.
    """
    while pair >> width:
        pivot = pivots.get(pair.bit_length())
        if pivot is None:
            pivots[pair.bit_length()] = pair
            return 0
        pair ^= pivot
    return pair


def _echelon(vectors: Iterable[int]) -> dict[int, int]:
    """A basis of the span, by the bit length of its members, largest first."""
    pivots: dict[int, int] = {}
    for vector in vectors:
        _add(pivots, vector, 0)
    return dict(sorted(pivots.items(), reverse=True))


def _reduced(basis: dict[int, int], vector: int) -> int:
    """The member of `vector`'s coset that has no leading bit of the basis; linear."""
    for length, member in basis.items():
        if vector >> length - 1 & 1:
            vector ^= member
    return vector
