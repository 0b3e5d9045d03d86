"""Choose a layout for each group of a graph.

The planner of the lowering prices conversions exactly, but takes milliseconds for tensors of many registers. So
edges start with lower bounds, and only conversions that an optimal assignment contains are planned. Once all of
its conversions have exact prices, the assignment is optimal for exact prices too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import add

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.policy import Policy
from triton_linear.passes.assignment.candidates import Candidate, Candidates
from triton_linear.passes.assignment.costs import INFINITE, AssignmentCosts
from triton_linear.passes.assignment.graph import Edge, Graph, Group, Recipe
from triton_linear.passes.assignment.solve import Problem, Solution, Table, solve
from triton_linear.passes.operations.names import DOTS


@dataclass(frozen=True, slots=True)
class AssignmentPrice:
    """Clocks of global memory, and clocks of everything else. The two overlap: together they take their cubic
    norm, as the pipes of a conversion do."""

    memory: float
    other: float

    @property
    def clocks(self) -> float:
        return float((self.memory**3 + self.other**3) ** (1 / 3))


@dataclass(frozen=True)
class Assignment:
    """The layout chosen for each group.

    before, after: what the module costs with its own layouts and with the chosen ones. candidates: the layouts
    that each group could choose from, with the price of the group without conversions. edges: the clocks of
    each conversion before and after. again: the edges whose values are recomputed for their target. recomputed:
    the clocks of each conversion that goes because its value is always recomputed. weight: how many clocks of
    memory one other clock counts. planned: how many conversions were planned. optimal: True if no assignment of
    the candidates is cheaper by this weight.
    """

    chosen: Mapping[Group, Candidate]
    before: AssignmentPrice
    after: AssignmentPrice
    candidates: Mapping[Group, Sequence[tuple[Candidate, AssignmentPrice]]]
    edges: Mapping[Edge, tuple[float, float]]
    again: frozenset[Edge]
    recomputed: Sequence[tuple[Recipe, float]]
    weight: float
    planned: int
    optimal: bool


@dataclass(eq=False)
class _EdgePrices:
    """The prices of an edge: a row for each candidate of its source, a column for each of its target. `exact`
    tells which are exact; the others are lower bounds. `recomputing`: what it takes in each column to recompute
    the value rather than to convert it. `present`: what the module's own conversion costs."""

    edge: Edge
    table: Table
    exact: list[list[bool]] = field(repr=False)
    recomputing: list[float] = field(repr=False)
    present: float = 0.0

    def is_recomputed(self, row: int, column: int) -> bool:
        """True if the price of an entry is that of recomputing the value."""
        return 0 < self.table[row][column] == self.recomputing[column] < INFINITE

    def forbid(self, forbidden: Callable[[float, bool], bool]) -> None:
        """Set the price of each entry to INFINITE for which `forbidden(price, exact)` is true."""
        for prices, exact in zip(self.table, self.exact, strict=True):
            for column, (clocks, known) in enumerate(zip(prices, exact, strict=True)):
                if forbidden(clocks, known):
                    prices[column], exact[column] = INFINITE, True


def _charge(edge: Edge, beside_dots: bool, policy: Policy) -> float:
    """The factor on the price of a conversion on an edge where the module has none."""
    if any(not local.is_store for local, _ in edge.source.locals):
        return policy.new_after_local
    return policy.new_beside_dots if beside_dots and edge.frequency <= 1 else policy.new_conversion


@dataclass
class _Search:
    """Plans conversions until an optimal assignment contains only conversions with exact prices."""

    graph: Graph
    costs: AssignmentCosts
    admits_new: bool = True

    def __post_init__(self) -> None:
        self.policy = self.costs.target.policy
        warps = self.costs.warps.bit_length() - 1
        self.candidates = Candidates(self.graph, warps, self.costs.situation).find()
        self.group_prices = {
            group: self._price_group(group, choices) for group, choices in self.candidates.items()
        }
        self.planned = 0
        self.beside_dots = any(not DOTS.isdisjoint(group.anchor_names) for group in self.graph.groups)
        self.edge_prices = [self._bound_edge(edge) for edge in self.graph.edges]
        if not self.admits_new:
            self._forbid_new_conversions()

    def _bound_edge(self, edge: Edge) -> _EdgePrices:
        """The prices of an edge: exact for the module's own layouts, lower bounds for all other candidates."""
        sources, targets = self.candidates[edge.source], self.candidates[edge.target]
        recomputing = [self.costs.of_recomputing(edge, candidate) for candidate in targets]
        givens = [self.costs.placed(candidate, edge.given, edge.kind.shape) for candidate in sources]
        wanteds = [self.costs.placed(candidate, edge.wanted, edge.kind.shape) for candidate in targets]
        stays = givens[0] == wanteds[0]
        present = 0.0 if stays else self.costs.of_edge(edge, sources[0], targets[0])
        bounds: list[list[float | None]] = [[None]]
        if len(sources) > 1 or len(targets) > 1:  # many edges have no choice
            bounds = self.costs.least_of_edge(edge, givens, wanteds, targets)
        charge = 1.0 if present else _charge(edge, self.beside_dots, self.policy)
        table = [
            [min((least or 0.0) * charge, again) for least, again in zip(row, recomputing, strict=True)]
            for row in bounds
        ]
        exact = [[least is None for least in row] for row in bounds]
        pair = _EdgePrices(edge, table, exact, recomputing, present)
        if stays:
            table[0][0], exact[0][0] = 0.0, True
        else:
            self._set(pair, 0, 0, present)
        return pair

    def _refine(self, pair: _EdgePrices, row: int, column: int) -> None:
        """Replace a lower bound by the exact price."""
        if pair.exact[row][column]:
            return
        source, target = self.candidates[pair.edge.source][row], self.candidates[pair.edge.target][column]
        clocks = self.costs.of_edge(pair.edge, source, target)
        if not pair.present and clocks:
            clocks = clocks * _charge(pair.edge, self.beside_dots, self.policy) if self.admits_new else INFINITE
        self._set(pair, row, column, clocks)

    def _set(self, pair: _EdgePrices, row: int, column: int, clocks: float) -> None:
        """Set an exact price: of a conversion that takes so many clocks, or of recomputing the value."""
        pair.table[row][column] = min(clocks, pair.recomputing[column]) if self.admits_new else clocks
        pair.exact[row][column] = True
        self.planned += 1

    def _forbid_new_conversions(self) -> None:
        """Forbid conversions on edges where the module has none."""
        self.admits_new = False
        for pair in self.edge_prices:
            if not pair.present:
                pair.forbid(lambda clocks, exact: clocks > 0)

    def _price_group(self, group: Group, choices: Sequence[Candidate]) -> list[AssignmentPrice]:
        """What a group costs in each of its candidates, without conversions.

        Asynchronous copies run beside dots and conversions do not wait for them, so only their clocks above the
        cheapest candidate count.
        """
        prices = [AssignmentPrice(*self.costs.of_group(group, choice)) for choice in choices]
        if group.copies:
            memory, other = min(p.memory for p in prices), min(p.other for p in prices)
            return [AssignmentPrice(price.memory - memory, price.other - other) for price in prices]
        return prices

    def price(self, choices: Mapping[Group, int]) -> AssignmentPrice:
        """What an assignment costs. Requires: its conversions have exact prices."""
        groups = [self.group_prices[group][choice] for group, choice in choices.items()]
        conversions = sum(
            pair.table[choices[pair.edge.source]][choices[pair.edge.target]] for pair in self.edge_prices
        )
        return AssignmentPrice(sum(p.memory for p in groups), sum(p.other for p in groups) + conversions)

    def run(self) -> Assignment:
        """The cheapest assignment."""
        graph = self.graph
        present = [prices[0] for prices in self.group_prices.values()]
        recomputed = [(each[0], self.costs.of_recipe(*each)) for each in graph.converted_recipes]
        other = sum(p.other for p in present) + sum(pair.present for pair in self.edge_prices)
        before = AssignmentPrice(
            sum(p.memory for p in present), other + sum(clocks for _, clocks in recomputed)
        )
        weight = min(1.0, (before.other / max(1.0, before.memory)) ** 2)
        choices, solution = self._solve_with_exact_prices(weight)
        entries = [(pair, choices[pair.edge.source], choices[pair.edge.target]) for pair in self.edge_prices]
        edges = {pair.edge: (pair.present, pair.table[row][column]) for pair, row, column in entries}
        again = frozenset(pair.edge for pair, row, column in entries if pair.is_recomputed(row, column))
        priced = {g: list(zip(self.candidates[g], self.group_prices[g], strict=True)) for g in graph.groups}
        chosen = {group: self.candidates[group][choice] for group, choice in choices.items()}
        optimal = solution.optimal and self.planned < limits.PLANNED_CONVERSIONS
        after = self.price(choices)
        return Assignment(
            chosen, before, after, priced, edges, again, recomputed, weight, self.planned, optimal
        )

    def _solve_with_exact_prices(self, weight: float) -> tuple[Mapping[Group, int], Solution]:
        """The choices of least cost. Ensures: all their conversions have exact prices."""
        present = dict.fromkeys(self.graph.groups, 0)
        free = [group for group in self.graph.groups if len(self.candidates[group]) > 1]
        place = {group: index for index, group in enumerate(free)}
        while True:
            solution = solve(self._problem(free, place, weight))
            choices = present | dict(zip(free, solution.choices, strict=True))
            inexact = [
                (pair, row, column)
                for pair in self.edge_prices
                if not pair.exact[row := choices[pair.edge.source]][column := choices[pair.edge.target]]
            ]
            if not inexact:
                return choices, solution
            if self.planned < limits.PLANNED_CONVERSIONS:
                for entry in inexact:
                    self._refine(*entry)
                continue
            for pair in self.edge_prices:
                pair.forbid(lambda clocks, exact: not exact)

    def _problem(self, free: Sequence[Group], place: Mapping[Group, int], weight: float) -> Problem:
        """The problem whose variables are the groups with more than one candidate (`free`); `place` numbers
        them."""
        problem = Problem(
            [[price.memory + weight * price.other for price in self.group_prices[group]] for group in free]
        )
        for pair in self.edge_prices:
            table = pair.table
            if weight != 1:
                table = [[clocks * weight for clocks in row] for row in table]
            source, target = place.get(pair.edge.source), place.get(pair.edge.target)
            if source is not None and target is not None:
                problem.add_pair(source, target, table)
            elif source is not None:
                problem.unary[source] = list(map(add, problem.unary[source], (row[0] for row in table)))
            elif target is not None:
                problem.unary[target] = list(map(add, problem.unary[target], table[0]))
        return problem


def assign(graph: Graph, costs: AssignmentCosts, *, admits_new: bool = True) -> Assignment:
    """The assignment of least modelled cost.

    admits_new: True if conversions may be added on edges where the module has none.

    Raises NoLayout if a group's present encoding has no layout.
    """
    return _Search(graph, costs, admits_new).run()
