"""Choose one candidate for each variable so that the sum of unary and pairwise costs is least.

Variables are eliminated one after another: the cost of the best choice for a variable, for each combination of
choices of its neighbours, becomes a table over the neighbours. This is exact. On trees, which most kernels are,
the tables are no larger than the given ones. Where a table would grow too large, some variables are held: the
others have their best choices for what is held, and each held variable in turn takes the choice for which all
of that costs least. This ends where no choice of one held variable is better. Work is bounded by numbers of
entries and trials, not by a clock: a problem has one solution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import chain
from operator import add
from typing import Any

from triton_linear.dialect.records import dataclass

Table = list[list[float]]
"""The costs of two variables: a row for each choice of the first, a column for each of the second."""

MOST_ENTRIES = 200_000
FEW_ENTRIES = 2_000
"""The entries of a table up to which importing numpy, a tenth of a second, would take longer than it saves."""
MOST_HELD_ENTRIES = 20_000
"""The entries of a table up to which no further variable is held."""
MOST_TRIALS = 64
"""The most choices of held variables that are tried; each is an elimination of some ten milliseconds."""


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

    def array(self, variables: Sequence[int], sizes: Sequence[int]) -> Any:
        """The same as an array of numpy with a dimension for each of `variables`, of size 1 for those outside
        the scope. Variables of one choice may be missing in `variables`."""
        import numpy as np

        own = [variable for variable in self.scope if variable in variables]
        table = np.array(self.costs).reshape([sizes[variable] for variable in own])
        places = [own.index(variable) for variable in variables if variable in own]
        return table.transpose(places).reshape([sizes[v] if v in own else 1 for v in variables])


def solve(problem: Problem) -> Solution:
    """The choices of least cost.

    Ensures: the solution is optimal, unless a table would exceed `MOST_ENTRIES` entries; then no other choice
    of one variable costs less, unless that takes more than `MOST_TRIALS` trials.
    """
    choices = _by_elimination(problem, MOST_ENTRIES)
    return Solution(_by_holding(problem), False) if choices is None else Solution(choices, True)


def _by_holding(problem: Problem) -> tuple[int, ...]:
    """Choices of little cost: of the variables with the most neighbours, so many are held that no table is too
    large."""
    held: Mapping[int, int] = {}
    while (best := _with_others(problem, held)) is None:
        held = {**held, _most_tied(problem, held): 0}
    least, trials, improves = problem.cost(best), 0, True
    while improves:
        improves = False
        for variable, choice in [(v, choice) for v in held for choice in range(len(problem.unary[v]))]:
            if choice == held[variable] or trials == MOST_TRIALS:
                continue
            trials += 1
            tried = {**held, variable: choice}
            found = _with_others(problem, tried)
            if found is not None and (cost := problem.cost(found)) < least:
                best, least, held, improves = found, cost, tried, True
    return best


def _with_others(problem: Problem, held: Mapping[int, int]) -> tuple[int, ...] | None:
    """The choices of held variables, and the best ones of the others; None if a table is too large for that."""
    choices = _by_elimination(_holding(problem, held), MOST_HELD_ENTRIES)
    if choices is None:
        return None
    return tuple(held.get(variable, choice) for variable, choice in enumerate(choices))


def _most_tied(problem: Problem, held: Mapping[int, int]) -> int:
    """The variable with the most choices that are priced together with others', of those that are not held.

    Requires: one that is not held has several choices."""
    sizes = [len(costs) for costs in problem.unary]
    ties = [0.0] * len(sizes)
    for a, b in problem.pairs:
        if a not in held and b not in held:
            ties[a] += math.log(sizes[b])
            ties[b] += math.log(sizes[a])
    free = [variable for variable in range(len(sizes)) if variable not in held and sizes[variable] > 1]
    return max(free, key=lambda variable: (ties[variable], sizes[variable], -variable))


def _holding(problem: Problem, held: Mapping[int, int]) -> Problem:
    """The problem in which these variables have these choices; theirs becomes the only one, number 0."""
    made = Problem([[costs[held[v]]] if v in held else list(costs) for v, costs in enumerate(problem.unary)])
    for (a, b), table in problem.pairs.items():
        if a not in held and b not in held:
            made.pairs[a, b] = table
        elif a not in held:
            made.unary[a] = [cost + row[held[b]] for cost, row in zip(made.unary[a], table, strict=True)]
        elif b not in held:
            made.unary[b] = list(map(add, made.unary[b], table[held[a]]))
    return made


def _by_elimination(problem: Problem, most: int) -> tuple[int, ...] | None:
    """The choices of least cost; None if a table would exceed `most` entries."""
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
        combined = entries.pop(variable) * sizes[variable]
        if combined > most:
            return None
        least = _least if combined <= FEW_ENTRIES else _least_of_arrays
        costs, best = least(touching[variable], (*scope, variable), sizes)
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


def _least_of_arrays(
    factors: Sequence[_Factor], variables: Sequence[int], sizes: Sequence[int]
) -> tuple[list[float], list[int]]:
    """The same by numpy, whose arrays have 64 dimensions at most."""
    last = variables[-1]
    several = [variable for variable in variables if sizes[variable] > 1 or variable == last]
    costs: Any = sum(factor.array(several, sizes) for factor in factors)
    return costs.min(axis=-1).ravel().tolist(), costs.argmin(axis=-1).ravel().tolist()


def _neighbours(factors: Sequence[_Factor], variable: int) -> tuple[int, ...]:
    return tuple(sorted({v for factor in factors for v in factor.scope} - {variable}))
