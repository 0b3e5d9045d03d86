"""The ablation of thresholds: modules are tried where one is asked for, and targets stay as they are."""

from __future__ import annotations

from pathlib import Path

from bench import ablation
from triton_linear.lowering.target.policy import thresholds
from triton_linear.lowering.target.targets import TARGETS, target

DATA = Path(__file__).resolve().parents[2] / "data"


def test_a_threshold_that_decides_is_seen_to() -> None:
    before = dict(TARGETS)
    (path,) = DATA.rglob("matmul_mixed.ttgir")
    found = ablation.subjects([path])
    assert "matrix_bytes" in found[0].asked and "more_ctas" not in found[0].asked
    row = ablation.tried("matrix_bytes", thresholds()["matrix_bytes"], found, assembly=False)
    assert [entry["module"] for entry in row["changed"]] == ["matmul_mixed"]
    assert row["before"] > 0 and row["after"] > 0
    assert ablation.tried("more_ctas", thresholds()["more_ctas"], found, assembly=False)["asked"] == 0
    assert before == TARGETS and target("cuda:90") is before["cuda:90"]
    page = ablation.markdown(
        {"modules": 1, "triton": "", "python": "", "date": "", "seconds": 0, "rows": [row]}
    )
    assert "| `matrix_bytes` | bytes | 4 | 0 | 1 | 1 |" in page
