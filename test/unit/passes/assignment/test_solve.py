"""The solver finds what brute force finds, and says honestly whether it is the best."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from triton_linear.passes.assignment import solve as solver
from triton_linear.passes.assignment.solve import Problem, solve


def cost(problem: Problem, choices: Sequence[int]) -> float:
    """What these choices cost in all."""
    total = sum(costs[choice] for costs, choice in zip(problem.unary, choices, strict=True))
    return float(total + sum(table[choices[a]][choices[b]] for (a, b), table in problem.pairs.items()))


def cost_of(
    unary: list[np.ndarray], pairs: list[tuple[int, int, np.ndarray]], choices: tuple[int, ...]
) -> float:
    """The cost by the definition: every table once, a pair's rows being the choices of the first."""
    total = sum(table[choice] for table, choice in zip(unary, choices, strict=True))
    return float(total + sum(table[choices[a], choices[b]] for a, b, table in pairs))


@st.composite
def problems(
    draw: st.DrawFn, most: int = 8
) -> tuple[Problem, list[np.ndarray], list[tuple[int, int, np.ndarray]]]:
    """Trees, cycles and tangles; some pairs are given twice, the wrong way round, or of one variable."""
    count = draw(st.integers(1, most))
    sizes = [draw(st.integers(1, 5 if count <= 6 else 3)) for _ in range(count)]
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    shape = draw(st.sampled_from(["tree", "cycle", "tangle"]))
    between = [(i, int(random.integers(0, i))) for i in range(1, count)]
    if shape == "cycle" and count > 2:
        between = [(i, (i + 1) % count) for i in range(count)]
    if shape == "tangle":
        between += [tuple(random.integers(0, count, 2).tolist()) for _ in range(draw(st.integers(0, 8)))]
    event(f"{shape} of {count}")
    # Whole numbers, so that costs can be compared; some forbidden, as conversions that cannot be made.
    unary = [random.integers(0, 20, size).astype(float) for size in sizes]
    pairs = []
    for a, b in between:
        table = random.integers(0, 20, (sizes[a], sizes[b])).astype(float)
        table[random.random(table.shape) < 0.1] = 1e12
        pairs.append((a, b, table))
    problem = Problem([table.copy() for table in unary])
    for a, b, table in pairs:
        problem.add_pair(a, b, table)
    return problem, unary, pairs


@settings(max_examples=60, deadline=None)
@given(problems())
def test_elimination_finds_the_best(
    case: tuple[Problem, list[np.ndarray], list[tuple[int, int, np.ndarray]]],
) -> None:
    problem, unary, pairs = case
    found = solve(problem)
    assert found.optimal
    every = itertools.product(*(range(len(table)) for table in problem.unary))
    least = min(cost(problem, choices) for choices in every)
    assert cost(problem, found.choices) == cost_of(unary, pairs, found.choices) == least


def test_where_a_table_is_too_large_every_variable_has_its_first_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = Problem([[3.0, 1.0], [2.0, 0.0]])
    problem.add_pair(0, 1, [[0.0, 1.0], [1.0, 0.0]])
    assert solve(problem).choices == (1, 1)
    monkeypatch.setattr(solver, "MOST_ENTRIES", 3)
    found = solve(problem)
    assert found.choices == (0, 0) and not found.optimal


def test_a_pair_counts_the_lower_variable_in_rows() -> None:
    table = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    for a, b, given_table in ((0, 1, table), (1, 0, table.T)):
        problem = Problem([np.zeros(2), np.zeros(3)])
        problem.add_pair(a, b, given_table)
        problem.add_pair(a, b, given_table)
        assert problem.pairs.keys() == {(0, 1)}
        assert [cost(problem, (1, choice)) for choice in range(3)] == [16.0, 32.0, 64.0]


def test_a_pair_of_one_variable_is_its_diagonal() -> None:
    problem = Problem([np.array([5.0, 1.0])])
    problem.add_pair(0, 0, np.array([[1.0, 100.0], [100.0, 9.0]]))
    assert problem.pairs == {}
    assert solve(problem).choices == (0,)
    assert cost(problem, (0,)) == 6.0


def test_nothing_to_choose() -> None:
    assert solve(Problem([])).choices == ()
    assert solve(Problem([np.array([3.0])])).choices == (0,)


def test_equal_choices_are_decided_for_the_first() -> None:
    """What a group has comes first: nothing changes for nothing."""
    problem = Problem([np.zeros(4) for _ in range(5)])
    for a, b in itertools.pairwise(range(5)):
        problem.add_pair(a, b, np.ones((4, 4)))
    assert solve(problem).choices == (0,) * 5
