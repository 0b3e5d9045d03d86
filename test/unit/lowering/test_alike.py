"""What Triton lowers alike, by the code that it emits."""

from __future__ import annotations

import itertools

import pytest
from alike_pairs import Pair, alike_pairs, pairs

from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.tools.verify.stock import RIGHT, check_conversions

WARPS = 4


def counted(drawn: list[Pair], gpu: str) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Wavefronts, barriers and shuffles of each plan, and of Triton's code."""
    found = check_conversions([pair.work(gpu) for pair in drawn], workers=2)
    rows = []
    for pair, one in zip(drawn, found, strict=True):
        assert one.status == RIGHT and one.verdict is not None, one.detail
        cost, counts = pair.selection.cost, one.verdict.counts
        barriers = pair.selection.plan.barriers if isinstance(pair.selection.plan, SharedPlan) else 0
        ours = WARPS * cost.wavefronts, barriers, WARPS * cost.shuffles
        rows.append((ours, (counts.wavefronts, counts.cta_barriers, counts.shuffles)))
    return rows


@pytest.mark.parametrize(("gpu", "seed"), [("cuda:90", 11), ("cuda:80", 12), ("cuda:100", 13)])
def test_triton_takes_as_much_for_what_is_alike(gpu: str, seed: int) -> None:
    for ours, triton in counted(alike_pairs(seed, gpu, 24), gpu):
        assert ours == triton


def test_triton_takes_more_for_what_is_not_alike() -> None:
    """Through shared memory with accesses of 16 bytes, so that no condition but that of rounds is left."""
    whole = (
        pair
        for pair in pairs(14, "cuda:90")
        if not pair.alike and "8 stores of 128 bits, 8 loads of 128 bits, 1 barrier" in _summary(pair)
    )
    for ours, triton in counted(list(itertools.islice(whole, 24)), "cuda:90"):
        assert ours < triton


def _summary(pair: Pair) -> str:
    return "" if pair.selection.plan is None else pair.selection.plan.summary()
