"""The sequential test: drift cancels, noise seldom decides, and a real difference does."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_linear.contests.verdict import EQUAL, LOOKS, Standing, Verdict


def judged(speedup: float, noise: float, stragglers: float, random_: random.Random) -> tuple[int, int]:
    """The winner, and how many launches it took."""
    verdict, launches = Verdict(0, 1), 0
    while verdict.winner is None:
        turn, side = verdict.next_turn()
        time = math.exp(random_.gauss(0, noise)) / (speedup if side else 1)
        if random_.random() < stragglers:
            time *= random_.uniform(2, 10)
        verdict.add(turn, time)
        launches += 1
    return verdict.winner, launches


@given(st.floats(1e-3, 1e3), st.floats(0.5, 2))
def test_the_speed_is_that_of_the_blocks(time: float, speedup: float) -> None:
    verdict = Verdict(0, 1)
    for _ in range(8):
        turn, side = verdict.next_turn()
        verdict.add(turn, time / (speedup if side else 1))
    assert verdict.blocks == 2
    assert verdict.speedup == pytest.approx(speedup)


@given(st.permutations(range(32)))
def test_times_come_in_any_order(order: list[int]) -> None:
    verdict = Verdict(0, 1)
    sides = dict(verdict.next_turn() for _ in range(32))
    assert list(sides.values()).count(1) == 16
    for turn in order:
        verdict.add(turn, 1.0 if sides[turn] else 3.0)
    assert verdict.winner == 1 and verdict.speedup == pytest.approx(3.0)


def test_a_block_with_a_lost_time_does_not_count() -> None:
    verdict = Verdict(0, 1)
    for count in range(20):
        turn, _ = verdict.next_turn()
        if count != 5:
            verdict.add(turn, 1.0)
    assert verdict.blocks == 4


@pytest.mark.parametrize(
    ("speedup", "noise", "ours", "launches"),
    [
        (0.95, 0.05, 0.01, 120),
        (0.98, 0.05, 0.02, 260),
        (0.98, 0.02, 0.0, 120),
        (1.0, 0.05, 0.1, 260),
        (1.0, 0.0, 0.0, 32),
        (1.03, 0.02, None, 60),
        (1.1, 0.05, None, 60),
        (2.0, 0.15, None, 40),
    ],
)
def test_how_often_and_how_fast(speedup: float, noise: float, ours: float | None, launches: int) -> None:
    """At most this part of contests is won by ours (None: all but one in fifty), within that many launches on
    average; one launch in fifty waits for something else."""
    random_ = random.Random(7)
    found = [judged(speedup, noise, 0.02 if noise > 0.02 else 0.0, random_) for _ in range(400)]
    won = sum(winner == 1 for winner, _ in found) / len(found)
    assert won >= 0.98 if ours is None else won <= ours
    assert sum(count for _, count in found) / len(found) <= launches
    assert max(count for _, count in found) <= 4 * LOOKS[-1]


def test_equal_kernels_are_known_as_such() -> None:
    verdict = Verdict(0, 1)
    while verdict.winner is None:
        turn, side = verdict.next_turn()
        verdict.add(turn, 1.0 + (EQUAL / 2 if not side else 0))
    assert verdict.winner == 0 and verdict.blocks == LOOKS[0]


@pytest.mark.parametrize(("period", "most"), [(2, 0.02), (4, 0.1), (8, 0.02)])
def test_programs_that_repeat_themselves_do_not_decide(period: int, most: float) -> None:
    """Every so many launches take 30 % longer, and ours is 2 % slower."""
    random.seed(3)  # orders of turns are drawn
    random_ = random.Random(3)
    won = 0
    for _ in range(200):
        verdict, launches = Verdict(0, 1), 0
        while verdict.winner is None:
            turn, side = verdict.next_turn()
            time = math.exp(random_.gauss(0, 0.01)) * (1.02 if side else 1.0)
            verdict.add(turn, time * (1.3 if launches % period == 0 else 1.0))
            launches += 1
        won += verdict.winner == 1
    assert won <= most * 200


@given(st.lists(st.sampled_from([1.0, 1.2, 1.5, 2.0]), min_size=1, max_size=5), st.data())
def test_the_fastest_of_several_holds_the_place(times: list[float], data: st.DataObject) -> None:
    """Also where some come later, or have been compared by an earlier process. Of equals the first does."""
    names = [str(number) for number in range(len(times))]
    first = data.draw(st.integers(1, len(times)))
    listed = names[:first]

    def run(standing: Standing) -> None:
        while duel := standing.duel:
            turn, number = duel.next_turn()
            standing.add(duel, turn, times[number])
            standing.judge()

    standing = Standing(listed)
    run(standing)
    if data.draw(st.booleans()):
        standing = Standing(listed, listed[standing.holder], standing.met)
        assert standing.duel is None
    listed += names[first:]
    standing.judge()
    run(standing)
    assert times[standing.holder] == min(times) and standing.met == set(names)
    assert standing.holder == times.index(min(times))


def test_a_winner_that_is_gone_is_not_known() -> None:
    standing = Standing(["stock", "ours"], "other", ("stock", "ours", "other"))
    assert standing.holder == 0 and standing.duel is not None
