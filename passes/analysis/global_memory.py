"""What an access to global memory costs in a layout, and which layouts make it cheap.

A thread accesses a tensor by several instructions, each of which moves a vector of neighbouring registers. The
lanes of a warp touch some 32-byte sectors with one instruction. If several instructions of a warp touch the
same sector, or several warps do, loads get it from the L1 cache, but stores write it several times.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Sequence

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.memory import MemoryCosts
from triton_linear.passes.analysis import widths
from triton_linear.passes.analysis.addressing import Affine, Mask, is_constant
from triton_linear.passes.analysis.clusters import blocks_of, part_of, pieces_of
from triton_linear.passes.analysis.widths import VECTOR, Basis, Bit, Vector

SECTOR = 32
LEAST_LINE_BYTES = 64
"""The least bytes of a line that one instruction covers in a layout that is made to be near another:
bench/accesses has 1.1 times the clocks for loads of 64 of 128 bytes."""


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """A load or store: its pointers (deltas in bytes), mask, and bytes per element.

    given: the layout that Triton chose, if the analysis of the pointers does not show which dimension is
    contiguous in memory. Then `fastest`, the dimension that is fastest in this layout, is assumed to be. The
    assumption is used for the cost of an access, never for its width, and no other layout is priced below the
    given one.
    """

    pointer: Affine
    mask: Mask | None
    element_bytes: int
    is_store: bool
    given: LinearLayout | None = None
    fastest: int | None = None

    def delta(self, bit: Bit) -> int | None:
        """The distance in bytes by which a bit of the coordinates moves; None if it is unknown."""
        known = self.pointer.deltas[bit[0]][bit[1]]
        if known is None and self.given is not None and bit[0] == self.fastest:
            return self.element_bytes << bit[1]
        return known

    def vector(self, registers: Sequence[Basis], others: Sequence[Basis] = (), most: int = VECTOR) -> Vector:
        """What one instruction of up to `most` bytes covers after `linear-widen-accesses`."""
        return widths.widest(self.pointer, self.mask, self.element_bytes, registers, others, most)

    def vector_bits(self, registers: Sequence[Basis]) -> int:
        """How many of the leading register bases one instruction covers without `linear-widen-accesses`.

        Triton's rule: neighbours along the fastest dimension, as far as pointers are contiguous and aligned and
        the mask does not change.
        """
        count = 0
        dimension = -1
        while count < len(registers) and (self.element_bytes << (count + 1)) <= VECTOR:
            moved = [(axis, value) for axis, value in enumerate(registers[count]) if value]
            if len(moved) != 1 or moved[0][1] != 1 << count or dimension not in (-1, moved[0][0]):
                break
            dimension = moved[0][0]
            width, inside = self.element_bytes << count, {(dimension, bit) for bit in range(count + 1)}
            if self.pointer.deltas[dimension][count] != width:
                break
            if not widths.are_aligned(self.pointer, 2 * width, inside):
                break
            if self.mask is not None and not self.mask[dimension][count]:
                break
            count += 1
        return count

    def basis_delta(self, basis: Sequence[int]) -> int | None:
        """The distance in bytes by which a basis moves: the sum over its bits; None if one is unknown."""
        total = 0
        for axis, value in enumerate(basis):
            bit = 0
            while value >> bit:
                if value >> bit & 1:
                    delta = self.delta((axis, bit))
                    if delta is None:
                        return None
                    total += delta
                bit += 1
        return total

    def _differs(self, basis: Sequence[int]) -> bool:
        """True if the basis moves to another address, or if the mask may change along it."""
        if self.basis_delta(basis) != 0:
            return True
        return self.mask is not None and not is_constant(basis, self.mask)

    def _contiguous_bytes(self, deltas: Sequence[int | None]) -> int:
        """Contiguous bytes that an instruction covers if its bases move by `deltas`."""
        length = self.element_bytes
        while length in deltas:
            length *= 2
        return length

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def clocks(self, layout: LinearLayout, costs: MemoryCosts, most: int = VECTOR) -> tuple[float, float]:
        """Clocks of one warp, averaged over the warps of the CTA: of memory, and to issue the instructions. An
        instruction moves up to `most` bytes for each lane."""
        memory, issued = self._clocks(layout, costs, most)
        if self.given is not None and layout != self.given:
            memory = max(memory, self.clocks(self.given, costs, most)[0])
        return memory, issued

    def _clocks(self, layout: LinearLayout, costs: MemoryCosts, most: int) -> tuple[float, float]:
        bases = dict(layout.bases)
        registers = [basis for basis in bases[REGISTER] if any(basis)]
        lanes = [basis for basis in bases[LANE] if any(basis)]
        warps = bases.get(WARP, ())
        if not self.is_store:  # registers with the same address are loaded once
            registers = [basis for basis in registers if self._differs(basis)]
        covered = self.vector(registers, [*lanes, *warps], most)
        vector = len(covered.bits)
        instructions = 1 << len(covered.left)
        along = [*map(self.delta, covered.bits), *map(self.basis_delta, covered.left)]
        across = list(map(self.basis_delta, lanes))
        together = [*along[:vector], *across]
        run = min(128, self._contiguous_bytes(together))
        total = instructions * float(1 << sum(map(_leaves_sector, together)))
        strided = _strides_over(along[vector:], across)
        if strided:
            total *= costs.skipped
        if self.is_store:
            share = 1 / (1 << sum(not any(basis) for basis in warps))
            part = costs.part(run, is_store=True)
            return total * costs.sector * part * share, instructions * costs.instruction * share
        part = costs.part(run, is_store=False)
        unique = float(1 << sum(map(_leaves_sector, (*along, *across))))
        unique *= costs.skipped if strided else 1.0
        unique = min(total, unique)
        # If several warps load the same sectors, all but one get them from the cache.
        share = 1 / (1 << _within_sector(map(self.basis_delta, warps)))
        again = (total - unique * share) * costs.cached_sector
        return unique * share * costs.sector * part + again, instructions * costs.instruction

    def by_distance(self, shape: Sequence[int]) -> list[Bit]:
        """The bits of the tensor's coordinates, by the distance that they move in memory, the least first; bits
        that move by 0 come last, unknown ones in between."""
        bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]

        def rank(bit: Bit) -> tuple[int, int, int, int]:
            delta = self.delta(bit)
            if delta is None:
                return 1, bit[1], -bit[0], 0
            return (0 if delta else 2), abs(delta), -bit[0], bit[1]

        return sorted(bits, key=rank)

    def widest(self, order: Sequence[Bit], most: int) -> int:
        """How many of the first bits of `order` a vector can hold, `most` at most."""
        rank = len(self.pointer.deltas)
        covered = self.vector([basis_of(bit, rank) for bit in order[: max(0, most)]]).bits
        return len(covered) if set(covered) == set(order[: len(covered)]) else 0


def is_unplaced(pointer: Affine) -> bool:
    """True if the pointers do not show which dimension is contiguous in memory: no known delta is smaller than
    a sector, and some deltas are unknown."""
    if any(bits and bits[0] is not None and 0 < abs(bits[0]) < SECTOR for bits in pointer.deltas):
        return False
    return any(None in bits for bits in pointer.deltas)


_ORDER = re.compile(r"order = \[(\d+)")


def fastest_dimension(encoding: str, layout: LinearLayout) -> int | None:
    """The dimension along which a layout that Triton chose for an access has neighbours in memory: the first
    one of its order, or that of neighbours in a thread or else a warp.

    Strides that are arguments of a kernel could have any value. In practice, kernels have the stride of 1 in
    the dimension that Triton takes for the fastest.

    >>> bases = {"register": [(1, 0)], "lane": [(0, 1), (0, 2)]}
    >>> layout = LinearLayout.from_bases(bases, ["dim0", "dim1"])
    >>> [fastest_dimension(text, layout) for text in ("#ttg.linear<...>", "#ttg.blocked<{order = [1, 0]}>")]
    [0, 1]
    """
    if encoding.startswith("#ttg.blocked") and (order := _ORDER.search(encoding)):
        return int(order[1])
    bases = dict(layout.bases)
    for basis in (*bases[REGISTER], *bases[LANE]):
        moved = [(axis, value) for axis, value in enumerate(basis) if value]
        if len(moved) == 1 and moved[0][1] == 1:
            return moved[0][0]
    return None


def _leaves_sector(delta: int | None) -> bool:
    """True if a basis that moves by `delta` bytes leads to another sector."""
    return delta is None or abs(delta) >= SECTOR


def _within_sector(deltas: Iterable[int | None]) -> int:
    """How many of the bases that move by `deltas` bytes together do not lead to another sector.

    >>> _within_sector([8, 16, 64]), _within_sector([12, 24]), _within_sector([0, None])
    (2, 1, 1)
    """
    count = reached = 0
    for delta in sorted(abs(delta) for delta in deltas if delta is not None):
        reached += delta
        count += reached < SECTOR
    return count


def _strides_over(later: Sequence[int | None], lanes: Sequence[int | None]) -> bool:
    """True if later instructions touch sectors that lie between those of the lanes of one instruction. `later`
    and `lanes` are deltas of bases."""
    far, between = ([abs(d) for d in side if d is not None and _leaves_sector(d)] for side in (lanes, later))
    return bool(far and between) and min(between) < max(far)


@functools.cache
def basis_of(bit: Bit, rank: int) -> tuple[int, ...]:
    """The basis that moves along one bit of the coordinates."""
    return tuple(1 << bit[1] if axis == bit[0] else 0 for axis in range(rank))


def layout_of_bits(
    shape: Sequence[int],
    registers: Sequence[Bit],
    lanes: Sequence[Bit],
    warps: Sequence[Bit],
    sizes: tuple[int, int],
) -> LinearLayout:
    """The layout with these bits in registers, lanes and warps, in this order; zero bases (copies) fill lanes
    and warps up to the numbers of bits `sizes`."""
    rank = len(shape)
    zero = (0,) * rank

    def bases(bits: Sequence[Bit], size: int) -> tuple[tuple[int, ...], ...]:
        return (*[basis_of(bit, rank) for bit in bits], *((zero,) * (size - len(bits))))

    return LinearLayout.fitted(
        (
            (REGISTER, bases(registers, len(registers))),
            (LANE, bases(lanes, sizes[0])),
            (WARP, bases(warps, sizes[1])),
            ("block", ()),
        ),
        tuple(zip(dim_names(rank), shape, strict=True)),
    )


@functools.lru_cache(maxsize=2048)
def coalesced(access: GlobalAccess, shape: tuple[int, ...], lanes: int, warps: int) -> LinearLayout:
    """The layout of least cost: the widest vectors, then lanes, warps and registers by distance in memory.

    `lanes` and `warps` count bits.
    """
    order = access.by_distance(shape)
    vector = access.widest(order, len(order) - lanes - warps)
    rest = order[vector:]
    return layout_of_bits(
        shape,
        [*order[:vector], *rest[lanes + warps :]],
        rest[:lanes],
        rest[lanes : lanes + warps],
        (lanes, warps),
    )


@functools.lru_cache(maxsize=2048)
def meeting(
    first: GlobalAccess, second: GlobalAccess, shape: tuple[int, ...], lanes: int, warps: int
) -> tuple[LinearLayout, LinearLayout] | None:
    """Layouts for two accesses of one tensor in which each warp holds the same elements: a conversion between
    them stays within warps.

    The warps get the bits that move far in memory for both accesses, so that a warp has whole sectors in both.
    None if the tensor is too small. `lanes` and `warps` count bits.
    """
    orders = first.by_distance(shape), second.by_distance(shape)
    if len(orders[0]) < lanes + warps:
        return None
    place = [{bit: index for index, bit in enumerate(order)} for order in orders]

    def nearest(bit: Bit) -> tuple[int, int]:
        near, far = sorted((place[0][bit], place[1][bit]))
        return near, far

    shared = sorted(orders[0], key=nearest)[len(orders[0]) - warps :]
    layouts = []
    for access, order in zip((first, second), orders, strict=True):
        inside = [bit for bit in order if bit not in shared]
        vector = access.widest(inside, len(inside) - lanes)
        rest = inside[vector:]
        layouts.append(
            layout_of_bits(shape, [*inside[:vector], *rest[lanes:]], rest[:lanes], shared, (lanes, warps))
        )
    return layouts[0], layouts[1]


@functools.lru_cache(maxsize=2048)
def near(access: GlobalAccess, other: LinearLayout, shape: tuple[int, ...], run: int) -> LinearLayout | None:
    """A cheap layout for `access` in which each warp holds the same elements as in `other`, with few
    differences within warps: whole vectors, and contiguous lanes until an instruction covers `run` contiguous
    bytes.

    None if a basis of `other` is not exactly one bit: if it holds copies, for instance.
    """
    bases = dict(other.bases)
    held = {name: [_bit_of(basis) for basis in bases.get(name, ())] for name in (REGISTER, LANE, WARP)}
    if None in held[REGISTER] or None in held[LANE] or None in held[WARP]:
        return None
    warps = [bit for bit in held[WARP] if bit is not None]
    inside = [bit for bit in access.by_distance(shape) if bit not in warps]
    count = len(held[LANE])
    vector = access.widest(inside, len(inside) - count)
    lanes: list[Bit] = []
    for bit in inside[vector : vector + count]:
        width = access.element_bytes << (vector + len(lanes))
        if width >= run or access.delta(bit) != width:
            break
        lanes.append(bit)
    taken = {*inside[:vector], *lanes}
    kept = [bit for bit in held[LANE] if bit is not None and bit not in taken]
    rest = [bit for bit in inside[vector:] if bit not in taken and bit not in kept]
    lanes = [*lanes, *kept, *rest][:count]
    registers = [*inside[:vector], *(bit for bit in inside[vector:] if bit not in lanes)]
    return layout_of_bits(shape, registers, lanes, warps, (count, len(warps)))


def _bit_of(basis: Sequence[int]) -> Bit | None:
    """The only bit along which a basis moves; None if it moves along no bit or several."""
    moved = [(axis, value) for axis, value in enumerate(basis) if value]
    if len(moved) != 1 or moved[0][1] & (moved[0][1] - 1):
        return None
    return moved[0][0], moved[0][1].bit_length() - 1


@functools.lru_cache(maxsize=4096)
def encoding_text(layout: LinearLayout) -> str:
    """The encoding that denotes `layout`: `#ttg.blocked` if possible, else `#ttg.linear`."""
    return blocked_text(layout) or encodings.linear_encoding_text(layout)


def blocked_text(layout: LinearLayout) -> str | None:
    """The `#ttg.blocked` encoding of `layout`, None if it has none.

    A dimension's bits are first those of the thread, then lanes, warps, and registers again.
    """
    rank = len(layout.out_dims)
    shape = tuple(size for _, size in layout.out_dims)
    ctas = ""
    if blocks_of(layout):
        if part_of(layout) is None:
            return None
        ctas = f", CGALayout = {[list(basis) for basis in pieces_of(layout)]}"
    registers = _neighbours_per_thread(layout)
    runs: dict[str, list[int]] = {"again": []}
    sizes = {}
    bases = dict(layout.bases)
    for name in (REGISTER, LANE, WARP):
        counts = [1] * rank
        for basis in bases.get(name, ()):
            moved = [axis for axis, value in enumerate(basis) if value]
            if len(moved) > 1:
                return None
            if moved:
                repeats = name == REGISTER and basis[moved[0]] >= registers[moved[0]]
                runs.setdefault("again" if repeats else name, []).append(moved[0])
                counts[moved[0]] *= 2
        sizes[name] = counts
    # The run of bases along the most dimensions determines the most of their order.
    longest = sorted(runs.values(), key=lambda run: -len(set(run)))
    order = list(dict.fromkeys([*itertools.chain(*longest), *range(rank - 1, -1, -1)]))
    threads, warps = sizes[LANE], sizes[WARP]
    threads[order[-1]] *= 1 << sum(not any(basis) for basis in bases[LANE])
    warps[order[-1]] *= 1 << sum(not any(basis) for basis in bases.get(WARP, ()))
    text = (
        f"#ttg.blocked<{{sizePerThread = {registers}, threadsPerWarp = {threads}, "
        f"warpsPerCTA = {warps}, order = {order}{ctas}}}>"
    )
    if encodings.layout_of(text, shape).remove_zero_bases(REGISTER) != layout.remove_zero_bases(REGISTER):
        return None
    return text


def _neighbours_per_thread(layout: LinearLayout) -> list[int]:
    """How many neighbours along each dimension the first registers of a thread hold."""
    sizes = [1] * len(layout.out_dims)
    last = -1
    for basis in dict(layout.bases)[REGISTER]:
        axis = max(range(len(basis)), key=basis.__getitem__)
        if basis[axis] != sizes[axis] or (axis != last and sizes[axis] > 1):
            break
        sizes[axis] *= 2
        last = axis
    return sizes
