"""The toolbox for Gluon: notations there and back, conflicts counted byte by byte, and suggestions that
hold."""

from __future__ import annotations

import random

import numpy as np
import pytest
from triton.experimental.gluon import language as gl

from bench.fuzz.command import TARGETS
from triton_linear import gluon
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.gluon.units import element_of
from triton_linear.lowering.interpreter.counts import wavefronts
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target

ROWS = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([8, 1], [4, 8], [1, 4], [0, 1])
SHAPE = (64, 64)


def spread(rng: random.Random, lanes: int, mixed: float = 0.4) -> LinearLayout:
    """A random layout of 64x64 elements over four warps: its bits are dealt out, sometimes mixed."""
    bits = [(1 << i, 0) for i in range(6)] + [(0, 1 << i) for i in range(6)]
    rng.shuffle(bits)
    if rng.random() < mixed:
        a, b = rng.sample(range(12), 2)
        bits[a] = (bits[a][0] ^ bits[b][0], bits[a][1] ^ bits[b][1])
    lane_bits = lanes.bit_length() - 1
    registers = 12 - 2 - lane_bits
    parts = {
        "register": bits[:registers],
        "lane": bits[registers : registers + lane_bits],
        "warp": bits[registers + lane_bits :],
        "block": [],
    }
    return LinearLayout.from_bases(list(parts.items()), ("dim0", "dim1"), SHAPE)


# Notations


def test_random_layouts_survive_gluon_and_cute() -> None:
    rng, sums = random.Random(1), 0
    for _ in range(40):
        layout = spread(rng, 32, mixed=0)
        assert gluon.linear_layout(gluon.distributed_layout(layout), SHAPE) == layout
        for order in ((1, 0), (0, 1)):
            try:
                text = gluon.to_cute(layout, order)
            except ValueError as error:
                assert "overlap" in str(error)
                continue
            sums += 1
            assert gluon.from_cute(text, layout.in_dim_names, SHAPE, order) == layout
            assert cute_function(text, layout, order)
    assert sums > 30


def cute_function(text: str, layout: LinearLayout, order: tuple[int, int]) -> bool:
    """Whether the notation, read as sums of digits times strides, is the layout at random points."""
    shapes, strides = gluon.cute._parsed(text)
    rng = random.Random(2)
    for _ in range(50):
        inputs = {name: rng.randrange(size) for name, size in layout.in_dims}
        index = 0
        for value, sizes, steps in zip(inputs.values(), shapes, strides, strict=True):
            rest = value
            for size, step in zip(gluon.cute._flat(sizes), gluon.cute._flat(steps), strict=True):
                index += rest % size * step
                rest //= size
        at = list(layout.apply(inputs).values())
        if index != at[order[0]] + SHAPE[order[0]] * at[order[1]]:
            return False
    return True


def test_cute_text() -> None:
    layout = gluon.linear_layout(ROWS, SHAPE)
    assert gluon.to_cute(layout) == "((8,2,2),(4,8),4,1):((1,32,2048),(8,64),512,0)"
    swizzled = gluon.linear_layout(gl.SwizzledSharedLayout(8, 1, 8, [1, 0]), SHAPE)
    with pytest.raises(ValueError, match="overlap"):
        gluon.to_cute(swizzled)
    for text, message in (
        ("(3):(1)", "not a power of two"),
        ("(4,2):(1)", "not congruent"),
        ("(4):(1", "is not SHAPE:STRIDE"),
        ("(4,4):(1,2)", "modes for the in-dims"),
    ):
        with pytest.raises(ValueError, match=message):
            gluon.from_cute(text, ["lane"], (8,))
    with pytest.raises(ValueError, match="overlaps"):
        gluon.from_cute("(4):(3)", ["lane"], (8,))


# Banks


def brute_force(addresses: dict[tuple[int, int], int], layout: LinearLayout, size: int) -> int:
    """Wavefronts of register after register, without vectors, on 32 lanes and 32 banks."""
    total = 0
    for register in range(layout.in_dim_size("register")):
        asked = [
            addresses[tuple(layout.apply({"register": register, "lane": lane, "warp": 0, "block": 0}).values())]  # type: ignore[index]
            for lane in range(32)
        ]
        counts, _ = wavefronts(np.array(asked)[None], size, 32, 32)
        total += int(counts[0])
    return total


def test_a_padded_column_is_counted_byte_by_byte() -> None:
    padded = gl.PaddedSharedLayout.with_identity_for([[64, 2]], list(SHAPE), [1, 0])
    column = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    addresses = {(i, j): 4 * (i * 64 + j + i * 2) for i in range(64) for j in range(64)}
    report = gluon.bank_conflicts(padded, column, SHAPE, "f32")
    layout = gluon.linear_layout(column, SHAPE)
    assert {touch.width for touch in report.touches} == {4}
    assert report.wavefronts == brute_force(addresses, layout, 4)
    assert report.conflicts > 0
    plain = gluon.bank_conflicts(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), column, SHAPE, "f32")
    assert plain.wavefronts == 32 * len(plain.touches)
    assert "by conflicts" in str(plain)


def test_a_subslice_has_the_conflicts_of_where_it_is() -> None:
    """The slice's own shape would be stored densely; in the allocation its rows are far apart."""
    shared, registers = (
        gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
        gl.BlockedLayout([1, 1], [8, 4], [1, 1], [1, 0]),
    )
    alone = gluon.bank_conflicts(shared, registers, (8, 4), "f32")
    inside = gluon.bank_conflicts(shared, registers, (8, 4), "f32", alloc_shape=(64, 64), offsets=(8, 32))
    assert (alone.wavefronts, inside.wavefronts) == (1, 8)
    assert inside.touches[0].addresses[0] == 4 * (8 * 64 + 32)
    with pytest.raises(ValueError, match="is not inside"):
        gluon.bank_conflicts(shared, registers, (8, 4), "f32", alloc_shape=(8, 8), offsets=(4, 0))


@pytest.mark.parametrize("name", TARGETS)
def test_suggested_memory_has_no_conflicts(name: str) -> None:
    """One writer and one reader: never; and the suggestion is what Triton makes of Gluon's object."""
    rng, gpu = random.Random(name), target(name)
    for _ in range(30):
        writer, reader = spread(rng, gpu.lanes), spread(rng, gpu.lanes)
        dtype = rng.choice(["i8", "f16", "f32", "f64"])
        found = gluon.suggest_shared_layout([writer], [reader], SHAPE, dtype, name)
        assert found.conflicts == 0, (writer, reader, dtype)
        assert gluon.linear_layout(found.layout, SHAPE) == found.linear
        assert found.linear.is_invertible()


def test_several_readers_share_one_memory() -> None:
    found = gluon.suggest_shared_layout([ROWS], [COLUMNS, ROWS], SHAPE, "f16")
    pairs = [gluon.suggest_shared_layout([ROWS], [one], SHAPE, "f16") for one in (COLUMNS, ROWS)]
    plain = [
        gluon.bank_conflicts(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), one, SHAPE, "f16").wavefronts
        for one in (ROWS, COLUMNS, ROWS)
    ]
    assert found.wavefronts < sum(plain)
    assert found.wavefronts >= max(pair.wavefronts for pair in pairs)
    assert str(found).splitlines()[1].startswith("  writer 0: ")
    with pytest.raises(ValueError, match="at least one writer"):
        gluon.suggest_shared_layout([], [ROWS], SHAPE, "f16")


# Conversions and loads


def test_costs_are_those_of_the_planner() -> None:
    cost = gluon.conversion_cost(ROWS, COLUMNS, SHAPE, "float16")
    sides = (gluon.linear_layout(one, SHAPE) for one in (ROWS, COLUMNS))
    chosen = select(*sides, element_of("f16"), Situation.on(target("cuda:90")))
    assert chosen.plan is not None
    assert (cost.kind, cost.lowering) == (chosen.plan.kind, chosen.plan.summary())
    assert cost.clocks == chosen.cost.clocks > 0
    assert "not registers: " in str(cost)
    assert gluon.conversion_cost(ROWS, ROWS, SHAPE, "f16").kind == "noop"
    with pytest.raises(ValueError, match="hip:gfx942"):
        gluon.conversion_cost(ROWS, COLUMNS, SHAPE, "f16", "hip:gfx942")


def test_an_encoding_is_taken_as_text() -> None:
    rows, columns = (gluon.encoding_text(layout, (64, 64)) for layout in (ROWS, COLUMNS))
    assert gluon.conversion_cost(rows, columns, (64, 64), "f16") == gluon.conversion_cost(
        ROWS, COLUMNS, (64, 64), "f16"
    )
    plain = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    memory = gluon.encoding_text(plain, (64, 64))
    assert gluon.bank_conflicts(memory, columns, (64, 64), "f16") == gluon.bank_conflicts(
        plain, COLUMNS, (64, 64), "f16"
    )
    with pytest.raises(ValueError, match="blokced"):
        gluon.linear_layout("#ttg.blokced<{}>", (64, 64))


def test_a_bridge_is_never_dearer_and_is_what_it_says() -> None:
    rng, stops = random.Random(3), 0
    for _ in range(12):
        a, b = spread(rng, 32), spread(rng, 32)
        found = gluon.best_bridge(a, b, SHAPE, "f32")
        assert found.clocks <= found.direct.clocks
        if found.linear is not None:
            stops += 1
            first = gluon.conversion_cost(a, found.linear, SHAPE, "f32")
            second = gluon.conversion_cost(found.linear, b, SHAPE, "f32")
            assert found.clocks == first.clocks + second.clocks < found.direct.clocks
            assert str(found).startswith("over ")
        else:
            assert str(found).startswith("directly: ")


@pytest.mark.parametrize(("order", "dtype"), [((1, 0), "f16"), ((0, 1), "f32"), ((1, 0), "i8")])
def test_suggested_loads_take_whole_sectors_and_wide_vectors(order: tuple[int, int], dtype: str) -> None:
    for shape in ((64, 64), (128, 16), (16, 256)):
        found = gluon.suggest_load_layout(shape, dtype, order, 4)
        size = gluon.units.bytes_of(dtype)
        assert found.linear == gluon.linear_layout(found.layout, shape)
        # Counted lane by lane: the sectors that the first register of every lane touches.
        vector = found.vector_bytes // size
        fast, slow = order
        sectors = set()
        for lane in range(32):
            for register in range(vector):
                at = list(
                    found.linear.apply({"register": register, "lane": lane, "warp": 0, "block": 0}).values()
                )
                sectors.add((at[slow], at[fast] * size // 32))
        assert len(sectors) == found.sectors
        assert found.sectors <= max(found.fewest_sectors, 1) * max(1, 32 // min(32, shape[fast] * size))


def test_a_consumer_decides_between_equal_loads() -> None:
    dot = gl.DotOperandLayout(0, gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8]), 2)
    free = gluon.suggest_load_layout(SHAPE, "f16", [1, 0], 4)
    fitting = gluon.suggest_load_layout(SHAPE, "f16", [1, 0], 4, consumer=dot)
    assert fitting.conversion is not None
    assert fitting.conversion.clocks <= gluon.conversion_cost(free.layout, dot, SHAPE, "f16").clocks
    assert fitting.sectors == fitting.fewest_sectors
    with pytest.raises(ValueError, match="no permutation"):
        gluon.suggest_load_layout(SHAPE, "f16", [0, 0], 4)
    with pytest.raises(ValueError, match="not a power of two"):
        gluon.suggest_load_layout(SHAPE, "f16", [1, 0], 3)


def test_what_triton_refuses_is_told() -> None:
    with pytest.raises(ValueError, match="a basis of DistributedLinearLayout is one power of two"):
        gluon.distributed_layout(spread(random.Random(4), 32, mixed=1))
    twice = gl.DistributedLinearLayout([[0, 1]], [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0]], [], [], [16, 2])
    with pytest.raises(ValueError, match="are different ones, or zero"):
        gluon.linear_layout(gl.SliceLayout(0, twice), (2,))
    with pytest.raises(ValueError, match="is no layout of a tensor"):
        gluon.linear_layout(gl.BlockedLayout([1, 3], [8, 4], [1, 1], [1, 0]), SHAPE)
    with pytest.raises(ValueError, match="no layout of one allocation of shared memory"):
        gluon.bank_conflicts(ROWS, ROWS, SHAPE, "f16")
    assert layout_of(gluon.encoding_text(ROWS, SHAPE), SHAPE) == gluon.linear_layout(ROWS, SHAPE)
