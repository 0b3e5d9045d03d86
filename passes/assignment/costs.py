"""What an assignment costs: clocks that an SM takes for all its warps.

The unit is that of `Cost.expected`, which prices conversions: the SM runs the warps of the CTA, or as many as
it likely has, side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import SharedPlan, meets_warps
from triton_linear.lowering.planners.bound import BoundedSide, Bounds, LowerBound
from triton_linear.lowering.planners.conversion import Reach
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.addressing import is_constant
from triton_linear.passes.analysis.clusters import within
from triton_linear.passes.assignment.candidates import Candidate, NoLayout, layout_in, layout_of, sliced
from triton_linear.passes.assignment.graph import Constancy, Edge, Group, Path, Recipe, Reduction
from triton_linear.passes.reductions import costs as reductions

INFINITE = 1e12
_UNKNOWN = 200.0
"""Clocks of a conversion of layouts that this package does not know."""

_Known = dict[LowerBound | tuple[BoundedSide, BoundedSide], float]
"""Clocks of conversions that have a bound, and from one side to another."""


def _is_loaded(edge: Edge) -> bool:
    """True if the value of an edge has just been loaded, from global or shared memory."""
    source = edge.source
    return not all(a.is_store for a, _ in source.accesses) or not all(a.is_store for a, _ in source.locals)


@dataclass
class AssignmentCosts:
    """Prices for one situation and number of warps.

    apart: a later pass splits reductions across warps if that costs less.
    """

    situation: Situation
    warps: int
    apart: bool = False
    registers: dict[tuple[str, Path, tuple[int, ...], Constancy], int] = field(default_factory=dict)
    bounds: dict[tuple[ElementType, int], Bounds] = field(default_factory=dict)
    least: dict[tuple[ElementType, int, float], _Known] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """The GPU."""
        return self.situation.gpu

    @property
    def busy(self) -> int:
        """Warps that share an SM."""
        return self.situation.busy(self.warps)

    def of_group(self, group: Group, candidate: Candidate) -> tuple[float, float]:
        """What the operations of a group cost in a layout, without conversions: clocks of global memory, and
        clocks of everything else."""
        clocks = memory = 0.0
        for (path, shape, constancy), work in group.work.items():
            clocks += work * self._distinct_registers(candidate, path, shape, constancy)
        copied = {local.copied: local for local, _ in group.locals if local.copied}
        for access, frequency in group.accesses:
            local = copied.get(access) if copied else None
            of_access = local.copy_clocks if local else access.clocks
            moved, issued = of_access(candidate.layout, self.target.memory)
            memory += moved * frequency
            clocks += issued * frequency
        for local, frequency in group.locals:
            clocks += local.clocks(candidate.layout, self.target) * frequency
        other = clocks * self.busy
        for reduction in group.reductions:
            other += self.of_reduction(reduction, candidate.layout) * reduction.frequency
        return memory * self.busy, other

    def _distinct_registers(
        self, candidate: Candidate, path: Path, shape: tuple[int, ...], constancy: Constancy
    ) -> int:
        """How many registers of a thread hold different values: registers that are known to be equal count
        once."""
        key = candidate.encoding, path, shape, constancy
        count = self.registers.get(key)
        if count is None:
            count = 1
            with suppress(NoLayout):
                layout = self.placed(candidate, path, shape)
                if not isinstance(layout, str):
                    bases = dict(layout.bases)[REGISTER]
                    count = 1 << sum([not is_constant(basis, constancy) for basis in bases])
            self.registers[key] = count
        return count

    def _redundant_work(self, edge: Edge, target: Candidate) -> float:
        """Clocks that the target group of an edge spends on registers that hold equal values: LLVM no longer
        sees that they are equal once they are converted."""
        if not any(map(any, edge.constancy)):
            return 0.0
        clocks = 0.0
        for (path, shape, constancy), work in edge.target.work.items():
            if not path and any(map(any, constancy)):
                counts = [
                    self._distinct_registers(target, (), shape, known)
                    for known in (tuple((False,) * len(bits) for bits in constancy), constancy)
                ]
                clocks += work * (counts[0] - counts[1])
        return clocks * self.busy

    def of_reduction(self, reduction: Reduction, layout: LinearLayout) -> float:
        """What a reduction costs: within threads, by shuffles within warps, and through shared memory between
        warps."""
        what = reductions.Combined(reduction.widths, reduction.weight)
        at = within(layout), reduction.axis, what
        stock = reductions.as_triton(*at, self.situation, self.warps).expected(self.busy)
        if not self.apart or reduction.stays or self.target.policy.spares_shared_memory:
            return stock
        return min(stock, reductions.apart(*at, self.target, self.warps).expected(self.busy))

    def placed(self, candidate: Candidate, path: Path, shape: tuple[int, ...]) -> LinearLayout | str:
        """The layout of a value of `shape` that follows from the candidate by `path`; its encoding if that has
        no linear layout."""
        try:
            return layout_in(candidate, shape, path)
        except NoLayout:
            return sliced(candidate.encoding, path)

    def least_of_edge(
        self,
        edge: Edge,
        givens: Sequence[LinearLayout | str],
        wanteds: Sequence[LinearLayout | str],
        targets: Sequence[Candidate],
    ) -> list[list[float | None]]:
        """Lower bounds of what converting the value costs: a row for each layout of `givens`, a column for each
        of `wanteds`, both as `placed` gives them. None if there is nothing to convert."""
        element, often = edge.kind.type, edge.frequency
        unknown = _UNKNOWN * often
        meeting = self.target.costs.meeting * self.warps if _is_loaded(edge) else 0.0
        sources = [None if isinstance(given, str) else BoundedSide.of(given) for given in givens]
        ends = [None if isinstance(wanted, str) else BoundedSide.of(wanted) for wanted in wanteds]
        repeated = [self._redundant_work(edge, target) for target in targets]
        bits = sum(size.bit_length() - 1 for size in edge.kind.shape)
        bounds = self.bounds.get((element, bits))
        if bounds is None:
            bounds = self.bounds[element, bits] = Bounds(element, self.target, bits)
        known = self.least.setdefault((element, bits, meeting), {})
        table: list[list[float | None]] = []
        for given, source in zip(givens, sources, strict=True):
            row: list[float | None] = []
            for wanted, end, added in zip(wanteds, ends, repeated, strict=True):
                if source is None or end is None:
                    row.append(None if given == wanted else unknown)
                elif source is end:
                    row.append(None)
                else:
                    once = known.get((source, end))
                    if once is None:
                        least = bounds.of(source, end)
                        if (once := known.get(least)) is None:
                            once = least.expected(self.busy) + (meeting if least.reach > Reach.WARP else 0.0)
                        known[least] = known[source, end] = once
                    row.append(once * often + added)
            table.append(row)
        return table

    def of_edge(self, edge: Edge, source: Candidate, target: Candidate) -> float:
        """What converting the value of an edge costs if its two groups take these candidates."""
        given = self.placed(source, edge.given, edge.kind.shape)
        wanted = self.placed(target, edge.wanted, edge.kind.shape)
        if given == wanted:
            return 0.0
        if isinstance(given, str) or isinstance(wanted, str):
            return _UNKNOWN * edge.frequency
        moved = self.of_conversion(given, wanted, edge.kind.type, _is_loaded(edge)) * edge.frequency
        return moved + self._fetching(given, wanted, edge.kind.type) + self._redundant_work(edge, target)

    def of_recomputing(self, edge: Edge, target: Candidate) -> float:
        """What recomputing the value of an edge costs in the encoding that its target needs; INFINITE if it
        cannot be."""
        if edge.recomputing is None:
            return INFINITE
        clocks = [
            work * self._distinct_registers(target, path, shape, constancy)
            for (path, shape, constancy), work in edge.recomputing.items()
        ]
        return sum(clocks) * self.busy

    def _fetching(self, source: LinearLayout, target: LinearLayout, element: ElementType) -> float:
        """Clocks that warps wait for the instructions of a conversion, which they fetch from memory once."""
        clocks = self.target.policy.fetch_clocks
        if not clocks:
            return 0.0
        selection = select(source, target, element, self.situation)
        plan, cost = selection.plan, selection.cost
        accesses = plan.accesses if isinstance(plan, SharedPlan) else 0
        return clocks * (cost.shuffles + cost.alu + accesses)

    def of_conversion(
        self, source: LinearLayout, target: LinearLayout, element: ElementType, loaded: bool = False
    ) -> float:
        """What one conversion costs by the plan that the lowering would choose; INFINITE if it has none.
        `loaded`: the value has just been loaded."""
        if source == target:
            return 0.0
        selection = select(source, target, element, self.situation)
        if selection.plan is None:
            return INFINITE
        clocks = selection.cost.expected(self.busy)
        if loaded and meets_warps(selection.plan):
            clocks += self.target.costs.meeting * self.warps
        return clocks

    def of_recipe(self, recipe: Recipe, encoding: str, frequency: float) -> float:
        """What the module's own conversion of a value costs that could be recomputed instead."""
        try:
            layouts = [layout_of(text, recipe.kind.shape) for text in (recipe.kind.encoding, encoding)]
        except NoLayout:
            return _UNKNOWN * frequency
        return self.of_conversion(layouts[0], layouts[1], recipe.kind.type) * frequency
