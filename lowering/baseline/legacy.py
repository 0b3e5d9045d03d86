"""Conversions as Triton lowered them before it had linear layouts: a baseline to measure against.

Until 2024 Triton had a case for each kind of encoding. A conversion between two of them went through shared
memory, whatever the two had in common, in rounds. The scratch has one tile, in each dimension the larger of
both sides' tiles. The tile is laid out in the order of the destination, its fastest dimension padded by the
wider vector, and a vector is as wide as the neighbours of one thread in that dimension. Barriers stand between
stores and loads, and between rounds.

`plan_legacy` plans this. `EncodingTraits` has what it needs of an encoding beyond the layout. Sources: the
behaviour of Triton 2.1.0 and 3.0.0, compared in docs/legacy.md, which also lists the differences.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from triton_linear.dialect import encodings, f2
from triton_linear.dialect.dimensions import fields
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import (
    Access,
    Cost,
    MemorySide,
    NoOpPlan,
    Padding,
    Rejected,
    Selection,
    SharedPlan,
)
from triton_linear.lowering.planners.conversion import Conversion, Hardware, conversion
from triton_linear.lowering.planners.registers import plan_noop, plan_registers
from triton_linear.lowering.planners.select import CROSSING, cost, crosses_ctas, misfit
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True, slots=True)
class EncodingTraits:
    """The traits of an encoding that the legacy lowering needs, by dimension of the tensor.

    order: dimensions, the fastest first. tile: the extent that all threads cover without repeating. contiguous:
    neighbouring elements that a thread holds. takes_other_order: the encoding has no order of its own, and the
    order of the other side is taken.
    """

    order: tuple[int, ...]
    tile: tuple[int, ...]
    contiguous: tuple[int, ...]
    takes_other_order: bool = False

    def without(self, dim: int) -> EncodingTraits:
        """The traits of a slice along `dim`.

        >>> EncodingTraits((1, 0), (8, 64), (1, 4)).without(0)
        EncodingTraits(order=(0,), tile=(64,), contiguous=(4,), takes_other_order=False)
        """
        order = tuple(d - (d > dim) for d in self.order if d != dim)
        tile, contiguous = (
            tuple(v for d, v in enumerate(values) if d != dim) for values in (self.tile, self.contiguous)
        )
        return EncodingTraits(order, tile, contiguous)


def traits_of(encoding: encodings.Encoding, shape: Sequence[int]) -> EncodingTraits:
    """The traits of an encoding for a tensor of this shape.

    For encodings that Triton did not have, or did not convert in this way, they are derived from the layout.
    """
    if isinstance(encoding, encodings.Blocked):
        size, threads, warps = encoding.size_per_thread, encoding.threads_per_warp, encoding.warps_per_cta
        return EncodingTraits(
            encoding.order, tuple(map(math.prod, zip(size, threads, warps, strict=True))), size
        )
    if isinstance(encoding, encodings.Slice):
        whole = (*shape[: encoding.dim], 1, *shape[encoding.dim :])
        return traits_of(encoding.parent, whole).without(encoding.dim)
    if isinstance(encoding, encodings.NvidiaMma):
        columns = 8 if encoding.version_major == 2 else encoding.instr_shape[1]
        # A width that is no power of two is rounded up: the tile then holds some elements twice.
        return _matrix(
            encoding.warps_per_cta, (16, 1 << (columns - 1).bit_length()), (1, 2), takes_other_order=True
        )
    if isinstance(encoding, encodings.AmdMfma):
        contiguous = (1, 4) if encoding.is_transposed else (4, 1)
        return _matrix(encoding.warps_per_cta, encoding.instr_shape[:2], contiguous, takes_other_order=False)
    takes_other_order = isinstance(encoding, encodings.DotOperand)
    return _of_layout(encodings.to_linear_layout(encoding, shape), takes_other_order)


def _matrix(
    warps: Sequence[int], instruction: Sequence[int], contiguous: tuple[int, int], *, takes_other_order: bool
) -> EncodingTraits:
    """The traits of the results of matrix instructions; a batch dimension in front has one element a warp."""
    batch = len(warps) - 2
    tile = map(math.prod, zip(warps, (*((1,) * batch), *instruction), strict=True))
    return EncodingTraits(
        tuple(reversed(range(len(warps)))), tuple(tile), (*((1,) * batch), *contiguous), takes_other_order
    )


def _of_layout(layout: LinearLayout, takes_other_order: bool) -> EncodingTraits:
    """The traits of a layout: the box that lanes and warps reach, and the neighbours among registers."""
    held = Hardware.of(layout)
    threads = functools.reduce(int.__or__, (*held.lane, *held.warp), 0)
    order = list(reversed(range(len(layout.out_dims))))
    tile, contiguous = [], []
    for position, mask in fields(layout.out_dims):
        run = 1
        while run <= mask and run << position in held.register and not threads >> position & run:
            run <<= 1
        contiguous.append(run)
        tile.append(max(run, 1 << (threads >> position & mask).bit_length()))
    order.sort(key=lambda d: -contiguous[d])
    return EncodingTraits(tuple(order), tuple(tile), tuple(contiguous), takes_other_order)


@functools.lru_cache(maxsize=4096)
def select_legacy(
    source: str, destination: str, shape: tuple[int, ...], element: ElementType, target: Target
) -> Selection:
    """The legacy plan between two encodings, given as text; its plan is None if it is left to Triton.

    Raises ValueError for unknown encodings.
    """
    sides = tuple(encodings.parse(text) for text in (source, destination))
    src, dst = (encodings.held_layout_of(text, shape, element.bits) for text in (source, destination))
    if reason := misfit(src, dst, target):
        return Selection(None, Cost(), (Rejected("any", reason),))
    conv = conversion(src, dst)
    if crosses_ctas(conv.src, conv.dst):
        return Selection(None, Cost(), (Rejected("any", CROSSING),))
    if source == destination:
        return Selection(NoOpPlan(), Cost(), ())
    if _is_shortcut(sides[0], sides[1], element):
        for attempt in (plan_noop(conv), plan_registers(conv)):
            if not isinstance(attempt, Rejected):
                return Selection(attempt, cost(attempt, element, target), ())
    if conv.src.block:
        reason = f"scratch is not laid out for clusters, here of {1 << len(conv.src.block)} CTAs"
        return Selection(None, Cost(), (Rejected("legacy", reason),))
    plan = plan_legacy(conv, src.out_dims, sides, element, target)
    return Selection(plan, cost(plan, element, target, 1 << len(conv.src.warp)), ())


def _is_shortcut(source: encodings.Encoding, destination: encodings.Encoding, element: ElementType) -> bool:
    """True if the legacy lowering recognised a renaming of registers: between results of warp groups, and from
    a result to the left operand of a dot of the same kind."""
    if not isinstance(source, encodings.NvidiaMma) or source.warps_per_cta[-1] != 1:
        return False
    if isinstance(destination, encodings.NvidiaMma):
        both_groups = source.version_major == destination.version_major == 3
        return both_groups and destination.warps_per_cta[-1] == 1
    if not isinstance(destination, encodings.DotOperand) or destination.op_idx != 0:
        return False
    return destination.parent == source and element.bits <= 16


def plan_legacy(
    conv: Conversion,
    tensor: tuple[tuple[str, int], ...],
    sides: Sequence[encodings.Encoding],
    element: ElementType,
    target: Target,
) -> SharedPlan:
    """The exchange of a conversion between two encodings, for a tensor with these dimensions.

    Requires: no element crosses CTAs.
    Ensures: every source register is stored, copies too, and every destination register loaded; all stores have
    one width, and all loads have one width; 2n - 1 barriers for n rounds.
    """
    sizes = tuple(size for _, size in tensor)
    source, destination = (traits_of(side, sizes) for side in sides)
    in_order = (destination if source.takes_other_order else source).order
    out_order = (source if destination.takes_other_order else destination).order
    rep = tuple(
        max(min(size, a), min(size, b)) for size, a, b in zip(sizes, source.tile, destination.tile, strict=True)
    )
    fast, inner = out_order[0], len(sizes) - 1
    held, wanted = (min(sizes[fast], side.contiguous[fast]) for side in (source, destination))
    # Triton stored vectors along the last dimension only, and only if it was the source's fastest.
    in_vector = held if fast == inner == in_order[0] else 1
    to_blocked = isinstance(sides[0], encodings.NvidiaMma) and isinstance(sides[1], encodings.Blocked)
    out_vector = wanted if fast == inner or to_blocked else 1
    tile = _Tile.of(tensor, rep, out_order)
    size = element.memory_bytes
    padded = len(sizes) > 1 and math.prod(rep) != rep[fast]
    padding = Padding(rep[fast] * size, max(in_vector, out_vector) * size if padded else 0)
    stores, store_threads, _, store_slots = tile.accesses(conv.src, in_vector, size, target, copies=True)
    loads, load_threads, outputs, load_slots = tile.accesses(conv.dst, out_vector, size, target, copies=False)
    return SharedPlan(
        source_registers=1 << len(conv.src.register),
        scope="cta",
        element_bytes=size,
        store=MemorySide(store_slots * size, store_threads, stores, store_slots),
        load=MemorySide(load_slots * size, load_threads, loads, load_slots),
        split=(),
        outputs=outputs,
        scratch_bytes=math.prod(rep) // rep[fast] * (padding.row_bytes + padding.bytes),
        padding=padding,
    )


@dataclass(frozen=True, slots=True)
class _Tile:
    """The place of an element: for each bit of a flattened element, the bit of (round, index in the tile), as
    one number with the index in the low `bits` bits."""

    places: tuple[int, ...]
    bits: int
    rounds: int

    @classmethod
    def of(cls, tensor: tuple[tuple[str, int], ...], rep: Sequence[int], order: Sequence[int]) -> _Tile:
        """The tile of extents `rep`, and its repetitions over the tensor, both in the same order of
        dimensions."""
        places: dict[int, int] = {}
        widths = [extent.bit_length() - 1 for extent in rep]
        for inside in (True, False):
            for dim in order:
                position, mask = fields(tensor)[dim]
                every = range(mask.bit_length())
                for bit in every[: widths[dim]] if inside else every[widths[dim] :]:
                    places[position + bit] = len(places)
        bits = sum(widths)
        return cls(tuple(1 << places[bit] for bit in range(len(places))), bits, 1 << len(places) - bits)

    def accesses(
        self, side: Hardware, vector: int, size: int, target: Target, *, copies: bool
    ) -> tuple[tuple[tuple[Access, ...], ...], tuple[int, ...], tuple[tuple[int, int, int], ...], int]:
        """The accesses by round, the byte address of each thread bit, (round, access, position) of each
        register, and the elements of an access; with `copies`, registers with the same element have an access
        each."""
        threads = [f2.multiply_vector(self.places, column) for column in (*side.lane, *side.warp)]
        registers = f2.sums(tuple(f2.multiply_vector(self.places, column) for column in side.register))
        slots = min(vector, max(1, target.max_access_bytes // size))
        while slots > 1 and not self._fit(threads, registers, slots):
            slots //= 2
        index = (1 << self.bits) - 1
        rounds: list[dict[tuple[int, int], list[int]]] = [{} for _ in range(self.rounds)]
        seen: dict[int, int] = {}
        found = []
        for register, place in enumerate(registers):
            copy = seen.get(place, 0) if copies else 0
            seen[place] = copy + 1
            round_, start = place >> self.bits, place & index & -slots
            held = rounds[round_].setdefault((start, copy), [-1] * slots)
            held[place & slots - 1] = register if held[place & slots - 1] < 0 else held[place & slots - 1]
            found.append((round_, (start, copy), place & slots - 1))
        numbers = [{key: number for number, key in enumerate(round_)} for round_ in rounds]
        accesses = tuple(
            tuple(Access(start * size, tuple(held)) for (start, _), held in round_.items()) for round_ in rounds
        )
        outputs = tuple((round_, numbers[round_][key], position) for round_, key, position in found)
        return accesses, tuple(column * size for column in threads), outputs, slots

    def _fit(self, threads: Sequence[int], registers: Sequence[int], slots: int) -> bool:
        """True if each thread holds whole vectors of `slots` elements."""
        held = set(registers)
        whole = all(place ^ step in held for place in held for step in range(1, slots))
        return whole and not any(place & slots - 1 for place in threads)
