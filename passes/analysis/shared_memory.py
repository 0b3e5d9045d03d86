"""What an access to shared memory costs in a layout of registers, and which layouts make it cheap.

Triton moves the widest vectors whose elements are registers of one thread and contiguous in memory, whichever
registers these are. The offsets of a warp's lanes determine its bank conflicts: in a layout over F2, lanes that
are served together touch 2^rank different words, in 2^rank' different banks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from triton_linear.dialect import f2
from triton_linear.dialect.encodings.shared import PARTITION
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, Value
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.shared_access import Kind
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target.memory import MemoryCosts
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.global_memory import GlobalAccess, layout_of_bits
from triton_linear.passes.analysis.widths import VECTOR, Bit
from triton_linear.passes.operations.names import COPY, LOCAL_ACCESSES, LOCAL_ALLOC
from triton_linear.passes.operations.table import named

LEAST_COPY = 4
"""Bytes of the smallest asynchronous copy (PTX ISA, cp.async)."""
_WORD = 4


def is_access(op: Operation) -> bool:
    """Whether an operation moves a tensor to shared memory or from it."""
    return op.name == COPY or (op.name in LOCAL_ACCESSES and (op.name != LOCAL_ALLOC or len(op.operands) > 0))


def sides_of(access: Operation) -> tuple[Value, Value]:
    """What an access has in registers, of a copy the pointers, and what in memory."""
    known = named(access.name)
    registers, memory = (
        access.results[0] if number is None else access.operands[number]
        for number in (known.at("pointer" if access.name == COPY else "data"), known.at("memory"))
    )
    return registers, memory


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """A store to shared memory, or a load from it.

    columns: for each dimension and bit of the tensor's coordinates, the bits of the offset in bytes that
    setting it flips. copied: for a copy, which passes no registers, its access to global memory.
    """

    columns: tuple[tuple[int, ...], ...]
    element_bytes: int
    is_store: bool
    copied: GlobalAccess | None = None
    _offsets: dict[Sequence[int], int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """A cache of offsets by basis: layouts share most of their bases."""

    @classmethod
    def of(
        cls,
        memory: LinearLayout,
        shape: Sequence[int],
        element_bytes: int,
        is_store: bool,
        copied: GlobalAccess | None = None,
    ) -> LocalAccess | None:
        """The access of a tensor of `shape`; the layout `memory` maps offsets to its coordinates.

        None if `memory` has no linear inverse on the tensor: partitioned memory, or memory of another rank.
        Requires: the memory has no padding, which a layout does not show.
        """
        if memory.num_out_dims != len(shape) or not memory.is_surjective() or memory.has_in_dim(PARTITION):
            return None
        inverse = memory.pseudoinvert()
        place = inverse.out_dim_names.index("offset")
        columns = []
        for (_, bases), size in zip(inverse.bases, shape, strict=True):
            bits = size.bit_length() - 1
            if len(bases) < bits:
                return None
            columns.append(tuple(basis[place] * element_bytes for basis in bases[:bits]))
        return cls(tuple(columns), element_bytes, is_store, copied)

    def column(self, bit: Bit) -> int:
        return self.columns[bit[0]][bit[1]]

    def offset(self, basis: tuple[int, ...]) -> int:
        """The bits of the offset that moving along a basis flips."""
        flipped = self._offsets.get(basis)
        if flipped is None:
            flipped = 0
            for columns, value in zip(self.columns, basis, strict=True):
                flipped ^= f2.multiply_vector(columns, value) if value else 0
            self._offsets[basis] = flipped
        return flipped

    def bytes_at_once(self, layout: LinearLayout) -> int:
        """How many bytes a thread accesses with one instruction.

        If registers also move within a vector, as with swizzles of less than 16 bytes, LLVM may join more
        accesses than this counts.
        """
        registers: list[int] = []
        others: list[int] = []
        for name, vectors in layout.bases:
            (registers if name == REGISTER else others).extend(map(self.offset, vectors))
        width = self.element_bytes
        while width < VECTOR and width in registers:
            if any(offset & width for offset in (*registers, *others) if offset != width):
                break
            width *= 2
        if self.copied is not None:
            leading = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
            width = min(width, self.element_bytes << self.copied.vector_bits(leading))
        return width

    def copies_rightly(self, layout: LinearLayout) -> bool:
        """True if registers that are contiguous in shared memory are contiguous in global memory, in the same
        order, and enough for one asynchronous copy. Triton's lowering only uses the first address of each
        run."""
        if self.copied is None:
            return True
        leading = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
        offsets = [self.offset(basis) for basis in leading]
        width, run = self.element_bytes, 0
        for offset in offsets[: self.copied.vector_bits(leading)]:
            if offset != width:
                break
            width, run = 2 * width, run + 1
        longer = width < VECTOR and width in offsets
        return width >= LEAST_COPY and not longer and not any(offset % width for offset in offsets[run:])

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def wavefronts(self, layout: LinearLayout, target: Target) -> int:
        """Wavefronts that a warp takes for all its registers."""
        bases = dict(layout.bases)
        registers = [o for o in map(self.offset, bases[REGISTER]) if o]
        lanes = [self.offset(basis) for basis in bases[LANE]]
        size = self.bytes_at_once(layout)
        return self.kind(len(lanes), target).wavefronts(tuple(registers), size, lanes)

    def kind(self, lane_bits: int, target: Target) -> Kind:
        """The kind of this access by a warp of 2^`lane_bits` lanes."""
        name = STORE if self.is_store else LOAD
        return Kind(name, self.element_bytes, target, lane_bits, self.copied is not None)

    def clocks(self, layout: LinearLayout, target: Target) -> float:
        """Clocks of one warp for all its registers."""
        return self.wavefronts(layout, target) * target.costs.wavefront + self.packs(layout) * target.costs.alu

    def copy_clocks(self, layout: LinearLayout, costs: MemoryCosts) -> tuple[float, float]:
        """The clocks of a copy in global memory, as `GlobalAccess.clocks`. Requires: the access is a copy."""
        assert self.copied is not None
        return self.copied.clocks(layout, costs, self.bytes_at_once(layout))

    def fewest(self, shape: Sequence[int], warps: int, target: Target) -> int:
        """The fewest wavefronts of a warp: each is full, and 2^`warps` warps share the tensor evenly."""
        size = self.element_bytes
        for extent in shape:
            size *= extent
        return max(1, size // (target.most_bytes(STORE if self.is_store else LOAD) << warps))

    def fewest_of(self, layout: LinearLayout, target: Target) -> int:
        """The fewest wavefronts of a warp with the elements that it holds in `layout`: each is full."""
        bases = dict(layout.bases)
        element_bits = f2.rank([self.offset(basis) for basis in (*bases[REGISTER], *bases[LANE])])
        full = target.most_bytes(STORE if self.is_store else LOAD)
        return max(1, (self.element_bytes << element_bits) // full)

    def packs(self, layout: LinearLayout) -> int:
        """Instructions of a thread that pack elements narrower than a word from several registers.

        None are needed if the leading registers are the elements of a word: they are packed already, by a load
        or a cast.
        """
        if self.copied is not None or self.element_bytes >= _WORD:
            return 0
        registers = [offset for offset in map(self.offset, dict(layout.bases)[REGISTER]) if offset]
        inside = (_WORD // self.element_bytes).bit_length() - 1
        if all(offset < _WORD for offset in registers[:inside]):
            return 0
        return 1 << f2.rank(registers)


@functools.lru_cache(maxsize=512)
def layouts(
    local: LocalAccess,
    access: GlobalAccess | None,
    shape: tuple[int, ...],
    lanes: int,
    warps: int,
    target: Target,
) -> tuple[LinearLayout, ...]:
    """Layouts in which a tensor is cheap to move between global and shared memory.

    With an access to global memory: the cheapest layout for both accesses, and the cheapest with either one
    weighted more. Without: the cheapest layouts of each vector width; of several, the one with the fewest and
    the one with the most lanes along the vectors; and those of matrix instructions, if they are as cheap.

    `lanes` and `warps` count bits.
    """
    candidates = (
        layout for layout in _candidates(local, access, shape, lanes, warps) if local.copies_rightly(layout)
    )
    if access is not None:
        return _cheapest_for_both(local, access, candidates, target)
    clocks_by_layout = {layout: local.clocks(layout, target) for layout in candidates}
    if not clocks_by_layout:
        return ()
    matrices = {
        layout: local.clocks(layout, target) for layout in _by_matrices(local, shape, lanes, warps, target)
    }
    least = min((*clocks_by_layout.values(), *matrices.values()))
    widths: dict[int, list[LinearLayout]] = {}
    for layout, clocks in clocks_by_layout.items():
        if clocks == least:
            widths.setdefault(local.bytes_at_once(layout), []).append(layout)
    suiting = [layout for layout, clocks in matrices.items() if clocks == least]
    return (*(layout for ties in widths.values() for layout in (ties[0], ties[-1])), *suiting)


def _cheapest_for_both(
    local: LocalAccess, access: GlobalAccess, candidates: Iterable[LinearLayout], target: Target
) -> tuple[LinearLayout, ...]:
    """The cheapest candidate by the sum of both costs."""
    best: tuple[float, LinearLayout] | None = None
    for layout in candidates:
        here = local.clocks(layout, target)
        if best is not None and best[0] <= here:
            continue  # dearer, whatever its cost in global memory
        of_global = local.copy_clocks if local.copied else access.clocks
        clocks = here + sum(of_global(layout, target.memory))
        if best is None or clocks < best[0]:
            best = clocks, layout
    return () if best is None else best[1:]


def _candidates(
    local: LocalAccess, access: GlobalAccess | None, shape: Sequence[int], lanes: int, warps: int
) -> Iterator[LinearLayout]:
    """Candidate layouts: each vector width in shared and in global memory, combined with each number of lanes
    along global memory; no layout twice."""
    inside, across = _orders(local, shape)
    room = len(inside) - lanes - warps
    if room < 0:
        return
    outside = access.by_distance(shape) if access is not None else across
    widest = access.widest(outside, room) if access is not None else 0
    run = 0
    while (
        run < room
        and local.element_bytes << run < VECTOR
        and local.column(inside[run]) == local.element_bytes << run
    ):
        run += 1
    banks = {bit: local.column(bit) % 128 for bit in inside}
    seen: set[tuple[Bit, ...]] = set()
    for stored, loaded in itertools.product(range(run + 1), range(widest + 1)):
        leading = [*outside[:loaded], *(bit for bit in inside[:stored] if bit not in outside[:loaded])]
        if len(leading) > room:
            continue
        rest = [bit for bit in outside if bit not in leading]
        span: dict[int, int] = {}
        for along in range(lanes + 1):
            if along < min(lanes, len(rest)) and f2.enlarges(span, banks[rest[along]]):
                continue  # this bit would come first in any case: the lanes are those of the next number
            taken = choose_lanes(banks, rest[:along], rest[along:], lanes)
            left = [bit for bit in rest if bit not in taken]
            registers = [*leading, *left[warps:]]
            # All candidates have as many lanes and warps, so the bits in this order identify the layout.
            places = (*registers, *taken, *left[:warps])
            if places in seen:
                continue
            seen.add(places)
            yield layout_of_bits(shape, registers, taken, left[:warps], (lanes, warps))


def _orders(local: LocalAccess, shape: Sequence[int]) -> tuple[list[Bit], list[Bit]]:
    """The bits of the coordinates as they lie in memory, and those across its fastest dimension first."""
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    inside = sorted(bits, key=lambda bit: (local.column(bit).bit_length(), bit))
    return inside, sorted(inside, key=lambda bit: bit[0] == inside[0][0])


def _by_matrices(
    local: LocalAccess, shape: Sequence[int], lanes: int, warps: int, target: Target
) -> Iterator[LinearLayout]:
    """For each matrix instruction a layout that suits it: its rows lie along memory, and bits that reach other
    banks number them.

    A tensor that is transposed between two such layouts has rows in the place of columns, which is what the
    instructions with `.trans` want.
    """
    inside, across = _orders(local, shape)
    at, size = {local.column(bit): bit for bit in inside}, local.element_bytes
    banks = {bit: offset % target.wavefront_bytes for offset, bit in at.items()}
    for form in (FORMS[name] for name in (target.store_matrix if local.is_store else target.load_matrix)):
        offsets = [size << place for place in range((form.row_bytes // size).bit_length() - 1)]
        unit = len(offsets) - len(form.row)
        if unit < 0 or not set(offsets) <= set(at):
            continue
        row = [at[offset] for offset in offsets]
        ends = max(place for place, name in enumerate(form.lanes) if name.startswith("l")) + 1
        rest = [bit for bit in across if bit not in row]
        rows = choose_lanes(banks, (), rest, ends)
        left = [bit for bit in rest if bit not in rows]
        places = dict(zip(form.lanes[:ends], rows, strict=False))
        places |= {f"l{lane}": bit for lane, bit in zip(form.row, row[unit:], strict=True)}
        taken = [places[name] for name in sorted(places) if name.startswith("l")]
        if len(taken) != lanes or len(left) < warps:
            continue
        registers = [*row[:unit], *(bit for name, bit in places.items() if name.startswith("r")), *left[warps:]]
        yield layout_of_bits(shape, registers, taken, left[:warps], (lanes, warps))


def choose_lanes(banks: Mapping[Bit, int], along: Sequence[Bit], rest: Sequence[Bit], lanes: int) -> list[Bit]:
    """The bits for lanes: those of `along`, filled up from `rest`; bits that reach other `banks` come first."""
    span: dict[int, int] = {}
    first: list[Bit] = []
    last: list[Bit] = []
    for bit in along:
        (first if f2.enlarges(span, banks[bit]) else last).append(bit)
    for bit in rest:
        if len(first) + len(last) >= lanes:
            break
        if f2.enlarges(span, banks[bit]):
            first.append(bit)
    fill = [bit for bit in rest if bit not in first]
    return [*first, *last, *fill[: lanes - len(first) - len(last)]]
