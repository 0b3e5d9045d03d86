"""Register layouts that one shape of instruction moves to and from a layout of tensor memory.

Registers and lanes take the rows and columns of the instruction's tile, the first four warps their quarters.
Of the other rows and columns, the warps behind the first four take rows first and then the last columns, and
registers take what is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_memory import access_of
from triton_linear.lowering.target.tensor_memory import (
    COL,
    QUARTER_BASES,
    ROW,
    SHAPES,
    WORD_BITS,
    TensorShape,
)

Place = tuple[int, int]


def layouts_for(memory: LinearLayout, bits: int, warps: int) -> Iterator[tuple[TensorShape, LinearLayout]]:
    """Yield (shape, register layout) for each shape that can access the memory from `warps` warps.

    Requires: `memory` is a layout of tensor memory, of elements of `bits`.
    Ensures: `access_of` gives that shape for each layout.
    """
    for shape in SHAPES:
        layout = layout_for(memory, bits, warps, shape)
        if layout is not None:
            yield shape, layout


def layout_for(memory: LinearLayout, bits: int, warps: int, shape: TensorShape) -> LinearLayout | None:
    """The register layout for a shape, or None if the shape cannot access the memory."""
    if not memory.has_in_dim(ROW) or not memory.has_in_dim(COL):
        return None
    if memory.in_dim_bits(ROW) != 7 or warps < 4 or bits > WORD_BITS:
        return None
    places = _places(memory, bits, warps, shape)
    if places is None:
        return None
    bases = {name: [_held(memory, place) for place in places[name]] for name in (REGISTER, LANE, WARP)}
    bases[BLOCK] = (
        [memory.basis(BLOCK, bit) for bit in range(memory.in_dim_bits(BLOCK))]
        if memory.has_in_dim(BLOCK)
        else []
    )
    layout = LinearLayout.from_bases(bases, memory.out_dims, require_surjective=False)
    if not layout.is_surjective():
        return None
    found = access_of(layout, memory, bits)
    return layout if not isinstance(found, Rejected) and found.shape == shape.name else None


def _places(memory: LinearLayout, bits: int, warps: int, shape: TensorShape) -> dict[str, list[Place]] | None:
    """(row, column) in elements of each register, lane and warp bit."""
    within = (WORD_BITS // bits).bit_length() - 1
    columns = memory.in_dim_bits(COL)
    used = [memory.basis(COL, bit) for bit in range(min(within, columns))]
    packed = [(0, 1 << bit) for bit, basis in enumerate(used) if any(basis)]
    spread = bits == WORD_BITS // 2 and not packed and columns > within and any(memory.basis(COL, within))
    registers = list(packed)
    if spread:
        registers.append((0, 1 << within))
    scale = within + spread
    registers += [(row, column << scale) for row, column in _bases(shape.tile, REGISTER)]
    lanes = [(row, column << scale) for row, column in _bases(shape.tile, LANE)]
    taken = {*registers, *lanes, *QUARTER_BASES}
    if any(not any(_held(memory, place)) for place in (*registers, *lanes) if _fits(memory, place)):
        return None
    if not all(_fits(memory, place) for place in (*registers, *lanes)):
        return None
    left = [(0, 1 << bit) for bit in range(within, columns)] + [(1 << bit, 0) for bit in range(5)]
    left = [place for place in left if place not in taken and any(_held(memory, place))]
    if shape.halves:
        if not left:
            return None
        # Rows 16 to 31 if they hold elements, else the last columns.
        upper = left[-1]
        lanes.append(upper)
        left.remove(upper)
    more: list[Place] = []
    for _ in range(warps.bit_length() - 3):
        last = left[-1] if left else (0, 0)
        more.append(last)
        if last in left:
            left.remove(last)
    return {REGISTER: registers + left, LANE: lanes, WARP: [*QUARTER_BASES, *more]}


def _bases(layout: LinearLayout, name: str) -> list[Place]:
    found = layout.transpose_outs((ROW, COL))
    return [(row, column) for row, column in (found.basis(name, bit) for bit in range(found.in_dim_bits(name)))]


def _fits(memory: LinearLayout, place: Place) -> bool:
    return place[0] < memory.in_dim_size(ROW) and place[1] < memory.in_dim_size(COL)


def _held(memory: LinearLayout, place: Place) -> tuple[int, ...]:
    """The tensor coordinates of the element at a place."""
    inputs = dict.fromkeys(memory.in_dim_names, 0) | {ROW: place[0], COL: place[1]}
    return tuple(memory.apply(inputs).values())
