"""What an assignment costs: clocks of an SM until its warps are through, as the model of conversions counts.

The unit is that of `Cost.expected`: the CTA's warps, or as many as an SM likely has, at work side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.planners.bound import BoundedSide, Bounds, LowerBound
from triton_linear.lowering.planners.conversion import Reach
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.addressing import is_constant
from triton_linear.passes.analysis.clusters import within
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.assignment.candidates import Candidate, NoLayout, layout_in, layout_of, sliced
from triton_linear.passes.assignment.graph import Constancy, Edge, Group, Path, Recipe, Reduction
from triton_linear.passes.reductions import costs as reductions
from triton_linear.passes.staging.choice import Direct, staging_for

INFINITE = 1e12


def _is_loaded(edge: Edge) -> bool:
    """Whether an edge takes what has just been loaded."""
    source = edge.source
    return not all(a.is_store for a, _ in source.accesses) or not all(a.is_store for a, _ in source.locals)


@dataclass
class AssignmentCosts:
    """Prices for one target and number of warps; `scratch_limit` as the lowering has it. `apart`: reductions
    across warps will be taken apart, where that costs less. `staged_accesses`: accesses to shared memory will
    go by way of other layouts, where that does."""

    target: Target
    warps: int
    scratch_limit: int | None = None
    apart: bool = False
    staged_accesses: bool = False
    registers: dict[tuple[str, Path, tuple[int, ...], Constancy], int] = field(default_factory=dict)
    bounds: dict[tuple[ElementType, int], Bounds] = field(default_factory=dict)

    @property
    def busy(self) -> int:
        """Warps that share an SM."""
        return max(self.target.likely_warps, self.warps)

    def of_group(self, group: Group, candidate: Candidate) -> tuple[float, float]:
        """What a group does by itself in a layout: clocks of global memory, and clocks of everything else."""
        clocks = memory = 0.0
        for (path, shape, constancy), work in group.work.items():
            clocks += work * self._held(candidate, path, shape, constancy)
        copied = {local.copied: local for local, _ in group.locals if local.copied}
        for access, frequency in group.accesses:
            local = copied.get(access)
            of_access = local.copy_clocks if local else access.clocks
            moved, issued = of_access(candidate.layout, self.target.memory)
            memory += moved * frequency
            clocks += issued * frequency
        for local, frequency in group.locals:
            given = candidate.encoding == group.encoding
            clocks += self._local(local, candidate.layout, given) * frequency
        for site, frequency in group.tensors:
            clocks += site.clocks(candidate.layout) * frequency
        other = clocks * self.busy
        for reduction in group.reductions:
            other += self.of_reduction(reduction, candidate.layout) * reduction.frequency
        return memory * self.busy, other

    def _local(self, local: LocalAccess, layout: LinearLayout, given: bool) -> float:
        """Clocks of a warp for an access to shared memory, by staging if it will take one.

        Staging is looked for in the layout alone that is `given`. Another one is taken where it is cheap by
        itself; and looking takes time.
        """
        direct = local.clocks(layout, self.target)
        if not (self.staged_accesses and given) or local.copied is not None:
            return direct
        element = element_type(f"i{8 * local.element_bytes}")
        found = staging_for(local, layout, element, self.target, local.is_store)
        if isinstance(found, Direct):
            return direct
        access = found.after.wavefronts * self.target.costs.wavefront
        converting = self.target.policy.new_conversion * (found.after.clocks - access)
        return min(direct, direct - found.before.clocks + access + converting)

    def _held(self, candidate: Candidate, path: Path, shape: tuple[int, ...], constancy: Constancy) -> int:
        """Registers of a thread that hold elements of their own, and not the same value."""
        key = candidate.encoding, path, shape, constancy
        found = self.registers.get(key)
        if found is None:
            found = 1
            with suppress(NoLayout):
                layout = self.placed(candidate, path, shape)
                if not isinstance(layout, str):
                    bases = dict(layout.bases)[REGISTER]
                    found = 1 << sum([not is_constant(basis, constancy) for basis in bases])
            self.registers[key] = found
        return found

    def _repeated(self, edge: Edge, target: Candidate) -> float:
        """Clocks that the target of a conversion works on values that it could have known to be the same."""
        if not any(map(any, edge.constancy)):
            return 0.0
        clocks = 0.0
        for (path, shape, constancy), work in edge.target.work.items():
            if not path and any(map(any, constancy)):
                held = [
                    self._held(target, (), shape, known)
                    for known in (tuple((False,) * len(bits) for bits in constancy), constancy)
                ]
                clocks += work * (held[0] - held[1])
        return clocks * self.busy

    def of_reduction(self, reduction: Reduction, layout: LinearLayout) -> float:
        """Within threads, then by shuffles within warps, then through shared memory between warps."""
        what = reductions.Combined(reduction.widths, reduction.weight)
        priced = within(layout), reduction.axis, what, self.target, self.warps
        stock = reductions.as_triton(*priced).expected(self.busy)
        if not self.apart or reduction.stays or self.target.policy.spares_shared_memory:
            return stock
        return min(stock, reductions.apart(*priced).expected(self.busy))

    def placed(self, candidate: Candidate, path: Path, shape: tuple[int, ...]) -> LinearLayout | str:
        """The layout of a value that is sliced from one with this encoding, or the encoding if it has none."""
        if not path and shape == tuple([size for _, size in candidate.layout.out_dims]):
            return candidate.layout
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
        """What converting the value costs at least, from each that is given to each that is wanted, as they are
        `placed`; None where there is nothing to convert."""
        element, often = edge.kind.type, edge.frequency
        unknown = self.target.policy.unknown_conversion * often
        meeting = self.target.costs.meeting * self.warps if _is_loaded(edge) else 0.0
        sources = [None if isinstance(given, str) else BoundedSide.of(given) for given in givens]
        ends = [None if isinstance(wanted, str) else BoundedSide.of(wanted) for wanted in wanteds]
        repeated = [self._repeated(edge, target) for target in targets]
        bits = sum(size.bit_length() - 1 for size in edge.kind.shape)
        bounds = self.bounds.get((element, bits))
        if bounds is None:
            bounds = self.bounds[element, bits] = Bounds(element, self.target, bits)
        clocks: dict[LowerBound, float] = {}
        table: list[list[float | None]] = []
        for given, source in zip(givens, sources, strict=True):
            row: list[float | None] = []
            for wanted, end, added in zip(wanteds, ends, repeated, strict=True):
                if source is None or end is None:
                    row.append(None if given == wanted else unknown)
                elif source is end:
                    row.append(None)
                else:
                    least = bounds.of(source, end)
                    once = clocks.get(least)
                    if once is None:
                        once = least.expected(self.busy) + (meeting if least.reach > Reach.WARP else 0.0)
                        clocks[least] = once
                    row.append(once * often + added)
            table.append(row)
        return table

    def of_edge(self, edge: Edge, source: Candidate, target: Candidate) -> float:
        """What converting the value costs, if the two sides take these layouts."""
        given = self.placed(source, edge.given, edge.kind.shape)
        wanted = self.placed(target, edge.wanted, edge.kind.shape)
        if given == wanted:
            return 0.0
        if isinstance(given, str) or isinstance(wanted, str):
            return self.target.policy.unknown_conversion * edge.frequency
        moved = self.of_conversion(given, wanted, edge.kind.type, _is_loaded(edge)) * edge.frequency
        return moved + self._repeated(edge, target)

    def of_conversion(
        self, source: LinearLayout, target: LinearLayout, element: ElementType, loaded: bool = False
    ) -> float:
        """What the planner finds for a conversion, once; `loaded`: of what comes from global memory."""
        if source == target:
            return 0.0
        selection = select(source, target, element, self.target, self.scratch_limit)
        if selection.plan is None:
            return INFINITE
        clocks = selection.cost.expected(self.busy)
        if loaded and selection.plan.kind in ("cta-shared", "cluster-shared"):
            clocks += self.target.costs.meeting * self.warps
        return clocks

    def of_recipe(self, recipe: Recipe, encoding: str, frequency: float) -> float:
        """A conversion of what could have been recomputed, as the module has it."""
        try:
            layouts = [layout_of(text, recipe.kind.shape) for text in (recipe.kind.encoding, encoding)]
        except NoLayout:
            return self.target.policy.unknown_conversion * frequency
        return self.of_conversion(layouts[0], layouts[1], recipe.kind.type) * frequency
