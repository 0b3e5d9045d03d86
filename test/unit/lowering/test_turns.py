"""Exchanges of a cluster that take turns: on every path, who stores to a piece of scratch has come through a
barrier of the cluster since others loaded from it."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from triton_linear.dialect.mlir_adapter import Module, new_context, operations
from triton_linear.lowering.emit import turns
from triton_linear.lowering.emit.scratch import ScratchUse, affordable, pieces
from triton_linear.lowering.emit.turns import Choice, Order, Stretch, Turn

Program = list["int | tuple[str, list[Program]]"]
"""Exchanges, and (kind, bodies): of a "choice" one body runs, of a "loop" any, any number of times."""


def stretch_of(program: Program) -> Stretch:
    return tuple(
        step if isinstance(step, int) else Choice(tuple(map(stretch_of, step[1])), repeats=step[0] == "loop")
        for step in program
    )


def order_of(program: Program, chosen: Collection[int] = range(1000)) -> Order:
    return turns.order_of(stretch_of(program), chosen)


def walk(rng: random.Random, program: Program) -> Iterator[int]:
    """A path through a program."""
    for step in program:
        if isinstance(step, int):
            yield step
            continue
        kind, bodies = step
        for _ in range(1 if kind == "choice" else rng.randrange(4)):
            yield from walk(rng, rng.choice(bodies))


def drawn(rng: random.Random, numbers: Iterator[int], depth: int = 3) -> Program:
    program: Program = []
    for _ in range(rng.randint(1, 3)):
        if depth and rng.random() < 0.5:
            bodies = [drawn(rng, numbers, depth - 1) for _ in range(rng.randint(1, 2))]
            program.append((rng.choice(("choice", "loop")), bodies))
        else:
            program.append(next(numbers))
    return program


def is_sound(path: list[int], taking: dict[int, Turn]) -> bool:
    """Whether each store comes behind a barrier that comes behind the loads of others."""
    loading: set[int] = set()
    for number in path:
        turn = taking[number]
        if turn.piece in loading:
            return False
        loading = set() if turn.closes else {turn.piece}  # the barrier inside is behind all loads before it
    return True  # there is a barrier at the end


def found_unsound(rng: random.Random, program: Program, taking: dict[int, Turn]) -> bool:
    return any(not is_sound(list(walk(rng, program)), taking) for _ in range(60))


def test_every_path_of_drawn_programs_is_sound() -> None:
    rng, fewer = random.Random(26), 0
    for _ in range(400):
        program = drawn(rng, iter(range(1, 1000)))
        order = order_of(program)
        taking = turns.turns(order)
        fewer += not all(turn.closes for turn in taking.values())
        assert set(taking) == set(order.follow)
        assert not found_unsound(rng, program, taking), (program, taking)
    assert fewer > 200


REGIONS = """
"test.begin"() : () -> ()
"scf.while"() ({
  "test.one"() : () -> ()
  "scf.condition"() : () -> ()
}, {
  "test.two"() : () -> ()
  "scf.if"() ({
    "test.three"() : () -> ()
  }, {
    "test.four"() : () -> ()
    "scf.for"() ({
      "test.five"() : () -> ()
    }) : () -> ()
  }) : () -> ()
}) : () -> ()
"test.if"() ({
  "test.six"() : () -> ()
}, {
}) : () -> ()
"test.nothing"() ({
  "test.seven"() : () -> ()
}) : () -> ()
"""
"""Regions without terminators; of an operation that is not known any may run, any number of times."""


def test_regions_are_ways_and_all_but_those_of_branches_repeat() -> None:
    context = new_context()
    context.allow_unregistered_dialects = True
    module = Module.parse(REGIONS, context)
    numbers = {op.name: number for number, op in enumerate(operations(module.operation)[1:])}
    one, two, three, four, five, six = (
        numbers[f"test.{name}"] for name in ("one", "two", "three", "four", "five", "six")
    )
    body: Stretch = (two, Choice(((three,), (four, Choice(((five,),), True))), False))
    expected: Stretch = (Choice(((one,), body), True), Choice(((six,), ()), True))
    assert turns.stretch_of(module.body, 0, {one, two, three, four, five, six}) == expected


def test_exchanges_that_are_not_chosen_are_passed() -> None:
    program: Program = [1, ("choice", [[2], [3]]), ("loop", [[4, 5], [6]]), 7]
    assert order_of(program, {1, 3, 5, 7}) == order_of([1, ("choice", [[], [3]]), ("loop", [[5], []]), 7])


def test_a_barrier_less_is_found() -> None:
    """Most barriers that are kept are kept for a path that there is."""
    rng, kept, seen = random.Random(7), 0, 0
    for _ in range(150):
        program = drawn(rng, iter(range(1, 1000)), depth=2)
        taking = turns.turns(order_of(program))
        for number, turn in taking.items():
            if turn.closes:
                kept += 1
                seen += found_unsound(rng, program, {**taking, number: replace(turn, closes=False)})
    assert kept > 50 and seen > 0.8 * kept, (kept, seen)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ([1, 2, 3], {1: (0, False), 2: (1, False), 3: (0, False)}),
        ([("loop", [[1, 2]]), 3], {1: (0, False), 2: (1, False), 3: (0, False)}),
        ([("loop", [[1]])], {1: (0, True)}),
        ([1], {1: (0, False)}),
        ([("loop", [[1]]), 2], {1: (0, True), 2: (1, False)}),
        ([1, ("choice", [[2], [3]]), 4], {1: (0, False), 2: (1, False), 3: (1, False), 4: (0, False)}),
        ([1, ("choice", [[2], []]), 3], {1: (0, True), 2: (1, False), 3: (0, False)}),
        ([("loop", [[1, ("loop", [[2]])]])], {1: (0, True), 2: (1, True)}),
    ],
)
def test_turns(program: Program, expected: dict[int, tuple[int, bool]]) -> None:
    found = {number: (turn.piece, turn.closes) for number, turn in turns.turns(order_of(program)).items()}
    assert found == expected


def test_pieces_hold_the_largest_of_their_exchanges() -> None:
    sizes = {1: 4096, 2: 512, 3: 64, 4: 1024}
    uses = {n: ScratchUse(n, n + 1, 9, 1, size, warp=False, split=False) for n, size in sizes.items()}
    taking = {1: Turn(0, False), 2: Turn(1, False), 3: Turn(0, False), 4: Turn(1, True)}
    assert pieces(uses, taking) == {0: 4096, 1: 1024}
    assert pieces(uses, {}) == {}


def test_one_piece_serves_where_two_are_too_many() -> None:
    def of(nesting: int, budget: int) -> tuple[dict[int, Turn], int]:
        uses = {n: ScratchUse(n, n + 1, 9, nesting, 4096, warp=False, split=False) for n in (1, 2)}
        taking = {1: Turn(0, False), 2: Turn(1, False)}
        found, bytes_ = affordable(uses, taking, list(uses.values()), 512, budget, 32)
        return dict(found), bytes_

    assert of(2, 8704) == ({1: Turn(0, False), 2: Turn(1, False)}, 8704)
    assert of(2, 8703) == ({1: Turn(0, True), 2: Turn(0, True)}, 8703)
    # What scratch takes anyhow is no more than that of one.
    assert of(2, 0) == ({1: Turn(0, True), 2: Turn(0, True)}, 4608)
    # Outside loops one piece saves nothing.
    assert of(1, 8704) == ({1: Turn(0, False), 2: Turn(1, False)}, 8704)
    assert of(1, 8703) == ({}, 8703)
    one = {1: ScratchUse(1, 2, 9, 1, 4096, warp=False, split=False)}
    assert affordable(one, {1: Turn(0, False)}, list(one.values()), 0, 1 << 20, 32) == ({}, 1 << 20)


def test_exchanges_alternate_where_one_would_close() -> None:
    """Two halves, and a word of each thread; where that is too much, they take the turns given."""

    def of(budget: int, nesting: int = 2) -> dict[int, Turn]:
        uses = {1: ScratchUse(1, 2, 9, nesting, 1000, warp=False, split=False)}
        found, _ = affordable(uses, {1: Turn(0, True)}, list(uses.values()), 0, budget, 64)
        return dict(found)

    (turn,) = of(2 * 1008 + 4 * 64).values()
    assert turn == Turn(0, False, 1008, 64) and turn.bytes == 2272
    assert of(2271) == {1: Turn(0, True)}
    assert of(1 << 20, nesting=1) == {}
