"""The GPU check of gathers across CTAs, without a GPU: what elements must be, and how it judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeGpu

from bench.conversions import driver
from bench.fuzz.pairs import drawn_layout
from bench.fuzz.random_layouts import Pair
from bench.gpu_random import run
from bench.gpu_random.gathers import GLOBAL, GatherCase
from bench.gpu_random.kernels import LOOP_STEPS, Words
from bench.gpu_random.report import RIGHT
from triton_linear.tools.support.isolated import Lost

ROWS = "#ttg.linear<{register = [[4, 0]], lane = [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]], warp = [], "
A = ROWS + "block = [[0, 8]]}>"
B = A.replace("[[4, 0]]", "[[0, 8]]").replace("block = [[0, 8]]", "block = [[4, 0]]")


def case(element: str = "i16", b: str = B, axis: int = 1) -> GatherCase:
    """Two CTAs with 8 columns of 16 each, the index as well, or with 4 rows of 8 each."""
    return GatherCase(5, Pair((8, 16), element, A, b, "by hand"), 1, True, 2, axis=axis)


CASES = [case("i8"), case("i16", A), case("f32"), case("i64", axis=0)]
assert "block = [[4, 0]]" in B and "register = [[0, 8]]" in B


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.pair.element)
def test_what_is_expected_is_what_each_index_names(one: GatherCase) -> None:
    """Iteration by iteration and element by element, from the registers that the kernel is given."""
    cluster, bits = 3 % len(one.patterns()), one.element.bits
    elements, index = {}, {}
    sides = [drawn_layout(one.pair, side) for side in (one.pair.source, one.pair.destination)]
    places = [
        [
            [tuple(layout.apply({"register": r, "lane": t, "warp": 0, "block": c}).values()) for r in range(2)]
            for c in range(2)
            for t in range(32)
        ]
        for layout in sides
    ]
    for layout, registers, found in zip(places, one.inputs(), (elements, index), strict=True):
        for thread, held in enumerate(layout):
            found |= {at: int(registers[cluster, thread, r]) for r, at in enumerate(held)}
    assert len(elements) == len(index) == 8 * 16
    for thread, held in enumerate(places[1]):
        for register, at in enumerate(held):
            number = index[at]
            for step in range(LOOP_STEPS + 1):
                row = list(at)
                row[one.axis] = number
                added = sum(range(step))
                value = (elements[tuple(row)] + added) % (1 << bits)
                number = (number + (value >> bits - 1)) % one.size
            assert one.expected()[cluster, thread, register] == value


BINARY = run.Binary(b"cubin", "convert", 0, 10, ("gather-shared",), 0.1)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu(case())
    monkeypatch.setattr(driver, "_library", lambda: fake)
    monkeypatch.setattr(driver, "device", lambda: None)
    return fake


class InProcess:
    """A `Child` that answers here."""

    def ask(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def test_one_wrong_element_is_seen_by_each_method(gpu: FakeGpu) -> None:
    wrong = iter([False, True, True])  # ours, stock Triton's, through global memory

    def broken(out: Words, counters: Any) -> None:
        out[1, 40, 1] ^= np.uint64(next(wrong))

    gpu.broken = broken
    built = dict.fromkeys(gpu.case.methods, BINARY)
    record = run.judge(gpu.case, BINARY, BINARY, run.run)
    assert record["outcome"] == run.STOCK_WRONG and run.is_timed(gpu.case, record["outcome"])
    child: Any = InProcess()
    assert run.others(child, gpu.case, built, dry=False) == {GLOBAL: "wrong"}
    gpu.broken = lambda out, counters: None
    assert run.others(child, gpu.case, built, dry=False) == {GLOBAL: RIGHT}
    assert run.others(child, gpu.case, built | {GLOBAL: Lost("too slow")}, dry=False) == {GLOBAL: "too slow"}


def test_what_is_timed_is_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def clocked(one: GatherCase, binaries: dict[str, run.Binary]) -> tuple[dict[str, float], float | None]:
        asked.append(list(binaries))
        if broken & set(binaries):
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        return {name: {"stock": 1.0, "ours": 2.0, GLOBAL: 6.0}[name] for name in binaries}, 1.0

    monkeypatch.setattr(run, "clocked", clocked)
    built, child = dict.fromkeys(case().methods, BINARY), InProcess()
    broken: set[str] = set()

    def timed(outcome: str, through: str = RIGHT) -> dict[str, Any]:
        return run.timed(child, case(), built, {"outcome": outcome, GLOBAL: through})  # type: ignore[arg-type]

    assert timed(run.STOCK_WRONG) | {"iteration": 0} == {"iteration": 0, "ratio": 0.5, "global ratio": 3.0}
    assert "ratio" not in timed(run.STOCK_CRASHES) and "global ratio" not in timed(run.STOCK_WRONG, "wrong")
    broken = {"stock"}
    assert timed(run.STOCK_WRONG)["global ratio"] == 3.0
    assert asked[-2:] == [["stock", "ours", GLOBAL], ["ours", GLOBAL]]
    broken = {"ours"}
    assert "ILLEGAL_ADDRESS" in timed(run.STOCK_WRONG)["not timed"]
