"""Small problems of assignment and their best choices."""

from __future__ import annotations

import itertools

import numpy as np

from triton_linear.passes.assignment import solve as solver
from triton_linear.passes.assignment.solve import Problem


def least(problem: Problem) -> float:
    """The cost of the best choices, by trying all."""
    return min(map(problem.cost, itertools.product(*(range(len(table)) for table in problem.unary))))


def programmed_cycle() -> tuple[str, bool]:
    """A problem that HiGHS is asked: who solved it, and whether that is the best."""
    problem = Problem([np.array([0.0, 1.0]), np.array([1.0, 0.0])])
    problem.add_pair(0, 1, np.array([[0.0, 3.0], [3.0, 0.0]]))
    found = solver._solve_as_integer_program(problem, seconds=10.0)
    assert problem.cost(found.choices) == least(problem)
    return found.solver, found.optimal
