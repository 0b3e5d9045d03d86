"""The GPU check of random conversions, without a GPU: what registers must hold, and how it judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeGpu

from bench.conversions import driver
from bench.fuzz.pairs import drawn_layout
from bench.fuzz.random_layouts import Pair
from bench.gpu_random import run
from bench.gpu_random.kernels import LOOP_STEPS, RandomCase
from triton_linear.dialect.triton_versions import COPIES_NOT_HELD, installed_release
from triton_linear.tools.support.isolated import Isolation, Lost

LANES = "[[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]]"
TURNED = "[[0, 1], [0, 2], [0, 4], [1, 0], [2, 0]]"
HELD = 2 if installed_release() in COPIES_NOT_HELD else 4
"""Registers of a thread for two elements that its layout holds twice."""


def case(element: str = "i8", loop: bool = False, copies: bool = True) -> RandomCase:
    """A transpose of lanes; with copies, the destination holds each element twice."""
    a = f"#ttg.linear<{{register = [[4, 0]], lane = {LANES}, warp = [], block = []}}>"
    register = "[[4, 0], [0, 0]]" if copies else "[[4, 0]]"
    b = f"#ttg.linear<{{register = {register}, lane = {TURNED}, warp = [], block = []}}>"
    return RandomCase(7, Pair((8, 8), element, a, b, "by hand"), 1, loop)


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("element", ["i1", "i8", "f16", "f32", "!tt.ptr<f16>"])
def test_what_is_expected_follows_from_the_layouts(element: str, loop: bool) -> None:
    one = case(element, loop)
    patterns, source, expected = one.patterns(), one.source(), one.expected()
    added = LOOP_STEPS * (LOOP_STEPS - 1) * loop
    for values, encoding, sum_ in ((source, one.pair.source, 0), (expected, one.pair.destination, added)):
        layout = drawn_layout(one.pair, encoding)
        for lane in range(32):
            for register in range(values.shape[2]):
                at = layout.apply({"register": register, "lane": lane, "warp": 0, "block": 0})
                row, column = at["dim0"], at["dim1"]
                bits = (patterns[:, row + 8 * column] + np.uint64(sum_)) & np.uint64(
                    (1 << one.element.bits) - 1
                )
                assert (values[:, lane, register] == bits).all()


def test_calls_are_isolated() -> None:
    """Expressions, which need no module that takes long to import."""
    written = "print('first words\\nerror: last words\\nmore', file=__import__('sys').stderr, flush=True)"
    ends = (
        "int('x')",
        "__import__('time').sleep(60)",
        "bytearray(8 << 30)",
        f"{written} or __import__('os').abort()",
    )
    found = Isolation(eval, (), 2, 4 << 30).map([("6 * 7",), *((code,) for code in ends)], 2)
    assert found == [
        42,
        Lost("ValueError: invalid literal for int() with base 10: 'x'"),
        Lost("took more than 2 s"),
        Lost("MemoryError: "),
        Lost("ended by SIGABRT: error: last words"),
    ]


BINARY = run.Binary(b"cubin", "convert", 0, 7, ("shuffle",), 0.1)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu(case("i16", loop=True))
    monkeypatch.setattr(driver, "_library", lambda: fake)
    monkeypatch.setattr(driver, "device", lambda: None)
    return fake


def test_a_right_kernel_is_identical(gpu: FakeGpu) -> None:
    assert run.run(gpu.case, BINARY, BINARY) == run.IDENTICAL
    assert run.run(gpu.case, None, BINARY) == run.NO_STOCK


def test_one_wrong_register_in_one_thread_is_seen(gpu: FakeGpu) -> None:
    last = gpu.case.register_counts[1] - 1  # a copy, where Triton holds those

    def outcome(*wrong: bool, stock: run.Binary | None = BINARY) -> str:
        """Of launches, the plugin's first, that are wrong or not."""
        launches = iter(wrong)

        def broken(out: Any, counters: Any) -> None:
            out[1, 31, last] ^= np.uint64(next(launches))

        gpu.broken = broken
        return run.run(gpu.case, stock, BINARY)

    outcomes = [outcome(True, False), outcome(False, True), outcome(True, True), outcome(True, stock=None)]
    assert outcomes == ["wrong", run.STOCK_WRONG, "both are wrong", "wrong"]
    assert set(outcomes) & set(run.FINE) == {run.STOCK_WRONG}


def test_a_register_that_was_not_written_is_seen(gpu: FakeGpu) -> None:
    def broken(out: Any, counters: Any) -> None:
        counters[5] -= 1

    gpu.broken = broken
    with pytest.raises(RuntimeError, match=f"threads counted {HELD - 1} to {HELD} of {HELD} registers"):
        run.run(gpu.case, BINARY, BINARY)


def test_decided_is_the_faster_of_the_first_times_in_the_second() -> None:
    assert run.decided({"stock": 2.0, "ours": 1.0}, {"stock": 2.0, "ours": 4.0}) == 0.5
    assert run.decided({"stock": 1.0, "ours": 2.0}, {"stock": 2.0, "ours": 1.0}) == 1.0
    assert run.decided({"stock": 1.0, "ours": 1 - run.WINS_BY / 2}, {"stock": 2.0, "ours": 1.0}) == 1.0
