"""Choose one candidate for each variable so that the sum of unary and pairwise costs is least.

Variables are eliminated one after another: the cost of the best choice for a variable, for each combination of
choices of its neighbours, becomes a table over the neighbours. This is exact. On trees, which most kernels are,
the tables are no larger than the given ones. If a table would grow too large, HiGHS solves the problem as an
integer program with a time limit.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import field
from operator import add
from typing import Any

import numpy as np

from triton_linear.dialect.records import dataclass

Table = list[list[float]]
"""The costs of two variables: a row for each choice of the first, a column for each of the second."""

MOST_ENTRIES = 200_000


@dataclass
class Problem:
    """Variables with costs for each choice, and for each pair of choices of two variables.

    unary: for each variable, the cost of each choice. pairs: tables by two variables (a, b) with a < b; the
    rows are the choices of a.
    """

    unary: list[list[float]]
    pairs: dict[tuple[int, int], Table] = field(default_factory=dict)

    def add_pair(self, a: int, b: int, table: Table) -> None:
        """Add costs that depend on two variables; if `a` and `b` are the same, the diagonal counts."""
        if a == b:
            self.unary[a] = [cost + table[choice][choice] for choice, cost in enumerate(self.unary[a])]
            return
        if a > b:
            a, b, table = b, a, [list(column) for column in zip(*table, strict=True)]
        known = self.pairs.get((a, b))
        if known is not None:
            table = [list(map(add, *rows)) for rows in zip(known, table, strict=True)]
        self.pairs[a, b] = table

    def cost(self, choices: Sequence[int]) -> float:
        """The total cost of these choices."""
        total = sum(costs[choice] for costs, choice in zip(self.unary, choices, strict=True))
        return total + sum(table[choices[a]][choices[b]] for (a, b), table in self.pairs.items())


@dataclass(frozen=True, slots=True)
class Solution:
    """The choice for each variable, and the solver: "elimination", which is exact, or "HiGHS", which is exact
    unless its time ran out."""

    choices: tuple[int, ...]
    solver: str
    optimal: bool


@dataclass(frozen=True, slots=True)
class _Factor:
    """The costs of some variables (`scope`): an array with a dimension for each."""

    scope: tuple[int, ...]
    costs: Any

    def over(self, variables: Sequence[int]) -> Any:
        """The costs as an array with a dimension for each of `variables`, which contain the scope in any order.
        The dimension of a variable outside the scope has size 1."""
        places = [self.scope.index(variable) for variable in variables if variable in self.scope]
        sizes = [self.costs.shape[self.scope.index(v)] if v in self.scope else 1 for v in variables]
        return self.costs.transpose(places).reshape(sizes)


def solve(problem: Problem, seconds: float = 1.0) -> Solution:
    """The choices of least cost.

    Ensures: the solution is optimal, unless a table would exceed `MOST_ENTRIES` entries and HiGHS needs more
    than `seconds`.
    """
    choices = _solve_by_elimination(problem)
    if choices is not None:
        return Solution(choices, "elimination", True)
    return _solve_as_integer_program(problem, seconds)


def _solve_by_elimination(problem: Problem) -> tuple[int, ...] | None:
    """The choices of least cost; None if a table would exceed `MOST_ENTRIES` entries."""
    sizes = [len(costs) for costs in problem.unary]
    factors = [_Factor((i,), np.array(costs)) for i, costs in enumerate(problem.unary)]
    factors += [_Factor(pair, np.array(table)) for pair, table in problem.pairs.items()]
    touching: dict[int, list[_Factor]] = {i: [] for i in range(len(sizes))}
    for factor in factors:
        for variable in factor.scope:
            touching[variable].append(factor)
    scopes = {v: _neighbours(touching[v], v) for v in touching}
    entries = {v: math.prod([sizes[u] for u in scope]) for v, scope in scopes.items()}
    decided: list[tuple[int, tuple[int, ...], Any]] = []
    while entries:
        variable = min(entries, key=lambda v: (entries[v], v))
        scope = scopes[variable]
        if entries.pop(variable) * sizes[variable] > MOST_ENTRIES:
            return None
        costs: Any = sum(factor.over((*scope, variable)) for factor in touching[variable])
        decided.append((variable, scope, costs.argmin(axis=-1)))
        for factor in touching.pop(variable):
            for other in factor.scope:
                if other != variable:
                    touching[other] = [each for each in touching[other] if each is not factor]
        remaining = _Factor(scope, costs.min(axis=-1))
        for other in scope:
            touching[other].append(remaining)
            scopes[other] = _neighbours(touching[other], other)
            entries[other] = math.prod([sizes[u] for u in scopes[other]])
    choices = [0] * len(sizes)
    for variable, scope, best in reversed(decided):
        choices[variable] = int(best[tuple(choices[other] for other in scope)])
    return tuple(choices)


def _neighbours(factors: Sequence[_Factor], variable: int) -> tuple[int, ...]:
    return tuple(sorted({v for factor in factors for v in factor.scope} - {variable}))


def _solve_as_integer_program(problem: Problem, seconds: float) -> Solution:
    """Solve the problem as an integer program: a binary variable for each choice, and a continuous variable for
    each pair of choices. Each row and column of a pair's variables sums to the variable of its choice."""
    highspy: Any = importlib.import_module("highspy")  # takes a tenth of a second, and is seldom needed

    began = time.perf_counter()
    model = highspy.Highs()
    model.silent()
    choose = []
    for costs in problem.unary:
        variables = [model.addBinary(obj=cost) for cost in costs]
        model.addConstr(sum(variables) == 1)
        choose.append(variables)
    for (a, b), table in problem.pairs.items():
        both = [[model.addVariable(lb=0.0, ub=1.0, obj=cost) for cost in row] for row in table]
        for row, variable in zip(both, choose[a], strict=True):
            model.addConstr(sum(row) == variable)
        for column, variable in zip(zip(*both, strict=True), choose[b], strict=True):
            model.addConstr(sum(column) == variable)
    model.setOptionValue("time_limit", max(0.0, seconds - (time.perf_counter() - began)))
    # If HiGHS had started threads, a process forked later would wait for them forever: so it runs on one
    # thread, unless other code in this process has set another number, which HiGHS refuses to change.
    for threads in (1, 0):
        model.setOptionValue("threads", threads)
        if model.run() != highspy.HighsStatus.kError:
            break
    optimal = model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    values = list(model.getSolution().col_value)
    choices = []
    for variables in choose:
        taken = [values[variable.index] for variable in variables] if values else [1.0]
        choices.append(taken.index(max(taken)))
    return Solution(tuple(choices), "HiGHS", optimal)
