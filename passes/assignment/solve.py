"""Choose one candidate for each variable so that the sum of unary and pairwise costs is least.

Variables are eliminated one after another: the cost of the best choice for a variable, for each combination of
choices of its neighbours, becomes a table over the neighbours. This is exact. On trees, which most kernels are,
the tables are no larger than the given ones. Where a table would grow too large, nothing is chosen. Work is
bounded by a number of entries, not by a clock: a problem has one solution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import field
from itertools import chain
from operator import add

from triton_linear.dialect.records import dataclass

Table = list[list[float]]
"""The costs of two variables: a row for each choice of the first, a column for each of the second."""

MOST_ENTRIES = 50_000
"""The entries of a table up to which an assignment is looked for; none of 882 modules has more than 1,728."""


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


@dataclass(frozen=True, slots=True)
class Solution:
    """The choice for each variable, and whether no other choices can cost less."""

    choices: tuple[int, ...]
    optimal: bool


@dataclass(frozen=True, slots=True)
class _Factor:
    """The costs of some variables (`scope`): an entry for each combination of their choices; the choice of the
    last variable changes fastest."""

    scope: tuple[int, ...]
    costs: list[float]

    def over(self, variables: Sequence[int], sizes: Sequence[int]) -> list[float]:
        """The costs as a table over `variables`, which contain the scope, in any order."""
        scope, kept = self.scope, len(variables) - len(self.scope)
        if scope == tuple(variables[kept:]):  # each row is the same
            return self.costs * math.prod([sizes[variable] for variable in variables[:kept]])
        strides, stride = {}, 1
        for variable in reversed(scope):
            strides[variable] = stride
            stride *= sizes[variable]
        places = [0]
        for variable in variables:
            stride = strides.get(variable, 0)
            steps = [stride * choice for choice in range(sizes[variable])]
            places = [place + step for place in places for step in steps]
        return [self.costs[place] for place in places]


def solve(problem: Problem) -> Solution:
    """The choices of least cost.

    Ensures: the solution is optimal, unless a table would exceed `MOST_ENTRIES` entries; then each variable has
    its first choice.
    """
    choices = _by_elimination(problem)
    return Solution((0,) * len(problem.unary), False) if choices is None else Solution(choices, True)


def _by_elimination(problem: Problem) -> tuple[int, ...] | None:
    """The choices of least cost; None if a table would exceed `MOST_ENTRIES` entries."""
    sizes = [len(costs) for costs in problem.unary]
    factors = [_Factor((i,), list(costs)) for i, costs in enumerate(problem.unary)]
    factors += [_Factor(pair, list(chain.from_iterable(table))) for pair, table in problem.pairs.items()]
    touching: dict[int, list[_Factor]] = {i: [] for i in range(len(sizes))}
    for factor in factors:
        for variable in factor.scope:
            touching[variable].append(factor)
    scopes = {v: _neighbours(touching[v], v) for v in touching}
    entries = {v: math.prod([sizes[u] for u in scope]) for v, scope in scopes.items()}
    decided: list[tuple[int, tuple[int, ...], list[int]]] = []
    while entries:
        variable = min(entries, key=lambda v: (entries[v], v))
        scope = scopes[variable]
        if entries.pop(variable) * sizes[variable] > MOST_ENTRIES:
            return None
        costs, best = _least(touching[variable], (*scope, variable), sizes)
        remaining = _Factor(scope, costs)
        decided.append((variable, scope, best))
        for factor in touching.pop(variable):
            for other in factor.scope:
                if other != variable:
                    touching[other] = [each for each in touching[other] if each is not factor]
        for other in scope:
            touching[other].append(remaining)
            scopes[other] = _neighbours(touching[other], other)
            entries[other] = math.prod([sizes[u] for u in scopes[other]])
    choices = [0] * len(sizes)
    for variable, scope, best in reversed(decided):
        place = 0
        for other in scope:
            place = place * sizes[other] + choices[other]
        choices[variable] = best[place]
    return tuple(choices)


def _least(
    factors: Sequence[_Factor], variables: Sequence[int], sizes: Sequence[int]
) -> tuple[list[float], list[int]]:
    """The least sum of the factors over the choices of the last of `variables`, for each combination of choices
    of the others, and the first choice that has it."""
    costs = functools.reduce(
        lambda total, more: list(map(add, total, more)), [each.over(variables, sizes) for each in factors]
    )
    size = sizes[variables[-1]]
    rows = [costs[start : start + size] for start in range(0, len(costs), size)]
    least = list(map(min, rows))
    return least, list(map(list.index, rows, least))


def _neighbours(factors: Sequence[_Factor], variable: int) -> tuple[int, ...]:
    return tuple(sorted({v for factor in factors for v in factor.scope} - {variable}))
