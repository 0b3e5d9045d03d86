"""What rules about registers hold of."""

from __future__ import annotations

from typing import Any

import pytest

from bench import register_rules as rules
from triton_linear.lowering.target.targets import target

H200 = target("cuda:90")
STEP, LITTLE_STEP, GROWS, LOST, LITTLE_LOST, MORE = rules.RULES


def row(
    name: str, saved: float, estimates: tuple[float, float], stock: int, ours: int, shared: int = 0
) -> dict[str, Any]:
    """Of 4 warps: 4 CTAs find registers up to 128, 3 up to 168, 2 up to 255."""
    found: dict[str, Any] = {"module": name, "warps": 4, "saved": saved}
    found |= dict(zip(("before", "after"), estimates, strict=True))
    found |= {rules.STOCK: [stock, 0, shared], rules.OURS: [ours, 8, shared]}
    return found | {"lower": [stock, 0, shared], "second": [ours + 4, 16, shared]}


@pytest.mark.parametrize(
    ("each", "held"),
    [
        (row("a_1", 0.2, (120, 120), 120, 120), set()),
        (row("a_1", 0.2, (126, 130), 120, 120), {STEP}),
        (row("a_1", 0.2, (250, 256), 120, 120), {STEP}),
        (row("a_1", 0.04, (126, 130), 120, 124), {STEP, LITTLE_STEP, GROWS}),
        (row("a_1", 0.04, (120, 121), 120, 120), set()),
        (row("a_1", 0.04, (120, 122), 120, 120), {GROWS}),
        (row("a_1", 0.2, (120, 120), 120, 136), {LOST}),
        (row("a_1", 0.04, (120, 120), 120, 130), {LOST, LITTLE_LOST}),
        (row("a_1", 0.04, (120, 120), 120, 136), {LOST, LITTLE_LOST, MORE}),
        (row("a_1", 0.04, (120, 120), 120, 136, shared=100_000), {MORE}),
    ],
)
def test_rules_hold_where_they_say(each: dict[str, Any], held: set[str]) -> None:
    assert {name for name, holds in rules.RULES.items() if holds(each, H200)} == held
