"""Reductions that were taken apart give what Triton gives, bit by bit, in the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from reductions_support import (
    GAPS,
    KINDS,
    LINE,
    REGIONS,
    ROWS,
    SHAPES,
    compare,
    expected,
    inputs,
    module,
    patterns,
    sinks_of,
)

from bench.whole_kernels import lower_kernel, registers_of
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.triton_versions import COPIES_NOT_HELD, REDUCTIONS_CONVERT, installed_release
from triton_linear.lowering.target.targets import target
from triton_linear.passes.reductions.split import Split, split

STAYS = ("welford",) if installed_release() in REDUCTIONS_CONVERT else ()
"""Lanes keep what they combined in different orders, in Triton's own lowering too."""
PAIRS = [
    (kind, operation)
    for row, kind in enumerate(KINDS)
    for column, operation in enumerate(name for name in REGIONS if name not in STAYS)
    if (row + column) % 4 == 0
]
"""A quarter of them: each kind of layout with some operations, each operation with some kinds."""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reduction that can be taken apart is, whatever it costs."""
    monkeypatch.setattr("triton_linear.passes.reductions.split_reductions._is_wrong", lambda *_: True)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("kind", "operation"), PAIRS)
def test_every_kind_of_layout_gives_what_triton_gives(kind: str, operation: str) -> None:
    number = list(KINDS).index(kind) + list(REGIONS).index(operation)
    for axis in (0, 1):
        shape = SHAPES[(number + axis) % len(SHAPES)]
        # Lanes that combined in different orders have copies that are not, and conversions that Triton asks for
        # take any: with Triton's own lowering as with ours.
        apart = isinstance(split(layout_of(KINDS[kind], shape), axis, installed_release()), Split)
        compare(operation, KINDS[kind], shape, axis, after=LINE if number % 2 and apart else "")


def test_each_of_four_operands_that_travel_together_comes_back_as_itself() -> None:
    """Each is combined in a way of its own, so none can stand for another."""
    ours = compare("four", ROWS, (4, 512), 1)
    assert [c.kind for c in ours.conversions if c.partials].count("cta-shared") == 1
    assert ours.embedded.count('"tt.join"') == ours.embedded.count('"tt.split"') == 3


@pytest.mark.skipif(bool(STAYS), reason="the reduction stays as it is with this Triton")
@pytest.mark.usefixtures("always")
def test_lanes_that_combine_in_different_orders_agree_before_they_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = compare("welford", KINDS["mma"], (32, 32), 0)
    assert ours.embedded.count('"tt.gather"') == 3
    monkeypatch.setattr("triton_linear.passes.reductions.split_reductions.commutes", lambda op: True)
    with pytest.raises(AssertionError):  # two lanes store different values at one address
        compare("welford", KINDS["mma"], (32, 32), 0)
    monkeypatch.undo()
    assert '"tt.gather"' not in compare("fsum", KINDS["mma"], (32, 32), 0).embedded


@pytest.mark.usefixtures("always")
def test_random_linear_layouts() -> None:
    """Before 3.8 Triton's own lowering reduces many of these wrongly, so values are compared alone."""
    right = installed_release() in REDUCTIONS_CONVERT
    rng = random.Random(5)
    done = 0
    for _ in range(20):
        sizes = rng.choice(((4, 4), (3, 5), (6, 2), (5, 3)))
        bases = [
            [1 << bit if place == axis else 0 for place in (0, 1)]
            for axis in (0, 1)
            for bit in range(sizes[axis])
        ]
        bases += [[0, 0]] * rng.choice((0, 1, 2))
        rng.shuffle(bases)
        if installed_release() in COPIES_NOT_HELD and [0, 0] in bases[7:]:
            continue  # such a reduction stays as it is
        names = {"lane": bases[:5], "warp": bases[5:7], "register": bases[7:], "block": []}
        encoding = (
            "#ttg.linear<{"
            + ", ".join(f"{n} = {names[n]}" for n in ("register", "lane", "warp", "block"))
            + "}>"
        )
        axis = rng.choice((0, 1))
        ours = compare(
            rng.choice(("sum", "argmax", "mixed", *(("fsum",) * right))),
            encoding,
            tuple(1 << n for n in sizes),
            axis,
            stock_is_right=right,
        )
        done += ours.embedded.count('"tt.reduce"') > 1
    assert done > 6


@pytest.mark.skipif(installed_release() in REDUCTIONS_CONVERT, reason="this Triton is right")
def test_lanes_with_gaps_which_triton_reduces_wrongly() -> None:
    text = module("sum", GAPS, (16, 16), 1)
    arrays = inputs("sum", (16, 16), 1, 1)
    stock = lower_kernel(text, "stock.ttgir", None, None)
    result = layout_of(f"#ttg.slice<{{dim = 1, parent = {GAPS}}}>", (16,))
    (wrong,) = sinks_of(stock, "sum", GAPS, arrays)
    assert not np.array_equal(wrong, registers_of(patterns(expected("sum", arrays, 1)[0]), result, stock))  # type: ignore[index]
    compare("sum", GAPS, (16, 16), 1, stock_is_right=False)


@pytest.mark.parametrize("gpu", ["cuda:80", "cuda:100", "hip:gfx942"])
@pytest.mark.usefixtures("always")
def test_other_targets(gpu: str) -> None:
    lanes = target(gpu).lanes // 4
    encoding = ROWS.replace("[4, 8]", f"[4, {lanes}]")
    ours = compare("argmax", encoding, (16, 4 * 4 * lanes), 1, gpu=gpu)
    assert ours.embedded.count('"tt.reduce"') == 3
