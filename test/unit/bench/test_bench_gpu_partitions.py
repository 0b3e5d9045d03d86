"""The GPU check of conversions in partitions, without a GPU."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton

from triton_linear.examples.spec import gpu_target
from triton_linear.hook import pinned

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench import gpu_partitions  # noqa: E402
from bench.gpu_partitions import PartitionCase, partition_cases  # noqa: E402
from bench.gpu_random.run import IDENTICAL, STOCK_WRONG, Binary  # noqa: E402

CASES = partition_cases(1, 40)
SMALL = next(case for case in CASES if case.inner.warps == 2)
BINARY = Binary(b"", "convert", 0, 0, ("shuffle",), 0.1)


def test_the_same_seed_gives_the_same_kernels_with_partitions_of_every_size() -> None:
    assert partition_cases(1, 40) == CASES
    assert {case.inner.warps for case in CASES} == {1, 2, 4, 8}
    assert all(case.own.warps == 4 and case.own.loop and case.inner.loop for case in CASES)


@pytest.mark.parametrize("method", ["stock", "ours", gpu_partitions.BASELINE])
def test_kernels_are_launched_with_the_threads_they_are_compiled_for(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    compiled = triton.compile

    def kept(*arguments: Any, **named: Any) -> Any:
        seen.append(compiled(*arguments, **named))
        return seen[-1]

    monkeypatch.setattr(triton, "compile", kept)
    binary = gpu_partitions.build(SMALL, method, "cuda:90")
    ptx = seen[-1].asm["ptx"]
    assert f".reqntid {32 * SMALL.warps}" in ptx
    assert "triton" not in binary.plans
    assert bool(binary.plans) == (method == "ours")
    # The partition's threads begin behind those of the kernel's own warps.
    assert re.findall(r"@xp st\.global\.b64", ptx)


def test_thresholds_are_those_of_the_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = gpu_partitions.parse(["--thresholds", "matrix_bytes=8,likely_warps=16"])
    seen: list[Any] = []

    def kept(given: Any) -> Any:
        seen.append(given)
        return pinned(given)

    monkeypatch.setattr(gpu_partitions, "pinned", kept)
    gpu_partitions.build(SMALL, "ours", "cuda:90", options.thresholds)
    assert [given.thresholds for given in seen] == ["matrix_bytes=8,likely_warps=16"]
    with pytest.raises(SystemExit):
        gpu_partitions.parse(["--thresholds", "none=1"])
    assert "no threshold 'none'" in capsys.readouterr().err


def test_methods_beside_are_variants_and_thresholds(capsys: pytest.CaptureFixture[str]) -> None:
    beside = gpu_partitions.parse(["--beside", "replacing,bounded,matrix_bytes=8+replacing=1"]).beside
    assert beside == ("replacing", "bounded", "matrix_bytes=8+replacing=1")
    given = [gpu_partitions._options(method, "likely_warps=16") for method in ("stock", "ours", *beside)]
    assert given[0] is None and all(options is not None and options.strict for options in given[1:])
    thresholds = [options.thresholds for options in given[1:] if options is not None]
    assert thresholds == [
        "likely_warps=16", "replacing=1", "likely_warps=16", "likely_warps=16,matrix_bytes=8,replacing=1"
    ]  # fmt: skip
    for wrong, said in (("none", "no variant 'none'"), ("none=1", "no threshold 'none'")):
        with pytest.raises(SystemExit):
            gpu_partitions.parse(["--beside", wrong])
        assert said in capsys.readouterr().err


def test_a_method_beside_that_crashes_costs_no_other() -> None:
    class Broken:
        def ask(self, call: Any, *given: Any) -> str:
            if given[-1] is BINARY:
                raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
            return "right"

    other = gpu_partitions.replace(BINARY, name="other")
    found = gpu_partitions._others(Broken(), SMALL, {"first": BINARY, "second": other})  # type: ignore[arg-type]
    assert found == {"beside": {"first": "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS", "second": "right"}}
    assert gpu_partitions._others(Broken(), SMALL, {}) == {}  # type: ignore[arg-type]


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


def test_the_partition_has_the_warps_behind_the_kernels_own() -> None:
    case: PartitionCase = SMALL
    assert [first for _, first in case.sides] == [0, 4]
    assert case.warps == 8
    single = next(one for one in gpu_partitions.partition_cases(1, 20) if one.inner.warps == 1)
    assert [first for _, first in single.sides] == [0, 6], "Triton fills the group with two warps before it"
