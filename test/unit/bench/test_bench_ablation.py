"""The ablation of thresholds: modules are tried where one is asked for, and targets stay as they are."""

from __future__ import annotations

from pathlib import Path

from bench import ablation
from triton_linear.lowering.target.policy import thresholds
from triton_linear.lowering.target.targets import TARGETS, target

DATA = Path(__file__).resolve().parents[2] / "data"


def test_a_threshold_that_decides_is_seen_to() -> None:
    before = dict(TARGETS)
    (path,) = DATA.rglob("cross_entropy.ttgir")
    found = ablation.subjects([path])
    assert "replacing" in found[0].asked and "new_after_local" not in found[0].asked
    row = ablation.tried("replacing", thresholds()["replacing"], found, assembly=False)
    assert [entry["module"] for entry in row["changed"]] == ["cross_entropy"]
    assert row["before"] > 0 and row["after"] > 0
    assert (
        ablation.tried("new_after_local", thresholds()["new_after_local"], found, assembly=False)["asked"] == 0
    )
    assert before == TARGETS and target("cuda:90") is before["cuda:90"]
    page = ablation.markdown(
        {"modules": 1, "triton": "", "python": "", "date": "", "seconds": 0, "rows": [row]}
    )
    assert "| `replacing` | times | 1.15 | 1 | 1 | 1 |" in page
