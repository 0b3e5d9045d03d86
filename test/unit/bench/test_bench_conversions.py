"""The suite of named conversions: its cases, kernels and reports, without a GPU."""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.target import targets

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench import calibrate  # noqa: E402
from bench.conversions import build, driver, kernels, measure, report, run  # noqa: E402
from bench.conversions.cases import Case, cases, linear  # noqa: E402

TARGET = "cuda:90"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


def case_named(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


# Cases.


def test_enough_cases_of_every_kind() -> None:
    found = cases()
    assert len(found) >= 80
    groups = {case.group for case in found}
    assert groups >= {
        "accumulator",
        "operand",
        "attention",
        "transpose",
        "vector",
        "replicated",
        "lanes",
        "warps",
    }
    assert {case.warps for case in found} == {1, 2, 4, 8}
    assert {case.bits for case in found if case.group == "transpose"} == {8, 16, 32, 64}
    assert {(case.bits, case.b.operand_index, case.b.k_width) for case in found if case.group == "operand"} >= {
        (bits, operand, width)
        for operand in (0, 1)
        for bits, widths in ((32, (1, 2)), (16, (2, 4, 8)), (8, (4, 8, 16)))
        for width in widths
    }
    sizes = [math.prod(case.shape) for case in found]
    assert min(sizes) <= 64 and max(sizes) >= 32768


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_layouts_fit(case: Case) -> None:
    a, b = build.layouts(case)
    for layout in (a, b):
        assert layout.in_dim_size(LANE) == 32
        assert layout.in_dim_size(WARP) == case.warps
        assert layout.is_surjective()
    assert a.out_dims == b.out_dims
    assert tuple(size for _, size in a.out_dims) == case.shape
    assert run.total_bound(case).clocks > 0


@pytest.mark.parametrize("exchanges", range(1, 6))
def test_lane_exchanges_are_as_many_as_their_name_says(exchanges: int) -> None:
    a, b = build.layouts(case_named(f"exchange-{exchanges}-32"))
    assert len(f2.intersection(a.columns(REGISTER), b.columns(LANE))) == exchanges
    assert a.columns(WARP) == b.columns(WARP)


@pytest.mark.parametrize("name", [case.name for case in cases() if case.group == "replicated"])
def test_replicated_cases_replicate(name: str) -> None:
    _, b = build.layouts(case_named(name))
    assert 0 in b.columns(WARP) or 0 in b.columns(LANE)


def test_linear_rejects_wrong_owners() -> None:
    with pytest.raises(ValueError, match="3 owners for 5 index bits"):
        linear((32,), "lll", 1)
    with pytest.raises(ValueError, match="5 lane bits"):
        linear((32,), "llllr", 1)


# Kernels.


def test_words_of_bytes_and_of_64_bits() -> None:
    a, _ = build.layouts(case_named("transpose-8-32x32-1w"))
    assert kernels.Words.of(a, 8) == kernels.Words(8, 32, 32)
    assert kernels.Words.of(a, 64) == kernels.Words(32, 64, 32)
    lanes = [[1], [2], [4], [8], [16]]
    few = LinearLayout.from_bases({"register": [], "lane": lanes, "warp": []}, ["dim0"])
    assert kernels.Words.of(few, 8) == kernels.Words(1, 32, 4)


def test_legacy_memory_is_padded_by_the_wider_vector() -> None:
    a, b = build.layouts(case_named("mma2-2x2-rows-16-64x64"))
    assert kernels.padded(b, a, 16).interval_padding_pairs == [[64, 8]]
    a, b = build.layouts(case_named("transpose-16-64x64-4w"))
    assert kernels.padded(b, a, 16).offset_bases[0] == [1, 0]
    assert kernels.padded(a, b, 16).offset_bases[0] == [0, 1]


CONVERTING = ("shfl", "ld.shared", "st.shared", "ldmatrix", "stmatrix", "movmatrix")


def moves(built: build.Built) -> int:
    return sum(built.ptx.get(name, 0) for name in CONVERTING)


@pytest.mark.parametrize("name", ["exchange-1-32", "slice-mma2-rows-32-128"])
def test_conversions_stay_in_the_loop_and_the_baseline_has_none(name: str) -> None:
    built = {method: build.build(name, method, TARGET) for method in ("stock", "legacy", "ours", "baseline")}
    assert {method: b.error for method, b in built.items()} == dict.fromkeys(built)
    assert moves(built["baseline"]) == 0
    for method in ("stock", "legacy", "ours"):
        assert moves(built[method]) >= 2
        in_loop = [
            n for op, n in built[method].instructions.items() if op.startswith(("SHFL", "LDS", "STS", "MOVM"))
        ]
        assert sum(in_loop) == moves(built[method])
    assert built["legacy"].ptx["ld.shared"] and built["legacy"].shared
    assert {b.parameters for b in built.values()} == {7}
    assert all(b.registers > 8 and b.cubin for b in built.values())


def test_ours_is_run_in_the_interpreter_and_described() -> None:
    built = build.build("permute-reverse-32", "ours", TARGET, verify=True)
    assert built.verified == ("ok", "ok")
    assert all(side["kind"] and side["summary"] and side["clocks"] > 0 for side in built.conversions)


def test_plans_can_be_forced() -> None:
    case = case_named("exchange-1-32")
    methods = build.forced_methods(case, targets.target(TARGET))
    assert {"forced:shuffle", "forced:cta-shared"} <= set(methods)
    shuffled = build.build(case.name, "forced:shuffle", TARGET, verify=True)
    stored = build.build(case.name, "forced:cta-shared", TARGET, verify=True)
    assert shuffled.error is None and stored.error is None
    assert shuffled.ptx["shfl"] and not shuffled.shared
    assert stored.shared and "shfl" not in stored.ptx
    assert [side["kind"] for side in stored.conversions] == ["cta-shared"] * 2
    assert shuffled.verified == stored.verified == ("ok", "ok")


def test_a_failed_build_is_recorded() -> None:
    built = build.build("exchange-1-32", "ours", "cuda:7")
    assert built.error is not None and "unknown target" in built.error


SASS = """
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   SHFL.BFLY PT, R2, R2, 0x1, 0x1f ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   LDS.128 R4, [R2] ;
.L_x_2:
        /*0040*/                   LDS.128 R8, [R2] ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
        /*0060*/                   EXIT ;
.L_x_3:
        /*0070*/                   BRA `(.L_x_3);
        /*0080*/                   NOP;
"""


def test_loop_instructions_are_those_between_the_label_and_the_branch_back() -> None:
    assert build.loop_instructions(SASS) == {"BRA": 2, "LDS.128": 2, "SHFL.BFLY": 1}
    assert build.loop_instructions("") == {}


# Measuring.


def test_per_iteration_takes_the_span_of_each_multiprocessor() -> None:
    record = np.array([[0, 100, 300], [0, 120, 340], [1, 0, 240], [2, 0, 90]])
    assert measure.per_iteration(record, 10) == 12.0


class FakeCuda:
    """Records the driver's calls; every one succeeds."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.status = 0
        self.launches = 0

    def clock(self, buffer: Any) -> None:
        """Every CTA ran on multiprocessor 0 or 1 in turn, from clock 0 to 1000."""
        for cta in range(len(buffer) // 24):
            buffer[24 * cta : 24 * cta + 24] = np.array([cta % 2, 0, 1000], np.int64).tobytes()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            if name == "cuOccupancyMaxActiveBlocksPerMultiprocessor":
                arguments[0]._obj.value = 5
            if name == "cuDeviceGetAttribute":
                arguments[0]._obj.value = {16: 2, 75: 9}.get(arguments[1], 0)
            if name == "cuMemcpyDtoH_v2" and arguments[2].value % 24 == 0:
                self.clock(arguments[0])
            if name == "cuLaunchKernel":
                self.launches += 1
                self.parameters = [
                    ctypes.cast(pointer, ctypes.POINTER(ctypes.c_uint32)).contents.value
                    for pointer in arguments[9]
                ]
            return self.status if name == "cuLaunchKernel" else 0

        return call


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    fake = FakeCuda()
    monkeypatch.setattr(driver, "_library", lambda: fake)
    driver.device.cache_clear()
    yield fake
    driver.device.cache_clear()


def test_launch_pads_the_parameters(cuda: FakeCuda) -> None:
    kernel = driver.Kernel(b"cubin", "f", 4, 4096, 5)
    assert kernel.resident() == 5
    memory = driver.Memory(8)
    memory.address.value = 0x1000
    kernel.launch(3, (memory, 7, -1))
    name, arguments = cuda.calls[-1]
    assert name == "cuLaunchKernel"
    assert arguments[1:8] == (3, 1, 1, 128, 1, 1, 4096)
    assert cuda.parameters == [0x1000, 7, 0xFFFFFFFF, 0, 0]
    assert ("cuFuncSetAttribute", 8, 4096) in [(n, *a[1:]) for n, a in cuda.calls if n == "cuFuncSetAttribute"]


def test_a_failed_launch_raises(cuda: FakeCuda) -> None:
    kernel = driver.Kernel(b"cubin", "f", 1, 0, 0)
    cuda.status = 700
    with pytest.raises(driver.CudaError, match="cuLaunchKernel"):
        kernel.launch(1, ())


def test_methods_are_timed_in_turns(cuda: FakeCuda) -> None:
    case = case_named("exchange-1-32")
    built = [build.Built(case.name, method, b"cubin", "f", 7) for method in ("stock", "ours", "baseline")]
    found = measure.measure(case, built, measure.Effort(turns=3))
    # Per method a check, and per mode a pilot and three turns.
    assert cuda.launches == 3 * (1 + 2 * (1 + 3))
    assert found["ours"]["resident"] == 5
    steps = found["ours"]["latency"]["steps"]
    assert found["baseline"]["latency"]["clocks"] == pytest.approx(1000 / steps)
    assert found["ours"]["latency"]["clocks"] == 0
    assert found["ours"]["right"] is False
    assert sum(name == "cuMemFree_v2" for name, _ in cuda.calls) == 3


def test_a_run_times_what_was_compiled(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run.Child, "ask", lambda self, function, *arguments: function(*arguments))
    arguments = ["--only", "^permute-swap-32$", "--workers", "1", "--output", str(tmp_path), "--turns", "2"]
    assert run.main([*arguments, "--methods", "ours,stock"]) == 1
    assert "permute-swap-32: ours: a round trip does not give back what went in" in capsys.readouterr().err
    written = json.loads((tmp_path / "conversions.json").read_text())
    assert written["target"] == "cuda:90"
    assert set(written["cases"][0]["methods"]["stock"]) >= {
        "throughput",
        "latency",
        "resident",
        "right",
        "registers",
    }
    assert (tmp_path / "conversions.md").exists()


def test_calibration_writes_its_figures(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "checked", lambda *arguments: b"cubin")
    suite = tmp_path / "suite.json"
    suite.write_text(json.dumps(whole(*(result(str(n), 10.0 * n, 1) for n in range(1, 4)))))
    assert calibrate.main(["--output", str(tmp_path), "--suite", str(suite)]) == 0
    written = json.loads((tmp_path / "calibration.json").read_text())
    assert written["clocks"]["prmt"]["busy"] == pytest.approx(1000 / (200 * 64 * 16))
    assert set(written["clocks"]["shfl.bfly"]) == {"busy", "alone", "chain"}
    assert set(written["costs"]) >= {"shuffle", "wavefront"}
    assert "1.000 over 3 cases" in capsys.readouterr().out


# Reports.


def result(name: str, ours: float, stock: float, **more: Any) -> dict[str, Any]:
    timed = {"ours": ours, "stock": stock, "legacy": 2 * stock}
    methods: dict[str, Any] = {
        method: {mode: {"clocks": clocks} for mode in report.MODES} for method, clocks in timed.items()
    }
    methods["ours"]["conversions"] = [{"kind": "shuffle", "clocks": ours / 8}] * 2
    found = {
        "name": name,
        "group": "lanes",
        "shape": [32],
        "bits": 32,
        "warps": 4,
        "bound": {"clocks": 50.0},
        "methods": methods,
    }
    return found | more


def whole(*results: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": "a GPU",
        "clock_mhz": 1000.0,
        "triton": "3",
        "triton_linear": "0",
        "date": "2026-01-01",
        "cases": list(results),
    }


def test_losers_come_first() -> None:
    results = [result("wins", 100, 200), result("loses", 100, 90), result("draws", 100, 100)]
    assert [r["name"] for r in report.worst_first(results)] == ["loses", "draws", "wins"]
    lines = report.markdown(whole(*results)).splitlines()
    rows = [line.split(" | ")[0] for line in lines if line.startswith(("| wins", "| loses", "| draws"))]
    assert rows == ["| loses", "| draws", "| wins"]
    assert "| lanes | 3 | 1.22 | 1.22 | 2.43 | 2.43 | 2.00 |" in lines
    assert "- throughput: 1 cases below 0.97 of stock" in lines


def test_what_was_not_timed_is_left_out() -> None:
    bare = result("bare", 1, 1)
    bare["methods"] = {"ours": {"error": "no"}}
    assert report.ratio(bare, "stock", "ours", "latency") is None
    assert report.over_bound(bare) is None
    assert report.worst_first([result("x", 1, 1), bare])[0] is bare
    assert report.problems(bare) == ["ours: no"]
    assert "- bare: ours: no" in report.markdown(whole(bare))


def test_wrong_results_are_problems() -> None:
    found = result("x", 1, 1)
    found["methods"]["stock"]["right"] = False
    found["methods"]["ours"]["verified"] = ["ok", "3 wrong, 0 races"]
    assert report.problems(found) == [
        "ours: 3 wrong, 0 races",
        "stock: a round trip does not give back what went in",
    ]


def test_predictions_are_ranked() -> None:
    rising = [result(str(n), 10.0 * n, 1) for n in range(1, 6)]
    assert report.ranking(rising) == (5, pytest.approx(1))
    rising[0]["methods"]["ours"]["conversions"][0] = {"kind": "triton", "clocks": None}
    assert report.ranking(rising)[0] == 4
    assert report.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert report.spearman([1, 1, 2], [5, 5, 9]) == pytest.approx(1)


def test_forced_plans_that_win_are_named() -> None:
    good, bad = result("good", 100, 100), result("bad", 100, 100)
    for found, clocks in ((good, 98), (bad, 50)):
        found["methods"]["forced:shuffle"] = {
            "throughput": {"clocks": clocks},
            "latency": {"clocks": 2 * result("", 100, 100)["methods"]["ours"]["latency"]["clocks"]},
        }
    measure = lambda result, method: report.clocks(result, method, "throughput")  # noqa: E731
    assert report.forced_losses([good, bad], measure) == (2, [("bad", "forced:shuffle", 2.0)])
    measure = lambda result, method: report.clocks(result, method, "latency")  # noqa: E731
    assert report.forced_losses([good, bad], measure) == (2, [])
    assert report.expected(good, "ours") == pytest.approx(report.expected(bad, "ours"))
    assert report.expected(good, "forced:shuffle") > report.expected(bad, "forced:shuffle")


def test_plot_draws_every_case(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench.conversions.plot import plot

    path = tmp_path / "plot.svg"
    bare = result("bare", 1, 1)
    bare["methods"] = {}
    plot(whole(result("wins", 100, 200), bare), path)
    assert path.read_text().startswith("<?xml")


# The whole.


def test_dry_run_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dry", TARGET, "--only", "^permute-swap-32$", "--workers", "1", "--output", str(tmp_path)]
    assert run.main([*arguments, "--methods", "ours"]) == 0
    written = json.loads((tmp_path / "conversions_dry.json").read_text())
    methods = written["cases"][0]["methods"]
    assert methods["ours"]["verified"] == ["ok", "ok"]
    assert set(methods) == {"ours", "baseline"}
    assert "permute-swap-32" in (tmp_path / "conversions_dry.md").read_text()
    assert "1 cases, 0 problems" in capsys.readouterr().out


def test_options_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.parse(["--methods", "best"])
    assert "'best' is none of stock, legacy, ours, forced:KIND" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no case matches"):
        run.main(["--dry", TARGET, "--only", "nothing such"])
    assert run.main(["--list"]) == 0
    assert "exchange-5-8" in capsys.readouterr().out


# Calibration.


@pytest.mark.parametrize(
    "name",
    [
        "ld.shared.v4.b32",
        "ldmatrix.x2.trans",
        "bar.sync, 4 warps",
        "shfl.idx",
        "prmt + mad.lo",
        "selp + @p mov",
        "shfl.bfly + 2 selp + @p mul.lo",
    ],
)
def test_calibration_kernels_hold_what_they_time(name: str) -> None:
    instruction = next(i for i in calibrate.instructions() if i.name == name)
    for chained in (False, True) if instruction.chained else (False,):
        assert calibrate.checked(instruction, chained, "sm_90")


def test_calibration_notices_what_the_assembler_drops() -> None:
    dead = calibrate.Instruction("dead", "ld.shared.b32 %w{i}_0, [%a];", "LDS")
    with pytest.raises(calibrate.AssemblyError, match=r"dead: .* not 64"):
        calibrate.checked(dead, False, "sm_90")
    move = calibrate.Instruction("move", "@%p{q} mov.b32 %r{i}, %r{j};", "@P MOV")
    with pytest.raises(calibrate.AssemblyError, match="move: 0 @P MOV in the loop, not 64"):
        calibrate.checked(move, False, "sm_90")
    twice = calibrate.Instruction("twice", "prmt.b32 %r{i}, %r{i}, %r{j}, %s;", "PRMT + PRMT")
    with pytest.raises(calibrate.AssemblyError, match="twice: 64 PRMT in the loop, not 128"):
        calibrate.checked(twice, False, "sm_90")
    with pytest.raises(calibrate.AssemblyError):
        calibrate.checked(calibrate.Instruction("nonsense", "frobnicate;", "X"), False, "sm_90")


def test_constants_come_from_the_figures() -> None:
    times = {i.name: {"busy": 4.0, "alone": 9.0} for i in calibrate.instructions()}
    times["shfl.bfly"]["busy"] = 1.25
    times["prmt"] = {"busy": 5.0, "alone": 2.0}
    costs = calibrate.constants(times)
    assert (costs.shuffle, costs.alu, costs.wavefront) == (1.25, 4.5, 1.0)
    assert (costs.lone_shuffle, costs.lone_alu, costs.warp_barrier) == (9.0, 2.0, 0.0)
    assert costs.cta_barrier == targets.target("cuda:90").costs.cta_barrier
