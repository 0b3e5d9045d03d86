"""The GPU check of conversions in partitions, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from bench import gpu_partitions
from bench.gpu_partitions import partition_cases
from bench.gpu_random.run import IDENTICAL, STOCK_WRONG, Binary
from triton_linear.examples.spec import gpu_target

CASES = partition_cases(1, 40)
SMALL = next(case for case in CASES if case.inner.warps == 2)
BINARY = Binary(b"", "convert", 0, 0, ("shuffle",), 0.1)


def test_decided_is_chosen_by_other_turns_than_those_that_time_it() -> None:
    turns = {"stock": [5.0, 7.0] * 3, "ours": [4.0, 8.0] * 3, "bounded": [4.5, 1.0] * 3, "baseline": [1.0] * 6}
    found = gpu_partitions.decided(turns)
    assert found == {"method": "ours", "decided": 8.0, "stock": 7.0, "baseline": 1.0}
    assert gpu_partitions.ratio({"microseconds": {"decided": found}}, "decided") == 6 / 7
    turns["ours"], turns["bounded"] = [4.99, 1.0] * 3, [6.0, 1.0] * 3
    assert gpu_partitions.decided(turns)["method"] == "stock", "a hundredth has to be saved"


def test_the_interpreter_finds_nothing_wrong() -> None:
    assert gpu_partitions.interpret(SMALL, "cuda:90") == gpu_partitions.VERIFIED
    assert gpu_target("cuda:90").arch == 90


def test_a_wrong_register_of_either_side_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [side.expected() for side, _ in SMALL.sides]

    def launches(*found: list[np.ndarray]) -> None:
        results = iter(found)
        monkeypatch.setattr(gpu_partitions, "launch", lambda *_: next(results))

    def broken(which: int) -> list[np.ndarray]:
        copy = [side.copy() for side in expected]
        copy[which][0, 1, 0] ^= np.uint64(1)
        return copy

    launches(expected, expected)
    assert gpu_partitions.run(SMALL, BINARY, BINARY) == IDENTICAL
    for which in (0, 1):
        launches(broken(which), expected)
        assert gpu_partitions.run(SMALL, BINARY, BINARY) == "wrong"
        launches(expected, broken(which))
        assert gpu_partitions.run(SMALL, BINARY, BINARY) == STOCK_WRONG


def test_ratios_are_those_of_what_conversions_take() -> None:
    record = {"microseconds": {"stock": 5.0, "ours": 3.0, gpu_partitions.BASELINE: 1.0}}
    assert gpu_partitions.ratio(record) == 2.0
    assert gpu_partitions.ratio({"microseconds": {"stock": 1.0, "ours": 1.01, "baseline": 1.0}}) is None
    assert gpu_partitions.ratio({}) is None
