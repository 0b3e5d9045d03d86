"""From a graph to the choice of a layout for each of its groups.

Conversions are priced by the real planner, which takes milliseconds where registers are many. So edges start
with lower bounds, and only those that an optimal assignment would pay are planned; when all that it pays is
exact, it is optimal for the exact prices too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import add

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.policy import Policy
from triton_linear.passes.assignment.candidates import Candidate, Candidates
from triton_linear.passes.assignment.costs import INFINITE, AssignmentCosts
from triton_linear.passes.assignment.graph import Edge, Graph, Group, Recipe
from triton_linear.passes.assignment.solve import Problem, Solution, Table, solve
from triton_linear.passes.framework.verifiers import DOTS


@dataclass(frozen=True, slots=True)
class AssignmentPrice:
    """Clocks of global memory, and clocks of everything else. Both go on at a time: the cubic norm of the two
    is what the whole takes, as with the pipes of a conversion."""

    memory: float
    other: float

    @property
    def clocks(self) -> float:
        return float((self.memory**3 + self.other**3) ** (1 / 3))


@dataclass(frozen=True)
class Assignment:
    """The layout chosen for each group, and what the whole costs with and without it.

    candidates: what there was to choose from, each with the price of the group alone. edges: the clocks of each
    conversion before and after. recomputed: the clocks of each conversion of a value that will be computed
    again instead. planned: how many conversions were planned to find it. optimal: whether no assignment of the
    candidates is cheaper, a clock outside memory counting `weight` of one of it.
    """

    chosen: Mapping[Group, Candidate]
    before: AssignmentPrice
    after: AssignmentPrice
    candidates: Mapping[Group, Sequence[tuple[Candidate, AssignmentPrice]]]
    edges: Mapping[Edge, tuple[float, float]]
    recomputed: Sequence[tuple[Recipe, float]]
    weight: float
    planned: int
    solver: str
    optimal: bool

    @property
    def changed(self) -> list[Group]:
        """The groups that get another encoding."""
        return [group for group, choice in self.chosen.items() if choice.encoding != group.encoding]


@dataclass(eq=False)
class _Pair:
    """The prices of an edge by the choices of its sides, and which of them are exact."""

    edge: Edge
    table: Table
    exact: list[list[bool]] = field(repr=False)

    def forbid(self, forbidden: Callable[[float, bool], bool]) -> None:
        """Price the entries that are forbidden, asked by price and whether that is exact, beyond any other."""
        for prices, exact in zip(self.table, self.exact, strict=True):
            for column, (clocks, known) in enumerate(zip(prices, exact, strict=True)):
                if forbidden(clocks, known):
                    prices[column], exact[column] = INFINITE, True


def _charge(edge: Edge, beside_dots: bool, policy: Policy) -> float:
    """How much more a conversion there is charged if the module has none."""
    if any(not local.is_store for local, _ in edge.source.locals):
        return policy.new_after_local
    return policy.new_beside_dots if beside_dots and edge.frequency <= 1 else policy.new_conversion


@dataclass
class _Search:
    """Refines prices until an optimal assignment pays exact ones only."""

    graph: Graph
    costs: AssignmentCosts
    admits_new: bool = True

    def __post_init__(self) -> None:
        target = self.costs.target
        lanes, warps = target.lanes.bit_length() - 1, self.costs.warps.bit_length() - 1
        self.policy = target.policy
        self.found = Candidates(self.graph, lanes, warps, target).find()
        self.stored = {edge.source for edge in self.graph.edges if edge.target.locals}
        self.alone = {group: self._alone(group, choices) for group, choices in self.found.items()}
        self.planned = 0
        self.beside_dots = any(not DOTS.isdisjoint(group.anchor_names) for group in self.graph.groups)
        self.pairs = [self._bounded(edge) for edge in self.graph.edges]
        if not self.admits_new:
            self._forbid_new()

    def _bounded(self, edge: Edge) -> _Pair:
        """An edge with the price of what it has, and bounds of what else it may have."""
        sources, targets = self.found[edge.source], self.found[edge.target]
        table = [[0.0] * len(targets) for _ in sources]
        exact = [[False] * len(targets) for _ in sources]
        pair = _Pair(edge, table, exact)
        givens = [self.costs.placed(candidate, edge.given, edge.kind.shape) for candidate in sources]
        wanteds = [self.costs.placed(candidate, edge.wanted, edge.kind.shape) for candidate in targets]
        if givens[0] == wanteds[0]:
            exact[0][0] = True
        else:
            self._refine(pair, 0, 0)
        charge = 1.0 if table[0][0] else _charge(edge, self.beside_dots, self.policy)
        for row, bounds in enumerate(self.costs.least_of_edge(edge, givens, wanteds, targets)):
            for column, least in enumerate(bounds):
                if row or column:
                    exact[row][column] = least is None
                    table[row][column] = (least or 0.0) * charge
        return pair

    def _refine(self, pair: _Pair, row: int, column: int) -> None:
        if pair.exact[row][column]:
            return
        source, target = self.found[pair.edge.source][row], self.found[pair.edge.target][column]
        clocks = self.costs.of_edge(pair.edge, source, target)
        if (row or column) and not pair.table[0][0] and clocks:
            clocks = clocks * _charge(pair.edge, self.beside_dots, self.policy) if self.admits_new else INFINITE
        pair.table[row][column] = clocks
        pair.exact[row][column] = True
        self.planned += 1

    def _forbid_new(self) -> None:
        """Let no edge have a conversion that has none."""
        self.admits_new = False
        for pair in self.pairs:
            if not pair.table[0][0]:
                pair.forbid(lambda clocks, exact: clocks > 0)

    def _alone(self, group: Group, choices: Sequence[Candidate]) -> list[AssignmentPrice]:
        """What each layout costs a group by itself.

        Copies go on while dots work, and conversions do not wait for them: what they take at least is left out.
        What is loaded to be stored to shared memory is waited for at once: what its load takes more counts
        more.
        """
        prices = [AssignmentPrice(*self.costs.of_group(group, choice)) for choice in choices]
        if group.copies:
            memory, other = min(p.memory for p in prices), min(p.other for p in prices)
            return [AssignmentPrice(price.memory - memory, price.other - other) for price in prices]
        if group in self.stored:
            present = prices[0].memory
            waited = self.policy.waited_for
            return [AssignmentPrice(p.memory + waited * max(0.0, p.memory - present), p.other) for p in prices]
        return prices

    def price(self, choices: Mapping[Group, int]) -> AssignmentPrice:
        """What an assignment costs. Requires: its conversions are priced exactly."""
        alone = [self.alone[group][choice] for group, choice in choices.items()]
        conversions = sum(
            pair.table[choices[pair.edge.source]][choices[pair.edge.target]] for pair in self.pairs
        )
        return AssignmentPrice(sum(p.memory for p in alone), sum(p.other for p in alone) + conversions)

    def run(self, seconds: float, rank: int = 0) -> Assignment:
        graph = self.graph
        before = self.price(dict.fromkeys(graph.groups, 0))
        recomputed = [(each[0], self.costs.of_recipe(*each)) for each in graph.converted_recipes]
        before = AssignmentPrice(before.memory, before.other + sum(clocks for _, clocks in recomputed))
        weight = min(1.0, max(self.policy.least_weight, (before.other / max(1.0, before.memory)) ** 2))
        choices, solution = self._best(weight, seconds)
        new = any(
            not pair.table[0][0] and pair.table[choices[pair.edge.source]][choices[pair.edge.target]]
            for pair in self.pairs
        )
        enough = (1 - self.policy.new_saves) * before.clocks
        if new and not self.beside_dots and self.price(choices).clocks > enough:
            self._forbid_new()
            choices, solution = self._best(weight, seconds)
        if rank:
            choices, solution = self._next(choices, solution, weight, seconds, rank)
        edges = {
            pair.edge: (
                pair.table[0][0],
                pair.table[choices[pair.edge.source]][choices[pair.edge.target]],
            )
            for pair in self.pairs
        }
        priced = {g: list(zip(self.found[g], self.alone[g], strict=True)) for g in graph.groups}
        chosen = {group: self.found[group][choice] for group, choice in choices.items()}
        optimal = solution.optimal and self.planned < self.policy.planned_conversions
        after = self.price(choices)
        return Assignment(
            chosen,
            before,
            after,
            priced,
            edges,
            recomputed,
            weight,
            self.planned,
            solution.solver,
            optimal,
        )

    def _next(
        self, best: Mapping[Group, int], solution: Solution, weight: float, seconds: float, rank: int
    ) -> tuple[Mapping[Group, int], Solution]:
        """The choices of that rank: of those that are best if one group may not choose as in `best`, from 1 on.

        Only groups are asked whose layouts differ in price by themselves. A module as it is does not count, and
        ranks beyond what there is get the last one, or `best`.
        """
        taken = {tuple(best.values()), (0,) * len(best)}
        found: list[tuple[float, Mapping[Group, int], Solution]] = []
        for group in self.graph.groups:
            prices = self.alone[group]
            if len({price.clocks for price in prices}) == 1:
                continue
            self.alone[group] = [
                AssignmentPrice(INFINITE, INFINITE) if choice == best[group] else price
                for choice, price in enumerate(prices)
            ]
            try:
                choices, other = self._best(weight, seconds)
            finally:
                self.alone[group] = prices
            if tuple(choices.values()) not in taken:
                taken.add(tuple(choices.values()))
                found.append((self.price(choices).clocks, choices, other))
        if not found:
            return best, solution
        found.sort(key=lambda entry: entry[0])
        _, choices, other = found[min(rank, len(found)) - 1]
        return choices, other

    def _best(self, weight: float, seconds: float) -> tuple[Mapping[Group, int], Solution]:
        """The choices of least cost, all of whose conversions are priced exactly."""
        present = dict.fromkeys(self.graph.groups, 0)
        free = [group for group in self.graph.groups if len(self.found[group]) > 1]
        place = {group: index for index, group in enumerate(free)}
        while True:
            solution = solve(self._problem(free, place, weight), seconds)
            choices = present | dict(zip(free, solution.choices, strict=True))
            inexact = [
                (pair, row, column)
                for pair in self.pairs
                if not pair.exact[row := choices[pair.edge.source]][column := choices[pair.edge.target]]
            ]
            if not inexact:
                return choices, solution
            if self.planned < self.policy.planned_conversions:
                for entry in inexact:
                    self._refine(*entry)
                continue
            for pair in self.pairs:
                pair.forbid(lambda clocks, exact: not exact)

    def _problem(self, free: Sequence[Group], place: Mapping[Group, int], weight: float) -> Problem:
        """The problem over the groups that have a choice."""
        problem = Problem(
            [[price.memory + weight * price.other for price in self.alone[group]] for group in free]
        )
        for pair in self.pairs:
            table = [[clocks * weight for clocks in row] for row in pair.table]
            source, target = place.get(pair.edge.source), place.get(pair.edge.target)
            if source is not None and target is not None:
                problem.add_pair(source, target, table)
            elif source is not None:
                problem.unary[source] = list(map(add, problem.unary[source], (row[0] for row in table)))
            elif target is not None:
                problem.unary[target] = list(map(add, problem.unary[target], table[0]))
        return problem


def assign(
    graph: Graph, costs: AssignmentCosts, seconds: float = 1.0, *, admits_new: bool = True, rank: int = 0
) -> Assignment:
    """The assignment of least modelled cost; `seconds` bounds an integer program, if one is needed.
    `admits_new`: whether there may be conversions where the module has none. `rank`: 0 for the least cost, 1
    and 2 for what comes next, each with another layout of some group that the best one has.

    Raises NoLayout where a group's present encoding has no layout.
    """
    return _Search(graph, costs, admits_new).run(seconds, rank)
