"""The table of gathers: what is told of the best, the worst and what is missing."""

from __future__ import annotations

from typing import Any

from bench.paper import gather
from bench.paper.gather import Gather


def record(case: Gather, ours: float, legacy: float | None, **more: Any) -> dict[str, Any]:
    def ratio(value: float) -> list[float]:
        return [value - 0.02, value, value + 0.02]

    def mode(lowering: str, detail: str = "", shared: int = 0) -> dict[str, Any]:
        return {
            "microseconds": 100.0,
            "result": "identical",
            "fell_back": [],
            "gathers": [[lowering, detail]],
            "kernels": [{"registers": 32, "shared": shared}],
        }

    ratios = {"stock/ours": ratio(ours), "stock/again": ratio(1.0)}
    if legacy is not None:
        ratios |= {"legacy/ours": ratio(legacy), "legacy/stock": ratio(legacy / ours)}
    return {
        "element": case.element,
        "columns": case.columns,
        "times": case.times,
        "modes": {
            "stock": mode("", shared=2048),
            "ours": mode("gather", "gather: 2 shuffles, 1 select, 0 permutes"),
            "legacy": mode("gather-legacy", shared=4096),
        },
        "ratios": ratios,
        "fell_back": [] if legacy is not None else ["gather_rows: no plan"],
        **more,
    }


def records(ours: float, legacy: float) -> dict[str, Any]:
    return {case.key: record(case, ours, legacy) for case in gather.cases()}


def test_the_best_and_the_worst_are_told_and_what_falls_short() -> None:
    given = records(2.0, 3.0)
    slow, wide, bad, left = gather.cases()[:4]
    given[slow.key] = record(slow, 0.9, 4.5)
    given[wide.key] = record(wide, 0.99, 2.0)  # Within its interval.
    given[bad.key]["modes"]["ours"]["result"] = "within tolerance"
    given[left.key] = record(left, 1.5, None)
    last, gone = [case.key for case in gather.cases()[-2:]]
    given[last] = {"error": "CUDA error"}
    del given[gone]
    part = gather.TABLE.report(given)
    assert f"stock/ours: 2.00 at best ({max(set(given) - {last, left.key})}), 0.90 at worst" in part.markdown
    assert f"legacy/ours: 4.50 at best ({slow.key}), 2.00 at worst ({wide.key})" in part.markdown
    assert "| no baseline | no baseline | shuffles |" in part.markdown
    assert "| 2048, 0, 4096 | NO |" in part.markdown
    assert part.shortfalls == [
        f"{slow.key}: stock/ours 0.900 (0.880 to 0.920), shuffles; stock/again 1.000 (0.980 to 1.020)",
        f"legacy/ours is 4.50 at best ({slow.key}), where the paper has 14.20",
        f"{last}: CUDA error",
        f"{bad.key}, ours: not the bits of stock Triton",
        f"{left.key}: legacy is no baseline: gather_rows: no plan",
        "1 of 36 cases have not run",
    ]
