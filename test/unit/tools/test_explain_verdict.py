"""Verdicts on whole kernels, from what was counted and from what was measured."""

from __future__ import annotations

import pytest

from triton_linear.tools.explain.verdict import Figure, expected, measured

FEWER, MORE = Figure("wavefronts", 96, 80), Figure("shuffles", 0, 4)


@pytest.mark.parametrize(
    ("figures", "outcome", "why"),
    [
        ([], "the same", "nothing that is counted differs"),
        ([Figure("wavefronts", 4, 4), Figure("stack", None, 8)], "the same", "nothing that is counted differs"),
        ([FEWER], "faster", "wavefronts 80 instead of 96"),
        ([MORE], "slower", "shuffles 4 instead of 0"),
        ([Figure("occupancy", 1, 2)], "faster", "occupancy 2 instead of 1"),
        ([Figure("occupancy", 2, 1)], "slower", "occupancy 1 instead of 2"),
        ([FEWER, MORE], "not known until measured", "worse are shuffles 4 instead of 0"),
        ([Figure("clocks", 1.0, 2.0)] * 6, "slower", "2 more"),
    ],
)
def test_what_is_expected_follows_from_what_all_figures_say(
    figures: list[Figure], outcome: str, why: str
) -> None:
    found = expected(figures)
    assert (found.basis, found.outcome, found.ratio) == ("expected", outcome, None)
    assert why in str(found)


@pytest.mark.parametrize(
    ("ratio", "outcome"), [(1.25, "faster"), (1.002, "the same"), (0.998, "the same"), (0.9, "slower")]
)
def test_what_was_measured_counts_beyond_noise(ratio: float, outcome: str) -> None:
    found = measured([(10.0, ratio)])
    assert found is not None
    assert str(found) == f"measured: {outcome}, {ratio:.3f} times as fast"


def test_nothing_measured_is_no_verdict() -> None:
    assert measured([]) is None
