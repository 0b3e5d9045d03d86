"""Any word that is asked for comes out, in as few steps as its sources allow."""

from __future__ import annotations

import random

import pytest

from triton_linear.lowering.plan.words import TooLong, WordBuilder, parity_terms
from triton_linear.lowering.target.steps import Pick, Shuffle


def parity(x):
    return bin(x).count("1") & 1


def evaluate(builder, thread):
    """The slots of every word in one thread; slot s of given word w is (w, s)."""
    words = [[(w, s) for s in range(builder.slots)] for w in range(builder.given)]
    for step in builder.steps:
        assert isinstance(step, Pick)
        slots = [slot for source in step.sources for slot in words[source]]
        chosen = sum(parity(mask & thread) << bit for bit, mask in enumerate(step.masks))
        words.append([None if pick < 0 else slots[pick] for pick in step.picks[chosen]])
    return words


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_random_words(slots):
    rng = random.Random(slots)
    for _ in range(200):
        builder = WordBuilder(slots, given=rng.choice((1, 2, 4, 8)))
        asked = []
        for _ in range(3):
            masks = tuple(rng.sample((1, 2, 4, 3, 8), rng.randrange(4)))
            places = [(rng.randrange(builder.given), rng.randrange(slots)) for _ in range(6)]
            table = tuple(
                tuple(rng.choice([None, *places]) for _ in range(slots)) for _ in range(1 << len(masks))
            )
            asked.append((builder.choose_places(masks, table), masks, table))
        for thread in range(16):
            words = evaluate(builder, thread)
            for word, masks, table in asked:
                row = table[sum(parity(mask & thread) << bit for bit, mask in enumerate(masks))]
                for wanted, found in zip(row, words[word], strict=True):
                    assert wanted in (None, found)


def test_a_word_that_is_there_costs_nothing():
    builder = WordBuilder(4, given=2)
    assert builder.choose_places((), (((1, 0), (1, 1), None, (1, 3)),)) == 1
    assert not builder.steps


def test_choosing_and_permuting_two_words_is_one_step():
    builder = WordBuilder(4, given=2)
    straight, crossed = ((0, 0), (1, 0), (0, 2), (1, 2)), ((1, 3), (1, 1), (0, 1), (0, 3))
    word = builder.choose_places((1, 6), (straight, crossed, crossed, straight))
    assert builder.steps == [Pick((0, 1), (1, 6), ((0, 4, 2, 6), (7, 5, 1, 3), (7, 5, 1, 3), (0, 4, 2, 6)))]
    assert word == 2


def test_conditions_on_which_nothing_depends_go():
    builder = WordBuilder(1, given=2)
    builder.choose_places((1, 2, 4), tuple((((number >> 1) & 1, 0),) for number in range(8)))
    assert builder.steps == [Pick((0, 1), (2,), ((0,), (1,)))]


def test_equal_steps_are_made_once():
    builder = WordBuilder(1, given=4)
    table = (((0, 0),), ((1, 0),), ((2, 0),), ((3, 0),))
    first = builder.choose_places((1, 2), table)
    assert builder.choose_places((1, 2), table) == first
    assert len(builder.steps) == 3
    assert builder.shuffle(Shuffle(first, 1)) == builder.shuffle(Shuffle(first, 1)) == first + 1


def test_steering_sums_columns():
    rng = random.Random(5)
    for _ in range(100):
        columns = tuple(rng.randrange(16) for _ in range(6))
        found = parity_terms(columns)
        for x in range(64):
            total = 0
            for bit, column in enumerate(columns):
                total ^= column * (x >> bit & 1)
            for vector, mask in found:
                total ^= vector * parity(mask & x)
            assert total == 0


def test_a_program_that_cannot_be_shorter_any_more_ends() -> None:
    builder = WordBuilder(1, 4)
    builder.shuffle(Shuffle(0, 1))
    twin = builder.copy(limit=3)
    twin.shuffle(Shuffle(0, 1))
    twin.shuffle(Shuffle(1, 1))
    with pytest.raises(TooLong):
        twin.shuffle(Shuffle(2, 1))
    builder.shuffle(Shuffle(2, 1))
    builder.shuffle(Shuffle(3, 1))
    assert len(builder.steps) == 3


def test_words_of_which_half_is_read_share_one() -> None:
    """Two words of two slots of each of four others take four picks."""
    builder = WordBuilder(4, given=4)
    wanted = [[(0, 0), (1, 0), (2, 0), (3, 0)], [(0, 1), (1, 1), (2, 1), (3, 1)]]
    made = [builder.choose_places((), [row]) for row in wanted]
    assert len(builder.steps) == 4
    words = evaluate(builder, 0)
    assert [words[word] for word in made] == wanted
    assert builder.choose_places((), [wanted[1]]) == made[1] and len(builder.steps) == 4


def test_halves_of_one_word_are_picked_from_it() -> None:
    """The second half finds room in the word that has the first."""
    builder = WordBuilder(4, 3)
    builder.choose_places((), [[(0, 1), (1, 0), (2, 3), (2, 1)]])
    half = builder.choose_places((), [[(0, 1), (1, 0), None, None]])
    made = builder.choose_places((), [[(half, 0), (half, 1), (0, 2), (1, 3)]])
    assert evaluate(builder, 0)[made] == [(0, 1), (1, 0), (0, 2), (1, 3)]


@pytest.mark.parametrize("slots", [2, 4])
def test_random_words_share_others_by_conditions(slots: int) -> None:
    """Many words of the same few others, in any thread, and after a copy of the program."""
    rng = random.Random(slots)
    for _ in range(300):
        builder = WordBuilder(slots, given=rng.choice((3, 4)))
        masks = tuple(rng.sample(range(1, 8), rng.choice((0, 1, 2))))
        asked: list[tuple[int, list[list[tuple[int, int] | None]]]] = []
        for _ in range(6):
            table: list[list[tuple[int, int] | None]] = [
                [
                    None if rng.random() < 0.2 else (rng.randrange(builder.given), rng.randrange(slots))
                    for _ in range(slots)
                ]
                for _ in range(1 << len(masks))
            ]
            asked.append((builder.choose_places(masks, table), table))
            builder = builder.copy()
        for thread in range(8):
            words = evaluate(builder, thread)
            chosen = sum(parity(mask & thread) << bit for bit, mask in enumerate(masks))
            for word, table in asked:
                wanted = table[chosen]
                assert all(one is None or one == other for one, other in zip(wanted, words[word], strict=True))
