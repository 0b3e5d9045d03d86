"""Choosing one candidate for each variable so that unary and pairwise costs add up to the least.

Variables are eliminated one by one: what the best choice for a variable costs, for each choice of its
neighbours, becomes a table over these. That is exact; on trees, which most kernels are, the tables are no
larger than the given ones. Where they would grow too large the whole is an integer program, given to HiGHS with
a time limit.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import field
from itertools import chain
from operator import add
from typing import Any

from triton_linear.dialect.records import dataclass

Table = list[list[float]]
"""What two variables cost: a row for each choice of the first. Tables are small, so numpy would only cost the
time to import it."""

MOST_ENTRIES = 200_000


@dataclass
class Problem:
    """Variables with costs for each choice, and for each pair of choices of two variables.

    A pair's table has the choices of the lower variable as rows.
    """

    unary: list[list[float]]
    pairs: dict[tuple[int, int], Table] = field(default_factory=dict)

    def add_pair(self, a: int, b: int, table: Table) -> None:
        """Add costs that depend on two variables, or twice on one."""
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
        """What an assignment costs."""
        total = sum(costs[choice] for costs, choice in zip(self.unary, choices, strict=True))
        return total + sum(table[choices[a]][choices[b]] for (a, b), table in self.pairs.items())


@dataclass(frozen=True, slots=True)
class Solution:
    """The choice for each variable, and who made it: "elimination", which is exact, or "HiGHS", which is unless
    its time ran out."""

    choices: tuple[int, ...]
    solver: str
    optimal: bool


@dataclass
class _Factor:
    """What some variables cost: an entry for each combination of their choices, those of the last fastest."""

    scope: tuple[int, ...]
    costs: list[float]

    def over(self, variables: Sequence[int], sizes: Sequence[int]) -> list[float]:
        """The same for each combination of more variables, or of the same in another order."""
        strides, stride = {}, 1
        for variable in reversed(self.scope):
            strides[variable] = stride
            stride *= sizes[variable]
        places = [0]
        for variable in variables:
            stride = strides.get(variable, 0)
            steps = [stride * choice for choice in range(sizes[variable])]
            places = [place + step for place in places for step in steps]
        return [self.costs[place] for place in places]


def solve(problem: Problem, seconds: float = 1.0) -> Solution:
    """The choices of least cost.

    Ensures: exact, unless the tables would exceed `MOST_ENTRIES` and HiGHS needs more than `seconds`.
    """
    choices = _eliminated(problem)
    if choices is not None:
        return Solution(choices, "elimination", True)
    return _programmed(problem, seconds)


def _eliminated(problem: Problem) -> tuple[int, ...] | None:
    sizes = [len(costs) for costs in problem.unary]
    factors = [_Factor((i,), costs) for i, costs in enumerate(problem.unary)]
    factors += [_Factor(pair, list(chain.from_iterable(table))) for pair, table in problem.pairs.items()]
    touching: dict[int, list[_Factor]] = {i: [] for i in range(len(sizes))}
    for factor in factors:
        for variable in factor.scope:
            touching[variable].append(factor)
    scopes = {v: _neighbourhood(touching[v], v) for v in touching}
    entries = {v: math.prod([sizes[u] for u in scope]) for v, scope in scopes.items()}
    decided: list[tuple[int, tuple[int, ...], list[int]]] = []
    while entries:
        variable = min(entries, key=lambda v: (entries[v], v))
        scope, size = scopes[variable], sizes[variable]
        combined = entries.pop(variable) * size
        if combined > MOST_ENTRIES:
            return None
        costs = [0.0] * combined
        for factor in touching[variable]:
            costs = list(map(add, costs, factor.over((*scope, variable), sizes)))
        rows = [costs[start : start + size] for start in range(0, combined, size)]
        made = _Factor(scope, list(map(min, rows)))
        decided.append((variable, scope, list(map(list.index, rows, made.costs))))
        for factor in touching.pop(variable):
            for other in factor.scope:
                if other != variable:
                    touching[other].remove(factor)
        for other in scope:
            touching[other].append(made)
            scopes[other] = _neighbourhood(touching[other], other)
            entries[other] = math.prod([sizes[u] for u in scopes[other]])
    choices = [0] * len(sizes)
    for variable, scope, best in reversed(decided):
        place = 0
        for other in scope:
            place = place * sizes[other] + choices[other]
        choices[variable] = best[place]
    return tuple(choices)


def _neighbourhood(factors: Sequence[_Factor], variable: int) -> tuple[int, ...]:
    return tuple(sorted({v for factor in factors for v in factor.scope} - {variable}))


def _programmed(problem: Problem, seconds: float) -> Solution:
    """The problem as an integer program: one binary variable a choice, one continuous one a pair of choices,
    whose rows and columns sum to those of the choices."""
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
    # A process that is forked after HiGHS started threads would wait for them forever: it gets none, unless
    # somebody in this process settled another number, which it refuses to change.
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
