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
class _Step:
    """The elimination of a variable; `others`: those that its tables depend on besides.

    tables: the number of each table, and the place in it of each entry of their sum. That has a row for each
    combination of choices of the others; the choice of the last one changes fastest. The least entry of each
    row is the next table.
    """

    variable: int
    others: tuple[int, ...]
    tables: tuple[tuple[int, list[int]], ...]


def solve(problem: Problem) -> Solution:
    """The choices of least cost.

    Ensures: the solution is optimal, unless a table would exceed `MOST_ENTRIES` entries; then each variable has
    its first choice.
    """
    choices = _by_elimination(problem)
    return Solution((0,) * len(problem.unary), False) if choices is None else Solution(choices, True)


def _by_elimination(problem: Problem) -> tuple[int, ...] | None:
    """The choices of least cost; None if a table would exceed `MOST_ENTRIES` entries."""
    sizes = tuple(map(len, problem.unary))
    steps = _steps(sizes, tuple(problem.pairs), MOST_ENTRIES)
    if steps is None:
        return None
    tables = [list(costs) for costs in problem.unary]
    tables += [list(chain.from_iterable(table)) for table in problem.pairs.values()]
    decided: list[list[int]] = []
    for step in steps:
        spread = [list(map(tables[number].__getitem__, places)) for number, places in step.tables]
        costs, best = _least(spread, sizes[step.variable])
        tables.append(costs)
        decided.append(best)
    choices = [0] * len(sizes)
    for step, best in zip(reversed(steps), reversed(decided), strict=True):
        place = 0
        for other in step.others:
            place = place * sizes[other] + choices[other]
        choices[step.variable] = best[place]
    return tuple(choices)


@functools.lru_cache(maxsize=16)
def _steps(sizes: tuple[int, ...], pairs: tuple[tuple[int, int], ...], most: int) -> tuple[_Step, ...] | None:
    """The order in which variables with so many choices are eliminated; None if a table would exceed `most`
    entries. A problem is solved several times with other costs, which change nothing here."""
    scopes: list[tuple[int, ...]] = [*((variable,) for variable in range(len(sizes))), *pairs]
    touching: dict[int, list[int]] = {variable: [] for variable in range(len(sizes))}
    for number, scope in enumerate(scopes):
        for variable in scope:
            touching[variable].append(number)
    around = {v: _neighbours([scopes[number] for number in touching[v]], v) for v in touching}
    entries = {v: math.prod([sizes[u] for u in others]) for v, others in around.items()}
    steps = []
    while entries:
        variable = min(entries, key=lambda v: (entries[v], v))
        others, taken = around[variable], touching.pop(variable)
        if entries.pop(variable) * sizes[variable] > most:
            return None
        places = [(number, _places(scopes[number], (*others, variable), sizes)) for number in taken]
        steps.append(_Step(variable, others, tuple(places)))
        for other in others:
            touching[other] = [*(number for number in touching[other] if number not in taken), len(scopes)]
        scopes.append(others)
        for other in others:
            around[other] = _neighbours([scopes[number] for number in touching[other]], other)
            entries[other] = math.prod([sizes[u] for u in around[other]])
    return tuple(steps)


def _places(scope: tuple[int, ...], variables: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Where a table over `scope` has each entry of one over `variables`, which contain the scope, in any
    order."""
    strides, stride = {}, 1
    for variable in reversed(scope):
        strides[variable] = stride
        stride *= sizes[variable]
    places = [0]
    for variable in variables:
        steps = [strides.get(variable, 0) * choice for choice in range(sizes[variable])]
        places = [place + step for place in places for step in steps]
    return places


def _least(tables: Sequence[list[float]], size: int) -> tuple[list[float], list[int]]:
    """The least sum of the tables in each row of `size` entries, and the first choice that has it."""
    costs = functools.reduce(lambda total, more: list(map(add, total, more)), tables)
    rows = [costs[start : start + size] for start in range(0, len(costs), size)]
    least = list(map(min, rows))
    return least, list(map(list.index, rows, least))


def _neighbours(scopes: Sequence[tuple[int, ...]], variable: int) -> tuple[int, ...]:
    return tuple(sorted({v for scope in scopes for v in scope} - {variable}))
