"""What an access to shared memory costs in a layout of registers, and which layouts make it cheap.

Triton moves the widest vectors whose elements are registers of a thread and neighbours in memory; which
registers these are does not matter. The offsets of a warp's lanes decide how often its banks are asked: in a
layout over F2, lanes that are served together touch 2^rank different words, in 2^rank' different banks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_linear.dialect import f2
from triton_linear.dialect.encodings.shared import PARTITION
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target.memory import MemoryCosts
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.global_memory import GlobalAccess, layout_of_bits
from triton_linear.passes.analysis.widths import VECTOR, Bit

LEAST_COPY = 4
"""Bytes of the smallest asynchronous copy (PTX ISA, cp.async)."""
_ROW_BYTES = 16
_LANE_BITS = 5
_WORD = 4


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """A store to shared memory, or a load from it.

    columns: for each dimension and bit of the tensor's coordinates, what setting it changes of the offset in
    bytes, by exclusive or. copied: where elements come from if they do not pass through registers.
    """

    columns: tuple[tuple[int, ...], ...]
    element_bytes: int
    is_store: bool
    copied: GlobalAccess | None = None

    @classmethod
    def of(
        cls,
        memory: LinearLayout,
        shape: Sequence[int],
        element_bytes: int,
        is_store: bool,
        copied: GlobalAccess | None = None,
    ) -> LocalAccess | None:
        """An access of a tensor of this shape, where `memory` takes offsets to its coordinates.

        None where that has no linear inverse on the tensor: memory in partitions, or of another rank.
        Requires: no padding, which a layout does not tell of.
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

    def offset(self, basis: Sequence[int]) -> int:
        """What following a basis changes of the offset."""
        offset = 0
        for axis, value in enumerate(basis):
            bit = 0
            while value >> bit:
                if value >> bit & 1:
                    offset ^= self.columns[axis][bit]
                bit += 1
        return offset

    def bytes_at_once(self, layout: LinearLayout, most: int = VECTOR) -> int:
        """How wide a thread's accesses are.

        Where registers move within a vector as well, as swizzles of less than 16 bytes make them, LLVM joins
        some.
        """
        bases = dict(layout.bases)
        registers = [self.offset(basis) for basis in bases[REGISTER]]
        others = [self.offset(basis) for name, vectors in layout.bases for basis in vectors if name != REGISTER]
        width = self.width_of(registers, others, most)
        if self.copied is not None:
            leading = [basis for basis in bases[REGISTER] if any(basis)]
            width = min(width, self.element_bytes << self.copied.vector_bits(leading))
        return width

    def copies_rightly(self, layout: LinearLayout) -> bool:
        """Whether registers that are neighbours in shared memory are neighbours in global memory, in order, and
        enough of them for a copy. Triton's lowering of copies takes the first address of each such run."""
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

    def wavefronts(self, layout: LinearLayout, target: Target) -> int:
        """Wavefronts of 128 bytes that a warp takes for all its registers."""
        bases = dict(layout.bases)
        registers = [o for o in map(self.offset, bases[REGISTER]) if o]
        lanes = [self.offset(basis) for basis in bases[LANE]]
        size = self.bytes_at_once(layout, target.max_access_bytes)
        return self.wavefronts_of(registers, lanes, size, target)

    def width_of(self, registers: Sequence[int], others: Sequence[int], most: int) -> int:
        """How wide accesses are where registers and threads have these offsets."""
        width = self.element_bytes
        while width < most and width in registers:
            if any(offset & width for offset in (*registers, *others) if offset != width):
                break
            width *= 2
        return width

    def wavefronts_of(self, registers: Sequence[int], lanes: Sequence[int], size: int, target: Target) -> int:
        """Wavefronts of a warp whose registers and lanes have these offsets, `size` bytes a thread at once."""
        count = 1 << (_rank(tuple(registers)) - (size // self.element_bytes).bit_length() + 1)
        service = target.service(STORE if self.is_store else LOAD, size)
        together = [f2.multiply_vector(lanes, lane) for lane in service.lanes]
        phases = max(1, (1 << len(lanes)) // service.count)
        plain = count * phases * _conflicts(together, size, service.banks, target)
        return min(plain, self._matrix_wavefronts(registers, lanes, target) or plain)

    def clocks(self, layout: LinearLayout, target: Target) -> float:
        """Clocks of one warp for all its registers."""
        return self.wavefronts(layout, target) * target.costs.wavefront + self.packs(layout) * target.costs.alu

    def copy_clocks(self, layout: LinearLayout, costs: MemoryCosts) -> tuple[float, float]:
        """What a copy takes in global memory; see `Access.clocks`. Requires: it is a copy."""
        assert self.copied is not None
        return self.copied.clocks(layout, costs, self.bytes_at_once(layout))

    def _matrix_wavefronts(self, registers: Sequence[int], lanes: Sequence[int], target: Target) -> int | None:
        """The same with `stmatrix` or `ldmatrix` or with loads that transpose, None where they do not fit.

        A row is 16 bytes, the words of four lanes, and there are eight; or, transposed, the half-words of eight
        lanes, each of which has two.
        """
        if target.vendor == "amd":
            return None if self.is_store else self._transposing_wavefronts(registers, lanes, target)
        fits = target.store_matrix if self.is_store else target.load_matrix
        if not fits or self.copied is not None or self.element_bytes > _WORD or len(lanes) != _LANE_BITS:
            return None
        word = [self.element_bytes << bit for bit in range((_WORD // self.element_bytes).bit_length() - 1)]
        if set(word) <= set(registers) and list(lanes[:2]) == [4, 8]:
            outer, rows = [offset for offset in registers if offset not in word], list(lanes[2:])
        elif self.element_bytes == 2 and registers and list(lanes[2:]) == [2, 4, 8]:
            outer, rows = list(registers[1:]), [registers[0], *lanes[:2]]
        else:
            return None
        if any(offset % _ROW_BYTES for offset in (*rows, *outer)):
            return None
        return (1 << f2.rank(outer)) * _conflicts(rows, _ROW_BYTES, target.banks, target)

    def _transposing_wavefronts(
        self, registers: Sequence[int], lanes: Sequence[int], target: Target
    ) -> int | None:
        """With an instruction of `transposing.FORMS` whose rows are of these elements."""
        for form in (FORMS[name] for name in target.load_matrix):
            row = [form.unit << place for place in range(len(form.row))]
            fits = form.unit == self.element_bytes and [lanes[lane] for lane in form.row] == row
            if not fits or len(registers) < form.register_bits or self.copied is not None:
                continue
            columns = {f"l{lane}": offset for lane, offset in enumerate(lanes)}
            columns |= {f"r{bit}": registers[bit] for bit in range(form.register_bits)}
            named = [columns[source] for source in form.lanes]
            outer = registers[form.register_bits :]
            if any(offset % form.row_bytes for offset in (*named, *outer)):
                continue
            service = target.service(LOAD, form.row_bytes)
            together = [f2.multiply_vector(named, lane) for lane in service.lanes]
            phases = target.lanes // service.count << f2.rank(outer)
            return phases * _conflicts(together, form.row_bytes, service.banks, target)
        return None

    def fewest(self, shape: Sequence[int], warps: int, target: Target) -> int:
        """Wavefronts of a warp if every one is full, the tensor being shared out evenly."""
        size = self.element_bytes
        for extent in shape:
            size *= extent
        return max(1, size // (target.most_bytes(STORE if self.is_store else LOAD) << warps))

    def fewest_of(self, layout: LinearLayout, target: Target) -> int:
        """Wavefronts of a warp that holds what it does in `layout`, if every one is full."""
        bases = dict(layout.bases)
        held = f2.rank([self.offset(basis) for basis in (*bases[REGISTER], *bases[LANE])])
        full = target.most_bytes(STORE if self.is_store else LOAD)
        return max(1, (self.element_bytes << held) // full)

    def packs(self, layout: LinearLayout) -> int:
        """Instructions of a thread that put elements of less than a word together from several registers.

        The leading registers are those that come in a word, from memory or from a cast.
        """
        if self.copied is not None or self.element_bytes >= _WORD:
            return 0
        registers = [offset for offset in map(self.offset, dict(layout.bases)[REGISTER]) if offset]
        inside = (_WORD // self.element_bytes).bit_length() - 1
        if all(offset < _WORD for offset in registers[:inside]):
            return 0
        return 1 << f2.rank(registers)


_rank = functools.lru_cache(maxsize=4096)(f2.rank)


def _conflicts(lanes: Sequence[int], size: int, bank_count: int, target: Target) -> int:
    """How often the bank that is asked most is asked, by lanes with these offsets for `size` bytes each."""
    return _most_asked(tuple(sorted(lanes)), size, bank_count, target.bank_bytes)  # in any order


@functools.lru_cache(maxsize=4096)
def _most_asked(lanes: tuple[int, ...], size: int, bank_count: int, bank_bytes: int) -> int:
    inside = [1 << bit for bit in range((size // bank_bytes).bit_length() - 1)]
    words = [offset // bank_bytes for offset in lanes]
    banks = [word % bank_count for word in words]
    return 1 << (f2.rank([*words, *inside]) - f2.rank([*banks, *inside]))


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

    The cheapest for both, and the cheapest where either counts more. Without an access to global memory
    the cheapest of each width; of those that are as cheap, one with few lanes along the vectors and one with
    many.

    `lanes` and `warps` count bits.
    """
    found: dict[LinearLayout, tuple[float, float]] = {}
    for layout in _tried(local, access, shape, lanes, warps):
        if not local.copies_rightly(layout):
            continue
        there = 0.0
        if access is not None:
            clocks = local.copy_clocks if local.copied else access.clocks
            there = sum(clocks(layout, target.memory))
        found[layout] = local.clocks(layout, target), there
    if not found:
        return ()
    if access is not None:
        one_side = target.policy.one_side
        return tuple(
            min(found, key=lambda layout: found[layout][0] + weight * found[layout][1])
            for weight in (1.0, one_side, 1 / one_side)
        )
    least = min(here for here, _ in found.values())
    widths: dict[int, list[LinearLayout]] = {}
    for layout, (here, _) in found.items():
        if here == least:
            widths.setdefault(local.bytes_at_once(layout), []).append(layout)
    chosen: list[LinearLayout] = []
    for same in widths.values():
        best = min(found[layout][0] for layout in same)
        ties = [layout for layout in same if found[layout][0] == best]
        chosen += ties[0], ties[-1]
    return tuple(chosen)


def _tried(
    local: LocalAccess, access: GlobalAccess | None, shape: Sequence[int], lanes: int, warps: int
) -> Iterator[LinearLayout]:
    """Every width of vectors on either side and every number of lanes along global memory; no layout twice."""
    bits: list[Bit] = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    room = len(bits) - lanes - warps
    if room < 0:
        return
    inside = sorted(bits, key=lambda bit: (local.column(bit).bit_length(), bit))
    across = sorted(inside, key=lambda bit: bit[0] == inside[0][0])
    outside = access.by_distance(shape) if access is not None else across
    widest = access.widest(outside, room) if access is not None else 0
    run = 0
    while (
        run < room
        and local.element_bytes << run < VECTOR
        and local.column(inside[run]) == local.element_bytes << run
    ):
        run += 1
    seen: set[tuple[Bit, ...]] = set()
    for stored, loaded in itertools.product(range(run + 1), range(widest + 1)):
        leading = [*outside[:loaded], *(bit for bit in inside[:stored] if bit not in outside[:loaded])]
        if len(leading) > room:
            continue
        rest = [bit for bit in outside if bit not in leading]
        for along in range(lanes + 1):
            taken = _spread(local, rest[:along], rest[along:], lanes)
            left = [bit for bit in rest if bit not in taken]
            registers = [*leading, *left[warps:]]
            places = (*registers, *taken, *left[:warps])  # the lanes and warps are as many each time
            if places in seen:
                continue
            seen.add(places)
            yield layout_of_bits(shape, registers, taken, left[:warps], (lanes, warps))


def _spread(local: LocalAccess, along: Sequence[Bit], rest: Sequence[Bit], lanes: int) -> list[Bit]:
    """The lanes `along` and others of `rest`, those first that reach other banks."""
    banks = f2.Echelon(())
    first: list[Bit] = []
    for bit in along:
        if banks.add(local.column(bit) % 128):
            first.append(bit)
    last = [bit for bit in along if bit not in first]
    for bit in rest:
        if len(first) + len(last) < lanes and banks.add(local.column(bit) % 128):
            first.append(bit)
    fill = [bit for bit in rest if bit not in first]
    return [*first, *last, *fill[: lanes - len(first) - len(last)]]
