"""How reductions are taken apart, and what the pass makes of modules."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_support import (
    H200,
    INSIDE,
    LINE,
    ROWS,
    asked,
    compare,
    inputs,
    module,
    named,
    parsed,
    patterns,
    taken_apart,
)
from strategies import dealt_layouts

from bench.whole_kernels import LOWERING, lower_kernel, registers_of
from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, installed_release
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import TARGETS, Target, target, with_policy
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions import costs, ways
from triton_linear.passes.reductions.costs import Combined, as_triton
from triton_linear.passes.reductions.region import commutes
from triton_linear.passes.reductions.split import Split, gathered, split, spread
from triton_linear.passes.reductions.split_reductions import SplitReductions


@st.composite
def splits(draw: st.DrawFn) -> tuple[LinearLayout, int, Split]:
    """Layouts whose reduction along some axis can be taken apart."""
    layout = draw(dealt_layouts(max_bits=3))
    axis = draw(st.integers(0, len(layout.out_dims) - 1))
    found = split(layout, axis, installed_release())
    if isinstance(found, str):
        layout = LinearLayout(
            ((REGISTER, ()), (LANE, ((1, 0),)), (WARP, ((0, 1), (0, 2))), ("block", ())),
            (("dim0", 2), ("dim1", 4)),
        )
        found = split(layout, axis := 1, installed_release())
        assert not isinstance(found, str)
    return layout, axis, found


def partials_of(found: Split) -> LinearLayout:
    """The layout of the partial results after reducing within warps."""
    layout = found.whole
    for axis in reversed(range(found.axis + found.crossing, found.axis + len(found.sizes))):
        layout = transfer.reduce(layout, axis)
    return layout


def crossing(layout: LinearLayout, axis: int) -> int:
    return sum(bool(basis[axis]) for basis in dict(layout.bases)[WARP])


@given(splits())
def test_the_axis_is_cut_so_that_no_element_moves(drawn: tuple[LinearLayout, int, Split]) -> None:
    """Each element is in the same places before and after, by the operations' own definitions on arrays."""
    layout, axis, found = drawn
    shape = tuple(size for _, size in layout.out_dims)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    apart = numbers.reshape((*shape[:axis], *found.pieces, *shape[axis + 1 :]))
    order = [
        *range(axis),
        *(axis + index for index in found.order),
        *range(axis + len(found.order), apart.ndim),
    ]
    whole = apart.transpose(order).reshape((*shape[:axis], *found.sizes, *shape[axis + 1 :]))
    assert tuple(size for _, size in found.whole.out_dims) == whole.shape
    places = {name: layout.in_dim_size(name) for name in layout.in_dim_names}
    for place in np.ndindex(*places.values()):
        at = dict(zip(places, place, strict=True))
        one = tuple(layout.apply(at).values())
        two = tuple(found.whole.apply(at).values())
        assert numbers[one] == whole[two]


@given(splits())
def test_what_is_reduced_within_warps_lies_within_warps(drawn: tuple[LinearLayout, int, Split]) -> None:
    layout, axis, found = drawn
    assert found.crossing == crossing(layout, axis) and math.prod(found.sizes) == math.prod(found.pieces)
    left = partials_of(found)
    for name, vectors in left.bases:
        for basis in vectors:
            along = basis[axis : axis + found.crossing]
            assert not any(along) or (name == WARP and sum(along) == 1 and sum(basis) == 1)
    if installed_release() in REDUCTIONS_CONVERT:
        assert found.inside <= 1
        return
    # Each dimension that is reduced within warps lies in lanes that are in a row, as Triton took it.
    for inner in range(axis + found.crossing, axis + len(found.sizes)):
        lanes = [lane for lane, basis in enumerate(dict(found.whole.bases)[LANE]) if basis[inner]]
        assert lanes == list(range(lanes[0], lanes[0] + len(lanes))) if lanes else True


@given(splits())
def test_partial_results_are_gathered_so_that_they_reduce_to_the_result(
    drawn: tuple[LinearLayout, int, Split],
) -> None:
    layout, axis, found = drawn
    own = ways.without_copies(transfer.reduce(layout, axis))
    for result in (own, *spread(own)):
        assert result.is_surjective() and result.out_dims == own.out_dims
        for partials, _ in (*gathered(result, found), *gathered(result, found, lanes_first=True)):
            reduced = partials
            for _ in range(found.crossing):
                assert not crossing(reduced, axis)
                reduced = transfer.reduce(reduced, axis)
            assert transfer.same_but_for_register_copies(reduced, result)
            assert partials.is_surjective()
            assert partials.out_dims == partials_of(found).out_dims


@pytest.mark.parametrize(
    ("layout", "axis", "reason"),
    [
        (layout_of(INSIDE, (16, 128)), 1, "no warp has only a part of the axis"),
        (
            layout_of("#ttg.linear<{register = [[3], [1]], lane = [], warp = [[4]], block = []}>", (8,)),
            0,
            "register=1 -> (3,) is more than one bit of a coordinate",
        ),
        (
            layout_of("#ttg.linear<{register = [[1]], lane = [[1]], warp = [[2]], block = []}>", (4,)),
            0,
            "lane=1 -> (1,) repeats another basis vector",
        ),
    ],
)
def test_layouts_that_are_not_taken_apart(layout: LinearLayout, axis: int, reason: str) -> None:
    assert split(layout, axis, installed_release()) == reason


def priced(
    way: ways.Way, found: Split, question: ways.Asked, gpu: Target, room: int | None = None
) -> Cost | None:
    """What a way costs, all of its conversions planned."""
    return costs.total(
        [
            part
            if isinstance(part, Cost)
            else costs.of_conversion(part.source, part.result, part.element, Situation.on(gpu), part.room)
            for part in ways._parts(way, found, question, gpu, room)
        ]
    )


def test_conversions_are_planned_of_ways_that_may_be_the_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(ROWS, (32, 128))
    found, question = split(layout, 1, installed_release()), asked(layout, 1, "f32", "i32")
    assert isinstance(found, Split)
    planned = []
    plan = costs.of_conversion
    monkeypatch.setattr(costs, "of_conversion", lambda *args: planned.append(args) or plan(*args))
    ways.choose.cache_clear()
    choice = ways.choose(layout, found, question, Situation.on(H200), 4)
    assert isinstance(choice, ways.Choice)
    parts = [ways._parts(way, found, question, H200, None) for way in ways._ways(found, question)]
    conversions = [part for each in parts for part in each if isinstance(part, ways.Conversion)]
    assert 0 < len(planned) < len(conversions)
    for part in conversions:
        exact = plan(part.source, part.result, part.element, Situation.on(H200))
        least = costs.least_of_conversion(part.source, part.result, part.element, H200)
        assert exact is not None and least.clocks <= exact.clocks + 1e-9 and least.latency <= exact.latency


def test_the_cheapest_way_is_taken() -> None:
    layout = layout_of(ROWS, (32, 128))
    found = split(layout, 1, installed_release())
    assert isinstance(found, Split)
    question = asked(layout, 1, "f32", "i32")
    choice = ways.choose(layout, found, question, Situation.on(H200), 4)
    assert isinstance(choice, ways.Choice)
    prices = [priced(way, found, question, H200) for way in ways._ways(found, question)]
    least = min(price.expected(8) for price in prices if price is not None)
    assert choice.after.expected(8) == least < choice.before.expected(8)
    assert choice.before == as_triton(layout, 1, Combined((32, 32), 1.0), Situation.on(H200), 4)
    assert len(prices) == 8


def test_operands_of_one_width_travel_together() -> None:
    packings = ways._packings([element_type(name) for name in ("f32", "i32", "f16", "f32", "!tt.ptr<f32>")])
    assert packings == [((0,), (1,), (2,), (3,), (4,)), ((0, 1, 3, 3), (2,), (4,))]
    elements = [element_type(name) for name in ("f16", "f16", "bf16")]
    assert [ways.packed_element(pack, elements).name for pack in ((0, 1), (0, 1, 2, 2))] == ["f16", "i16"]
    assert ways._packings([element_type("i1")] * 2) == [((0,), (1,))]


def test_a_result_that_is_only_wanted_in_another_layout_is_gathered_in_it() -> None:
    text = module("sum", ROWS, (128, 128), 1, after=LINE)
    ours = lower_kernel(text, "ours.ttgir", None, PipelineOptions(assign=False))
    assert [c.kind for c in ours.conversions if c.partials] == ["cta-shared"]
    assert [c.kind for c in ours.conversions if not c.partials] == ["noop"]
    stock = lower_kernel(text, "stock.ttgir", None, LOWERING)
    assert [c.kind for c in stock.conversions] != ["noop"]
    compare("sum", ROWS, (128, 128), 1, after=LINE)
    arrays = inputs("sum", (128, 128), 1, 3)
    barriers = []
    for kernel in (ours, stock):
        layout = layout_of(ROWS, (128, 128))
        barriers.append(kernel.run([registers_of(patterns(arrays[0]), layout, kernel)]).cta_barriers)
    assert barriers[0] == 1 < barriers[1]


@pytest.mark.parametrize(("old", "new"), [("", ""), ('"ttg.num-warps" = 4 : i32, ', "")])
def test_what_is_left_alone(old: str, new: str) -> None:
    text = module("sum", ROWS if old else INSIDE, (16, 128), 1)
    if old:
        assert ll.SPLIT in taken_apart(text)[0].operation.attributes
    root = parsed(text)
    if "warps" in old:
        del root.operation.attributes["ttg.num-warps"]
    before = str(root)
    assert run_passes(root, [SplitReductions("cuda:90")]).succeeded
    assert str(root) == before


def test_it_is_left_where_it_would_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = (
        "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
    )
    only = ways._ways
    monkeypatch.setattr(
        ways, "_ways", lambda found, asked: (way for way in only(found, asked) if way.result == asked.own)
    )
    root, (remark,) = taken_apart(module("welford", wide, (64, 16), 1))
    assert len(named(root, "tt.reduce")) == 1 and ll.SPLIT not in root.operation.attributes
    assert remark.message.startswith("the reduction stays as it is: ")


def test_on_gpus_that_were_not_measured_it_must_save_more(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = ROWS.replace("[4, 8]", "[4, 16]")
    text = module("sum", encoding, (16, 256), 1, gpu="hip:gfx942")
    assert ll.SPLIT in taken_apart(text, "hip:gfx942")[0].operation.attributes
    monkeypatch.setitem(TARGETS, "hip:gfx942", with_policy(target("hip:gfx942"), margin=0.9))
    assert ll.SPLIT not in taken_apart(text, "hip:gfx942")[0].operation.attributes


def test_partial_results_take_no_more_lds_than_they_do_as_tritons() -> None:
    """Three operands that travel as four would."""
    layout = layout_of(ROWS.replace("[4, 8]", "[4, 16]"), (16, 256))
    found, question = split(layout, 1, installed_release()), asked(layout, 1, "f32", "f32", "f32")
    assert isinstance(found, Split)
    gpu = target("hip:gfx942")
    room = costs.scratch_as_triton(layout, 1, question.combined.widths, installed_release())
    assert room == 16 * 4 * 3 * 4
    joined = [way for way in ways._ways(found, question) if len(way.packs) == 1]
    assert any(priced(way, found, question, gpu) is not None for way in joined)
    assert all(priced(way, found, question, gpu, room) is None for way in joined)


def test_it_is_said_where_partial_results_have_too_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(ROWS.replace("[4, 8]", "[4, 16]"), (16, 256))
    found, question = split(layout, 1, installed_release()), asked(layout, 1, "f32")
    assert isinstance(found, Split)
    monkeypatch.setattr(costs, "scratch_as_triton", lambda *_: 4)
    ways.choose.cache_clear()
    reason = ways.choose(layout, found, question, Situation.on(target("hip:gfx942")), 4)
    ways.choose.cache_clear()
    room = "the 4 bytes of shared memory that Triton's reduction takes"
    assert reason == f"no conversion of the partial results has a plan in {room}"


def test_a_tensor_that_is_reduced_twice_at_once_is_left() -> None:
    text = module("argmax", ROWS, (16, 128), 1).replace("(%x0, %x1)", "(%x0, %x0)")
    text = text.replace("xi32, #ttg.blocked", "xf32, #ttg.blocked").replace(
        "xi32, #ttg.slice", "xf32, #ttg.slice"
    )
    text = text.replace("%b1: i32", "%b1: f32").replace("%a1: i32", "%a1: f32").replace("f32, i32", "f32, f32")
    text = text.replace("cmpi slt, %a1, %b1 : i32", "cmpf olt, %a1, %b1 : f32").replace(
        "%b1 : i32", "%b1 : f32"
    )
    root, _ = taken_apart(text)
    assert len(named(root, "tt.reduce")) == 1


@pytest.mark.parametrize(
    ("operation", "combined", "expected"),
    [
        ("sum", "arith.addi %a0, %b0", True),
        ("sum", "arith.addi %b0, %a0", True),
        ("sum", "arith.subi %a0, %b0", False),
        ("sum", "arith.addi %a0, %a0", False),
        ("fsum", "arith.divf %a0, %b0", False),
        ("mixed", "arith.addi %a0, %b0", True),
        ("argmax", "arith.select %f, %a0, %b0", False),
        ("welford", "arith.addf %a0, %s", False),
    ],
)
def test_what_does_not_depend_on_who_comes_first(operation: str, combined: str, expected: bool) -> None:
    text = re.sub(r"%c = arith.+ :", f"%c = {combined} :", module(operation, ROWS, (32, 64), 1))
    root = parsed(text)
    assert [commutes(op) for op in named(root, "tt.reduce")] == [expected]


def test_regions_may_take_values_from_outside() -> None:
    text = module("max", ROWS, (16, 128), 1).replace("arith.maxsi %a0, %b0", "arith.addi %o, %b0")
    text = text.replace("      %c = arith.addi", "      %o = arith.maxsi %a0, %n : i32\n      %c = arith.addi")
    text = text.replace("@kernel(", "@kernel(%n: i32, ")
    root, _ = taken_apart(text)
    assert len(named(root, "tt.reduce")) == 3
