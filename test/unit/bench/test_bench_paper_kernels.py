"""The figure of whole kernels: its means, and what went wrong."""

from __future__ import annotations

from typing import Any

from bench.paper.kernel_case import Case, cases
from bench.paper.kernels_report import report


def of_key(key: str) -> Case:
    return next(case for case in cases() if case.key == key)


def record(key: str, ours: float, legacy: float, **more: Any) -> tuple[str, dict[str, Any]]:
    def ratio(value: float) -> list[float]:
        return [value - 0.01, value, value + 0.01]

    case = of_key(key)
    good = {"microseconds": 10.0, "result": "identical", "reference": "within tolerance", "deterministic": True}
    found: dict[str, Any] = {mode: {**good, "fell_back": []} for mode in ("stock", "ours", "legacy")}
    return key, {
        "kernel": case.kernel,
        "size": dict(case.size),
        "modes": found,
        "ratios": {
            "stock/ours": ratio(ours),
            "legacy/ours": ratio(ours * legacy),
            "legacy/stock": ratio(legacy),
            "stock/again": ratio(1.0),
        },
        "counts": {"load": 1, "store": 2, "convert": 3},
        "tolerance": 1e-3,
        **more,
    }


def test_a_row_has_the_mean_and_the_range_of_its_sizes() -> None:
    part = report(dict([record("gather_gemv/1024", 1.0, 1.0), record("gather_gemv/2048", 1.21, 1.1)]))
    row = "| gather_gemv | 2 | 10 to 10 | 1.100 (1.000 to 1.210) | 1.154 (1.000 to 1.331) |"
    assert f"{row} 1.049 (1.000 to 1.100) | 3 | 2 of 2 |" in part.markdown
    assert "| all | 2 | | 1.100 (1.000 to 1.210) | 1.154 (1.000 to 1.331) |" in part.markdown
    assert "| all that have a conversion | 2 | | 1.100 (1.000 to 1.210) |" in part.markdown
    assert "| the paper, GH200 | 265 | | | | 1.07 (0.96 to 1.40) | | |" in part.markdown
    assert "| gather_gemv | 2 | 2/4/6 | 0/0/8 |" in part.markdown
    assert "Stock Triton a second time is 0.990 to 1.010" in part.markdown
    assert part.shortfalls == ("legacy/ours is 1.331 at most, where the paper has 1.40",)
    assert "gemm/512x512x512" in part.markdown.partition("Not run: ")[2]


def test_what_went_wrong_is_told() -> None:
    key, bad = record("gemm/512x512x512", 1.5, 1.5)
    bad["modes"]["ours"] |= {"result": "WRONG", "apart": 0.5, "deterministic": False, "fell_back": ["no plan"]}
    bad["modes"]["stock"] |= {"reference": "WRONG", "reference_apart": 0.25}
    bad["modes"]["legacy"] = {"unavailable": "no such option"}
    part = report({key: bad, "rope/1x2048x32x8x128": {"error": "CUDA error"}})
    assert part.shortfalls == (
        f"{key}, stock: 0.25 from the reference, where 0.001 is allowed",
        f"{key}, ours: not the results of stock Triton, apart by 0.5",
        f"{key}, ours: two runs differ",
        f"{key}, ours: fell back, no plan",
        "rope/1x2048x32x8x128: CUDA error",
    )
    assert "Modes left out:\n\n- no such option" in part.markdown
    assert "| rope | 0 | failed |" in part.markdown
