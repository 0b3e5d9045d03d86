"""Which variant is taken, from made-up times: what is decided must not follow from noise."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_linear.tools.measuring import choose
from triton_linear.tools.measuring.choose import Interval, Times

TURNS = 40


def times(seed: int, noise: float = 0.01, **speeds: float) -> list[Times]:
    """Turns with warm and with cold caches; `speeds`: how many times faster than 100 µs each variant is. A turn
    is fast or slow for all of them."""
    draw = random.Random(seed)
    found = []
    for base in (100.0, 140.0):
        rounds = [base * draw.uniform(0.8, 1.2) for _ in range(TURNS)]
        found.append(
            {
                name: [turn / speed * (1 + draw.gauss(0, noise)) for turn in rounds]
                for name, speed in speeds.items()
            }
        )
    return found


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=200))
def test_an_interval_holds_its_median(ratios: list[float]) -> None:
    found = choose.interval(ratios)
    assert found.ratio == statistics.median(ratios)
    assert min(ratios) <= found.low <= found.ratio <= found.high <= max(ratios)


@pytest.mark.parametrize("count", range(6, 101))
def test_no_end_of_an_interval_is_beyond_the_median_too_often(count: int) -> None:
    """How many of the figures are below the true median is a toss of so many coins."""
    found = choose.interval(range(count))
    beyond = [sum(math.comb(count, heads) for heads in range(int(found.low) + 1)) / 2**count]
    beyond.append(sum(math.comb(count, heads) for heads in range(int(found.high) + 1, count + 1)) / 2**count)
    assert beyond[0] == beyond[1] <= 0.025
    further = beyond[0] + math.comb(count, int(found.low) + 1) / 2**count
    assert further > 0.025, "it could be narrower"


def test_the_true_ratio_lies_in_the_interval_95_times_of_100() -> None:
    hits = 0
    for seed in range(400):
        found = choose.faster("stock", "ours", times(seed, noise=0.02, stock=1.0, ours=1.1))
        hits += found.low <= 1.1 <= found.high
    assert 0.93 <= hits / 400 <= 1.0


def test_a_clear_winner_is_found() -> None:
    for seed in range(50):
        drawn = times(seed, stock=1.0, ours=1.05, lower=1.2, eager=1.1)
        assert choose.candidate(list(drawn[0]), drawn) == "lower"
        assert choose.decide(times(seed + 1, stock=1.0, ours=1.05, lower=1.2), "lower") == "lower"


def test_what_is_no_faster_is_left_to_stock() -> None:
    taken = [choose.decide(times(seed, stock=1.0, ours=1.0), "stock") for seed in range(200)]
    assert taken.count("stock") >= 194
    assert choose.decide(times(1, stock=1.0, ours=0.9), "stock") == "stock"


def test_a_variant_has_to_beat_the_plugin_as_well() -> None:
    taken = [choose.decide(times(seed, stock=1.0, ours=1.1, eager=1.1), "eager") for seed in range(200)]
    assert taken.count("ours") >= 190
    assert "stock" not in taken


def test_the_best_of_many_equals_is_not_believed() -> None:
    """The candidate of a first round is who was lucky; the second round is another draw."""
    names = ["stock", "ours", *(f"variant{number}" for number in range(10))]
    wrong = 0
    for seed in range(100):
        first = times(seed, **dict.fromkeys(names, 1.0))
        best = choose.candidate(names, first)
        second = times(seed + 1000, **dict.fromkeys({"stock", "ours", best}, 1.0))
        wrong += choose.decide(second, best) != "stock"
    assert wrong <= 5


@pytest.mark.parametrize(("speed", "decided"), [(0.985, "stock"), (0.995, "lower")])
def test_slower_in_one_state_is_not_taken_even_within_noise(speed: float, decided: str) -> None:
    """The turns with warm caches differ so much that their interval reaches above 1."""
    warm = {"stock": [100.0] * 9, "ours": [100.0] * 9, "lower": [100 / speed + d for d in range(-8, 10, 2)]}
    cold = times(9, stock=1.0, ours=1.0, lower=1.5)[1]
    assert (
        choose.faster("stock", "lower", [warm]).high > 1
        and choose.faster("stock", "lower", [warm, cold]).low > 1
    )
    assert choose.decide([warm, cold], "lower") == decided


def test_slower_in_one_state_of_the_caches_is_not_taken() -> None:
    warm, cold = times(3, stock=1.0, ours=1.0, lower=1.5)[0], times(3, stock=1.0, ours=1.0, lower=0.9)[1]
    assert choose.faster("stock", "lower", [warm, cold]).low > 1
    assert choose.decide([warm, cold], "lower") == "stock"


def test_equals_are_taken_in_their_order() -> None:
    drawn = [{"stock": [1.0] * 9, "ours": [0.9] * 9, "lower": [0.9] * 9}] * 2
    assert choose.candidate(["stock", "ours", "lower"], drawn) == "ours"


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.5, 2)), min_size=1, max_size=9))
def test_ratios_of_parts_make_that_of_all(parts: list[tuple[float, float]]) -> None:
    found = choose.combined([(time, Interval(ratio, ratio, ratio)) for time, ratio in parts])
    assert found.ratio == pytest.approx(sum(t for t, _ in parts) / sum(t / r for t, r in parts))
    assert min(r for _, r in parts) * (1 - 1e-9) <= found.ratio <= max(r for _, r in parts) * (1 + 1e-9)
