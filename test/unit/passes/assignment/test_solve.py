"""The solver finds what brute force finds, and says honestly whether it is the best."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from triton_linear.passes.assignment import solve as solver
from triton_linear.passes.assignment.solve import Problem, solve


def least(problem: Problem) -> float:
    """The cost of the best choices, by trying all."""
    return min(map(problem.cost, itertools.product(*(range(len(table)) for table in problem.unary))))


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
    assert problem.cost(found.choices) == cost_of(unary, pairs, found.choices) == least(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "FEW_ENTRIES", 0)
        assert solve(problem) == found, "by arrays instead of lists"


def test_a_variable_has_many_neighbours_of_one_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than an array of numpy has dimensions."""
    monkeypatch.setattr(solver, "FEW_ENTRIES", 0)
    problem = Problem([[3.0, 1.0, 2.0], *([0.0] for _ in range(70))])
    for other in range(1, 71):
        problem.add_pair(0, other, [[0.0], [1.0], [0.0]])
    assert solve(problem).choices == (2, *[0] * 70)


@contextmanager
def with_tables_of(entries: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "MOST_ENTRIES", entries)
        patch.setattr(solver, "MOST_HELD_ENTRIES", entries)
        yield


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from([1, 6, 20]))
def test_where_tables_are_too_large_no_other_choice_of_a_variable_is_better(
    case: tuple[Problem, list[np.ndarray], list[tuple[int, int, np.ndarray]]], entries: int
) -> None:
    problem, unary, pairs = case
    with with_tables_of(entries):
        found = solve(problem)
        assert solve(problem) == found
    cost = cost_of(unary, pairs, found.choices)
    assert problem.cost(found.choices) == cost
    assert cost == least(problem) or not found.optimal
    for variable, choices in enumerate(unary):
        for choice in range(len(choices)):
            others = (*found.choices[:variable], choice, *found.choices[variable + 1 :])
            assert problem.cost(others) >= cost


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(3, 14), st.sampled_from([12, 40, 200, 1_000]))
def test_every_tangle_has_a_solution(seed: int, count: int, entries: int) -> None:
    """In whatever order variables are eliminated, and however unlike their sizes are."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 13, count)
    problem = Problem([random.random(size).tolist() for size in sizes])
    for a, b in itertools.combinations(range(count), 2):
        if random.random() < 0.5:
            problem.add_pair(a, b, random.random((sizes[a], sizes[b])).tolist())
    with with_tables_of(entries):
        found = solve(problem)
    assert all(0 <= choice < size for choice, size in zip(found.choices, sizes, strict=True))
    assert problem.cost(found.choices) <= problem.cost((0,) * count) + 1e-9


def test_a_pair_counts_the_lower_variable_in_rows() -> None:
    table = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    for a, b, given_table in ((0, 1, table), (1, 0, table.T)):
        problem = Problem([np.zeros(2), np.zeros(3)])
        problem.add_pair(a, b, given_table)
        problem.add_pair(a, b, given_table)
        assert problem.pairs.keys() == {(0, 1)}
        assert [problem.cost((1, choice)) for choice in range(3)] == [16.0, 32.0, 64.0]


def test_a_pair_of_one_variable_is_its_diagonal() -> None:
    problem = Problem([np.array([5.0, 1.0])])
    problem.add_pair(0, 0, np.array([[1.0, 100.0], [100.0, 9.0]]))
    assert problem.pairs == {}
    assert solve(problem).choices == (0,)
    assert problem.cost((0,)) == 6.0


def test_nothing_to_choose() -> None:
    assert solve(Problem([])).choices == ()
    assert solve(Problem([np.array([3.0])])).choices == (0,)


def tangle(variables: int, choices: int) -> Problem:
    """Every pair costs something at random: elimination's tables would be too large."""
    random = np.random.default_rng(0)
    problem = Problem([random.random(choices) for _ in range(variables)])
    for a, b in itertools.combinations(range(variables), 2):
        problem.add_pair(a, b, random.random((choices, choices)))
    return problem


def test_a_problem_that_is_too_large_is_solved_by_a_bounded_number_of_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, trials = tangle(16, 8), []
    eliminate = solver._by_elimination
    monkeypatch.setattr(solver, "_by_elimination", lambda *given: trials.append(given) or eliminate(*given))
    found = solve(problem)
    assert not found.optimal
    assert len(trials) <= 1 + 16 + solver.MOST_TRIALS  # that which gives up, one for each held variable, trials
    random = np.random.default_rng(1)
    drawn = [tuple(random.integers(0, 8, 16).tolist()) for _ in range(2_000)]
    assert problem.cost(found.choices) < min(map(problem.cost, drawn))


def test_equal_choices_are_decided_for_the_first() -> None:
    """What a group has comes first: nothing changes for nothing."""
    problem = Problem([np.zeros(4) for _ in range(5)])
    for a, b in itertools.pairwise(range(5)):
        problem.add_pair(a, b, np.ones((4, 4)))
    assert solve(problem).choices == (0,) * 5
