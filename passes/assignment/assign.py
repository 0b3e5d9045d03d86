"""Decides the layouts of a module's tensors together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation, operations
from triton_linear.passes import diagnostics
from triton_linear.passes.assignment.axis import pointee_bytes, shape_of
from triton_linear.passes.assignment.build import LOCAL, build
from triton_linear.passes.assignment.candidates import NoLayout
from triton_linear.passes.assignment.costs import Costs
from triton_linear.passes.assignment.equivalence import NotEquivalent, Numbering
from triton_linear.passes.assignment.explain import explain
from triton_linear.passes.assignment.plan import Assignment, assign
from triton_linear.passes.assignment.rewrite import Rewriter
from triton_linear.passes.assignment.widths import are_rows_short
from triton_linear.passes.planning import Planning, unfit
from triton_linear.passes.verifiers import CONVERT, Verifier

MARGIN_CLOCKS = 4.0
MARGIN = 0.005
MARGIN_WITH_MEMORY = 0.03
"""What must be saved for a module to be changed: so many clocks where conversions go; else this part of all,
and more where memory has more to do."""
MARGIN_UNMEASURED = 0.1
"""The part of all that must be saved on GPUs whose costs were not measured: all but NVIDIA's."""
MUCH_LESS = 0.6
EQUAL = 0.001
HARDLY_MORE = 0.03
"""The part of what it was that a conversion which becomes much less has left, and how much more memory may have
to do for as much as before and for hardly more."""


_WORTH_A_LOOK = frozenset({CONVERT, *LOCAL})
"""Operations without one of which there is nothing to gain, unless rows are short. Then layouts change for
wider accesses alone, and no conversion comes."""


@dataclass(frozen=True)
class AssignLayouts(Planning):
    """Decides the layouts of a module's tensors together.

    Triton chooses a layout for each load, store and dot by itself and converts between them. This pass prices
    all of them at once: conversions by the planner of `linear-select-lowering`, times the turns of their
    loops; accesses to global memory by the instructions and sectors of each layout, those to shared memory by
    their wavefronts; reductions by their shuffles and barriers; pointers and masks that are computed again in
    another layout by their operations. It then takes the assignment of least cost, if that saves enough:
    conversions go that need not exist.

    Requires: one CTA a cluster, no warp-specialised regions; other modules are left as they are, with a remark.
    Ensures: the module computes what it did (see `assignment.equivalence`); a reduction of floats may add in
    another order. A module that changed has `ll.assigned`, the modelled clocks before and after.
    """

    reductions: int = field(
        default=0, metadata={"help": "1: price reductions as `linear-split-reductions` makes them"}
    )

    detours: int = field(
        default=0, metadata={"help": "1: price accesses to shared memory as `linear-lower-local` makes them"}
    )

    name: ClassVar[str] = "linear-assign-layouts"
    summary: ClassVar[str] = "choose the layouts of all tensors together, at the least modelled cost"
    requires: ClassVar[tuple[Verifier, ...]] = ()
    ensures: ClassVar[tuple[Verifier, ...]] = ()

    def __call__(self, op: Operation, pass_: Any) -> None:
        gpu = self.gpu(op, pass_)
        if gpu is None:
            return
        ops = operations(op)
        converts = any(inner.name in _WORTH_A_LOOK for inner in ops)
        if not converts and not any(map(_is_short, ops)):
            return
        if reason := unfit(op, ops):
            diagnostics.remark(op, f"layouts are not assigned: {reason}")
            return
        warps = op.attributes["ttg.num-warps"].value
        costs = Costs(gpu, warps, self.scratch_limit, apart=bool(self.reductions), detours=bool(self.detours))
        try:
            graph = build(ops)
            assignment = assign(graph, costs, admits_new=converts)
        except NoLayout as error:
            diagnostics.remark(op, f"layouts are not assigned: {error}")
            return
        pays = _pays(assignment) and (gpu.vendor == "nvidia" or _pays_well(assignment))
        explain(op, graph, assignment, pays)
        if not pays:
            return
        numbering = Numbering()
        before = numbering.of(op)
        Rewriter(graph, ops, {group: choice.encoding for group, choice in assignment.chosen.items()}).run()
        if numbering.of(op) != before:
            raise NotEquivalent("the module with other layouts would not compute the same")
        op.attributes[ll.ASSIGNED] = Attribute.parse(
            f"[{assignment.before.clocks:.1f}, {assignment.after.clocks:.1f}]", op.context
        )


def _is_short(op: Operation) -> bool:
    """Whether an operation accesses rows that are shorter than a vector."""
    if op.name not in ("tt.load", "tt.store") or not (shape := shape_of(op.operands[0].type)):
        return False
    return len(shape) > 1 and are_rows_short(shape, pointee_bytes(op.operands[0].type))


def _pays(assignment: Assignment) -> bool:
    """Whether an assignment is worth it: conversions go, or become much less, and memory has hardly more to do;
    or the whole gets shorter by a margin, larger where memory has more to do."""
    before, after = assignment.before, assignment.after
    ratio = after.clocks / max(1.0, before.clocks)
    costs = assignment.edges.values()
    if any(new < MUCH_LESS * old for old, new in costs) and not any(new > old for old, new in costs):
        if after.memory <= before.memory * (1 + EQUAL):
            return ratio < 1 and before.other - after.other >= MARGIN_CLOCKS
        if after.memory <= before.memory * (1 + HARDLY_MORE) and ratio < 1 - MARGIN:
            return True
    more = after.memory > before.memory * (1 + EQUAL)
    return ratio < 1 - (MARGIN_WITH_MEMORY if more else MARGIN)


def _pays_well(assignment: Assignment) -> bool:
    """Whether it pays by so much that constants measured on another GPU hardly matter."""
    return assignment.after.clocks < (1 - MARGIN_UNMEASURED) * assignment.before.clocks
