"""Orders of the bits of an axis, and the order that spares a conversion."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import RegisterPlan
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.contraction.order import aligning, images, inverse, reordered_layout, shifts
from triton_linear.passes.framework.shape_changes import pieces

orders = st.integers(0, 7).flatmap(lambda bits: st.permutations(range(bits))).map(tuple)


@given(orders)
def test_an_order_and_its_inverse_are_permutations_that_undo_each_other(order: tuple[int, ...]) -> None:
    goes, back = images(order), images(inverse(order))
    assert sorted(goes) == list(range(1 << len(order)))
    assert [back[place] for place in goes] == list(range(1 << len(order)))


@given(orders)
def test_masked_and_shifted_bits_add_up_to_the_order(order: tuple[int, ...]) -> None:
    every = np.arange(1 << len(order))
    total = np.zeros_like(every)
    for distance, mask in shifts(order).items():
        part = every & mask
        total |= part << distance if distance >= 0 else part >> -distance
    assert total.tolist() == images(order)


@given(orders)
def test_pieces_change_places_as_the_bits_do(order: tuple[int, ...]) -> None:
    sizes, swapped = pieces(inverse(order))
    numbers = np.arange(1 << len(order)).reshape(sizes or (1,)).transpose(swapped or (0,)).reshape(-1)
    assert [numbers[image] for image in images(order)] == list(range(1 << len(order)))


@st.composite
def layouts_and_orders(draw: st.DrawFn) -> tuple[LinearLayout, LinearLayout, int]:
    """A layout of 64x32 over 4 warps, the same with an axis in another order and other registers, the axis."""
    bits = [(axis, bit) for axis, size in ((0, 6), (1, 5)) for bit in range(size)]
    mixed = draw(st.permutations(bits))
    parts = {LANE: mixed[:5], WARP: mixed[5:7], REGISTER: mixed[7:]}

    def layout(held: dict[str, list[tuple[int, int]]]) -> LinearLayout:
        bases = [
            (name, [tuple(1 << bit if axis == along else 0 for axis in (0, 1)) for along, bit in held[name]])
            for name in (REGISTER, LANE, WARP)
        ]
        return LinearLayout.from_bases(bases, dim_names(2))

    axis = draw(st.integers(0, 1))
    order = tuple(draw(st.permutations(range(6 - axis))))
    moved = {
        name: [(along, order[bit] if along == axis else bit) for along, bit in held]
        for name, held in parts.items()
    }
    moved[REGISTER] = draw(st.permutations(moved[REGISTER]))
    return layout(parts), layout(moved), axis


@given(layouts_and_orders())
def test_the_order_found_leaves_only_registers_to_permute(case: tuple[LinearLayout, LinearLayout, int]) -> None:
    source, wanted, axis = case
    order = aligning(source, wanted, axis)
    aligned = source if order is None else reordered_layout(source, axis, order)
    plan = select(aligned, wanted, element_type("f16"), Situation.on(target("cuda:90"))).plan
    assert isinstance(plan, RegisterPlan)


def test_no_order_where_another_axis_differs() -> None:
    a = LinearLayout.from_bases([(REGISTER, [(0, 1)]), (LANE, [(1, 0), (0, 2)])], dim_names(2))
    b = LinearLayout.from_bases([(REGISTER, [(1, 0)]), (LANE, [(0, 1), (0, 2)])], dim_names(2))
    assert aligning(a, b, 1) is None


def test_no_order_where_one_side_repeats_what_the_other_holds() -> None:
    a = LinearLayout.from_bases([(REGISTER, [(1,)]), (LANE, [(2,), (0,)])], dim_names(1))
    b = LinearLayout.from_bases([(REGISTER, [(1,)]), (LANE, [(0,), (2,)])], dim_names(1))
    assert aligning(a, b, 0) is None
