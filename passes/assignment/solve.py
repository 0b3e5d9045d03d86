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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float64]

MOST_ENTRIES = 200_000


@dataclass
class Problem:
    """Variables with costs for each choice, and for each pair of choices of two variables.

    A pair's table has the choices of the lower variable as rows.
    """

    unary: list[Table]
    pairs: dict[tuple[int, int], Table] = field(default_factory=dict)

    def add_pair(self, a: int, b: int, table: Table) -> None:
        """Add costs that depend on two variables, or twice on one."""
        if a == b:
            self.unary[a] = self.unary[a] + np.diagonal(table)
            return
        if a > b:
            a, b, table = b, a, table.T
        known = self.pairs.get((a, b))
        self.pairs[a, b] = table if known is None else known + table

    def cost(self, choices: Sequence[int]) -> float:
        """What an assignment costs."""
        total = sum(float(table[choice]) for table, choice in zip(self.unary, choices, strict=True))
        return total + sum(float(table[choices[a], choices[b]]) for (a, b), table in self.pairs.items())


@dataclass(frozen=True, slots=True)
class Solution:
    """The choice for each variable, and who made it: "elimination", which is exact, or "HiGHS", which is unless
    its time ran out."""

    choices: tuple[int, ...]
    solver: str
    optimal: bool


@dataclass
class _Factor:
    scope: tuple[int, ...]
    table: Table


def solve(problem: Problem, seconds: float = 1.0) -> Solution:
    """The choices of least cost.

    Ensures: exact, unless the tables would exceed `MOST_ENTRIES` and HiGHS needs more than `seconds`.
    """
    choices = _eliminated(problem)
    if choices is not None:
        return Solution(choices, "elimination", True)
    return _programmed(problem, seconds)


def _eliminated(problem: Problem) -> tuple[int, ...] | None:
    sizes = [len(table) for table in problem.unary]
    factors = [_Factor((i,), table) for i, table in enumerate(problem.unary)]
    factors += [_Factor(pair, table) for pair, table in problem.pairs.items()]
    touching: dict[int, list[_Factor]] = {i: [] for i in range(len(sizes))}
    for factor in factors:
        for variable in factor.scope:
            touching[variable].append(factor)
    scopes = {v: _neighbourhood(touching[v], v) for v in touching}
    entries = {v: math.prod([sizes[u] for u in scope]) for v, scope in scopes.items()}
    decided: list[tuple[int, tuple[int, ...], npt.NDArray[np.int64]]] = []
    while entries:
        variable = min(entries, key=lambda v: (entries[v], v))
        scope = scopes[variable]
        if entries.pop(variable) * sizes[variable] > MOST_ENTRIES:
            return None
        whole = (*scope, variable)
        table = np.zeros([sizes[v] for v in whole])
        for factor in touching[variable]:
            table = table + _aligned(factor, whole)
        decided.append((variable, scope, table.argmin(axis=-1)))
        made = _Factor(scope, table.min(axis=-1))
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
        choices[variable] = int(best[tuple(choices[v] for v in scope)])
    return tuple(choices)


def _neighbourhood(factors: Sequence[_Factor], variable: int) -> tuple[int, ...]:
    return tuple(sorted({v for factor in factors for v in factor.scope} - {variable}))


def _aligned(factor: _Factor, scope: tuple[int, ...]) -> Table:
    """The factor's table with one axis for each variable of `scope`."""
    order = sorted(range(len(factor.scope)), key=lambda i: scope.index(factor.scope[i]))
    table: Table = factor.table.transpose(order)
    held = set(factor.scope)
    index = tuple(slice(None) if variable in held else np.newaxis for variable in scope)
    aligned: Table = table[index]
    return aligned


def _programmed(problem: Problem, seconds: float) -> Solution:
    """The problem as an integer program: one binary variable a choice, one continuous one a pair of choices,
    whose rows and columns sum to those of the choices."""
    highspy: Any = importlib.import_module("highspy")  # takes a tenth of a second, and is seldom needed

    began = time.perf_counter()
    model = highspy.Highs()
    model.silent()
    choose = []
    for table in problem.unary:
        variables = [model.addBinary(obj=float(cost)) for cost in table]
        model.addConstr(sum(variables) == 1)
        choose.append(variables)
    for (a, b), table in problem.pairs.items():
        both = [[model.addVariable(lb=0.0, ub=1.0, obj=float(cost)) for cost in row] for row in table]
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
        choices.append(int(np.argmax(taken)))
    return Solution(tuple(choices), "HiGHS", optimal)
