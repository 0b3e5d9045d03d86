"""The suite of named conversions: its reports, and what the calibration times, without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench import calibrate
from bench.conversions import build, measure, report
from bench.conversions.cases import Case, cases
from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.lowering.target import targets


def case_named(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


@pytest.mark.parametrize("exchanges", range(1, 6))
def test_lane_exchanges_are_as_many_as_their_name_says(exchanges: int) -> None:
    a, b = build.layouts(case_named(f"exchange-{exchanges}-32"))
    assert len(f2.intersection(a.columns(REGISTER), b.columns(LANE))) == exchanges
    assert a.columns(WARP) == b.columns(WARP)


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


def test_per_iteration_takes_the_span_of_each_multiprocessor() -> None:
    record = np.array([[0, 100, 300], [0, 120, 340], [1, 0, 240], [2, 0, 90]])
    assert measure.per_iteration(record, 10) == 12.0


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


@pytest.mark.parametrize(
    "name", ["ldmatrix.x2.trans", "bar.sync, 4 warps", "prmt + mad.lo", "shfl.bfly + 2 selp + @p mul.lo"]
)
def test_calibration_kernels_hold_what_they_time(name: str) -> None:
    instruction = next(i for i in calibrate.instructions() if i.name == name)
    for chained in (False, True) if instruction.chained else (False,):
        assert calibrate.checked(instruction, chained, "sm_90")


def test_constants_come_from_the_figures() -> None:
    times = {i.name: {"busy": 4.0, "alone": 9.0} for i in calibrate.instructions()}
    times["shfl.bfly"]["busy"] = 1.25
    times["prmt"] = {"busy": 5.0, "alone": 2.0}
    costs = calibrate.constants(times)
    assert (costs.shuffle, costs.alu, costs.wavefront) == (1.25, 4.5, 1.0)
    assert (costs.lone_shuffle, costs.lone_alu) == (9.0, 2.0)
    assert costs.cta_barrier == targets.target("cuda:90").costs.cta_barrier
