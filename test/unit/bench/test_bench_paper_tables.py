"""Mixed precision and mxfp4 of the reproduction: what their reports say of failures and losers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.kernels import modes
from bench.paper import mixed, mxfp4
from bench.paper.table import Part


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


def test_mixed_precision_has_the_papers_count_in_equal_shares() -> None:
    cases = mixed.cases()
    assert len(cases) == mixed.PAPER["linear"] == 784
    assert set(Counter(case.pair for case in cases).values()) == {49}


def drawn(part: Part) -> Any:
    """The axes of its figure."""
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert part.figure is not None
    part.figure(axes)
    return axes


def mixed_records() -> dict[str, Any]:
    """Stock fails one, ours another in a different manner, the rest passes."""
    good = {way: {"compiled": True, "right": True} for way in (*modes.WAYS, modes.BASELINE)}
    records: dict[str, Any] = {case.key: good for case in mixed.cases()}
    bad = {"compiled": False, "right": False, "error": "RuntimeError: no"}
    records["i8 x f16, 1x1"] = good | {"stock": bad}
    records["i64 x f8, 2x4"] = good | {"ours": {"compiled": True, "right": False}}
    return records


def test_report_of_mixed_precision() -> None:
    part = mixed.report(mixed_records())
    rows = {line.split("|")[1].strip(): line for line in part.markdown.splitlines() if line.startswith("| ")}
    assert rows["i8 x f16"].endswith("| 48 | 49 | 49 |")
    assert rows["all"].endswith("| 783 | 784 | 783 |")
    assert "| 366 |" in rows["the paper"]
    assert "stock, 1 cases: `RuntimeError: no`" in part.markdown
    assert list(part.shortfalls) == ["1 cases fail: wrong result"]
    assert len(drawn(part).patches) == 6
    without = {
        key: {way: found for way, found in record.items() if way != modes.BASELINE}
        for key, record in mixed_records().items()
    }
    part = mixed.report(without)
    assert "compiles | stock | ours |" in part.markdown and len(drawn(part).patches) == 5


def times(stock: float, ours: float, legacy: float) -> dict[str, Any]:
    return {
        "ways": {
            way: {"right": True, "microseconds": taken, "kernels": []}
            for way, taken in (("stock", stock), ("ours", ours), ("legacy", legacy))
        }
    }


def test_report_of_mxfp4() -> None:
    records = {case.key: times(10, 10, 15) for case in mxfp4.cases()}
    records["bf16-shuffled-64"] = times(10, 5, 12)
    records["f16-scaled-16"] = times(8, 10, 9)
    records["f16-scaled-64"]["ways"]["ours"] = {"error": "RuntimeError: no"}
    del records["e4m3-scaled-16"]
    records["e5m2-scaled-16"] = {"error": "gone"}
    part = mxfp4.report(records)
    row = next(line for line in part.markdown.splitlines() if line.startswith("| bf16 | 64 |"))
    cells = "10.0 us, 1.00, 1.50 | 10.0 us, 1.00, (1.50) | 5.0 us, 2.00, (2.40)"
    assert row == f"| bf16 | 64 | {cells} | 2.00 | 3.00 |"
    assert "Against stock: 0.80 (f16-scaled-16) to 2.00 (bf16-shuffled-64)" in part.markdown
    assert "Against legacy: 0.90 (f16-scaled-16) to 1.50 (" in part.markdown
    assert "at best 1.50 times legacy, not 1.87" in part.shortfalls
    found = "\n".join(part.shortfalls)
    assert "slower than stock by over 2 % in 1 of 57: f16-scaled-16 0.80" in found
    assert "f16-scaled-64 ours: RuntimeError: no" in found
    assert "1 of 60 cases have not run" in part.shortfalls
    assert "e5m2-scaled-16: gone" in found
    assert len(drawn(part).lines) == 10  # six of f8, two scaled, and two that go across
