"""The bench of all configurations that Inductor tries: whose best is compared with whose."""

from __future__ import annotations

from typing import Any

from bench import configurations_report
from bench.harness import turns
from bench.kernels import modes

A, B, C = (f"XBLOCK={size} warps=2 stages=1" for size in (1, 8, 32))


def entry(config: str, stock: float, ours: float, **more: Any) -> dict[str, Any]:
    """What is found of a configuration that takes so many microseconds."""
    found: dict[str, Any] = {"config": config, "chosen": False, "added": False}
    times = {modes.STOCK: [stock / 1e3] * 7, modes.OURS: [ours / 1e3] * 7}
    facts = {side: {"spilled": 0} for side in times}
    found[modes.OURS] = {"errors": {}, "facts": facts, "fell_back": [], "times": times}
    found[modes.OURS] |= {"summary": turns.summary(times, 1), "result": "identical", "apart": 0.0}
    return found | more


def test_the_best_are_compared_and_not_one_configuration() -> None:
    """Ours is faster in each configuration than stock in the same, but stock's best is as fast as any."""
    entries = [entry(A, stock=10, ours=5), entry(B, stock=4, ours=3.9), entry(C, stock=3, ours=4)]
    found = configurations_report.best(entries, modes.OURS)
    assert found is not None and found["configs"] == {"stock": C, "ours": B}
    assert found["microseconds"] == {"stock": 3.0, "ours": 3.9}
    assert found["ratio"] == [round(3 / 3.9, 5)] * 3
    line = configurations_report.best_line(entries)
    assert line.startswith(f"best stock / best ours = 0.769 (0.769 to 0.769): 3.00 µs ({C}) / 3.90 µs ({B})")


def test_ratios_of_the_best_are_of_one_turn() -> None:
    """A GPU that slows down during the run must not show."""
    one, other = entry(A, 1, 1), entry(B, 2, 2)
    for found, factor in ((one, 1.0), (other, 2.0)):
        slowing = [factor * (1 + turn) for turn in range(7)]
        found["ours"]["times"] = {"stock": slowing, "ours": [0.5 * took for took in slowing]}
    best = configurations_report.best([other, one], modes.OURS)
    assert best is not None and best["ratio"] == [2.0, 2.0, 2.0] and best["configs"]["ours"] == A


def test_what_is_wrong_or_spills_is_not_the_best() -> None:
    wrong, spills, right = (entry(config, 4, took) for config, took in ((A, 1), (B, 2), (C, 3)))
    wrong["ours"] |= {"result": "WRONG", "apart": 0.5}
    spills["ours"]["facts"]["ours"]["spilled"] = 100
    found = configurations_report.best([wrong, spills, right], modes.OURS)
    assert found is not None and found["configs"]["ours"] == C
    assert configurations_report.best([wrong], modes.OURS) is None
    assert configurations_report.at_fault(wrong) and not configurations_report.at_fault(spills)
    assert "best of ours: none" in configurations_report.best_line([wrong])
