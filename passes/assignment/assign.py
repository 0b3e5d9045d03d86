"""Decides the layouts of a module's tensors together."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.axis import pointee_bytes, shape_of
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.registers import estimate
from triton_linear.passes.analysis.residency import Residency
from triton_linear.passes.analysis.widths import are_rows_short
from triton_linear.passes.assignment.build import build_scope
from triton_linear.passes.assignment.candidates import NoLayout
from triton_linear.passes.assignment.costs import AssignmentCosts
from triton_linear.passes.assignment.explain import explain
from triton_linear.passes.assignment.graph import Graph
from triton_linear.passes.assignment.nodes import read
from triton_linear.passes.assignment.plan import Assignment, assign
from triton_linear.passes.assignment.rewrite import Rewriter
from triton_linear.passes.assignment.scopes import Facts, Scope, scopes_of
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.planning import NO_WARPS, NUM_WARPS, Planning, exact_field
from triton_linear.passes.operations.names import CONVERT, COPY, LOAD, LOCAL_ACCESSES, STORE
from triton_linear.passes.reductions.held import KeptBits

_WORTH_A_LOOK = frozenset({CONVERT, COPY, *LOCAL_ACCESSES})
"""Operations without one of which there is nothing to gain, unless rows are short. Then layouts change for
wider accesses alone, and no conversion comes."""

_OTHER_GPU = "it has warp-specialised regions, which are known for NVIDIA GPUs alone"


@dataclass(frozen=True)
class AssignLayouts(Planning):
    """Decides the layouts of a module's tensors together.

    Triton chooses a layout for each load, store and dot by itself and converts between them. This pass prices
    all of them at once: conversions by the planner of `linear-select-lowering`, times the iterations of their
    loops; accesses to global memory by the instructions and sectors of each layout, those to shared memory by
    their wavefronts; reductions by their shuffles and barriers; pointers and masks that are computed again in
    another layout by their operations. It then takes the assignment of least cost, if that saves enough:
    conversions go that need not exist.

    In a kernel with warp-specialised regions each partition is priced by itself, with its own warps, and what
    it captures keeps its layout; so do functions that are called there. In a cluster each CTA keeps the part
    that it has of a tensor.

    Requires: nothing. Modules with regions for other GPUs than NVIDIA's are left as they are, with a remark.
    Ensures: the module computes what it did (see `assignment.equivalence`); a reduction of floats may add in
    another order, unless its bits have to stay: then the layouts of what it adds, and of what is held
    (`reductions/held.py`), stay. A module that changed has `ll.assigned`, the modelled clocks before and after.
    """

    split_reductions: bool = field(
        default=False, metadata={"help": "price reductions as `linear-split-reductions` makes them"}
    )

    exact: bool = exact_field()

    name: ClassVar[str] = "linear-assign-layouts"
    summary: ClassVar[str] = "choose the layouts of all tensors together, at the least modelled cost"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        situation = self.situation(op, pass_)
        if situation is None:
            return False
        ops = pass_.operations(op)
        if not any(inner.name in _WORTH_A_LOOK or _is_short(inner) for inner in ops):
            return False
        if NUM_WARPS not in op.attributes:
            diagnostics.remark(op, f"layouts are not assigned: {NO_WARPS}")
            return False
        nodes = read(ops)
        scopes = scopes_of(nodes)
        if len(scopes) > 1 and situation.gpu.vendor != "nvidia":
            diagnostics.remark(op, f"layouts are not assigned: {_OTHER_GPU}")
            return False
        residency = Residency(situation, None, scopes[0].warps)
        if len(scopes) > 1:
            residency = Residency.of(situation, ops, scopes[0].warps, pass_.layouts)
        facts = Facts.of(nodes, situation.gpu.policy.unknown_trips)
        kept = KeptBits.of(op, pass_, exact=self.exact)
        decided = (self._decided(scope, facts, residency.in_region(scope.warps), kept) for scope in scopes)
        paying = [found for found in decided if found is not None]
        if not paying:
            return False
        asked = diagnostics.wanted() and len(scopes) == 1
        registers = estimate(op) if asked else 0.0
        with Numbering().same(op, "other layouts"):
            for scope, graph, assignment in paying:
                encodings = {group: choice.encoding for group, choice in assignment.chosen.items()}
                Rewriter(graph, [node.op for node in scope.ops], encodings, assignment.again).run()
        was = sum(found.before.clocks for _, _, found in paying)
        becomes = sum(found.after.clocks for _, _, found in paying)
        op.attributes[ll.ASSIGNED] = Attribute.parse(f"[{was:.1f}, {becomes:.1f}]", op.context)
        if asked:
            diagnostics.remark(
                op, f"a thread needs about {registers:.0f} registers before, {estimate(op):.0f} after"
            )
        return None

    def _decided(
        self, scope: Scope, facts: Facts, situation: Situation, kept: KeptBits
    ) -> tuple[Scope, Graph, Assignment] | None:
        """The layouts of a scope; None if they stay."""
        converts = any(node.name in _WORTH_A_LOOK for node in scope.ops)
        if not converts and not any(_is_short(node.op) for node in scope.ops):
            return None
        costs = AssignmentCosts(situation, scope.warps, apart=self.split_reductions)
        try:
            graph = build_scope(scope, facts, situation, kept)
            assignment = assign(graph, costs, admits_new=converts)
        except NoLayout as error:
            diagnostics.remark(scope.place, f"layouts are not assigned: {error}")
            return None
        pays = _pays(assignment, situation.gpu)
        explain(scope, graph, assignment, pays)
        return (scope, graph, assignment) if pays else None


_EQUAL = 1.001
"""Clocks of memory are equal up to this factor: the model's sums are floating-point."""


def _is_short(op: Operation) -> bool:
    """Whether an operation accesses rows that are shorter than a vector."""
    if op.name not in (LOAD, STORE) or not (shape := shape_of(op.operands[0].type)):
        return False
    return len(shape) > 1 and are_rows_short(shape, pointee_bytes(op.operands[0].type))


def _pays(assignment: Assignment, gpu: Target) -> bool:
    """Whether an assignment is worth it: the module's clocks fall by a margin. On a GPU whose clocks were
    measured any saving suffices where conversions go or become much cheaper, and global memory has no more to
    do."""
    before, after = assignment.before, assignment.after
    ratio = after.clocks / max(1.0, before.clocks)
    costs = assignment.edges.values()
    less = any(new < gpu.policy.much_less * old for old, new in costs)
    if (
        gpu.measured
        and less
        and all(new <= old for old, new in costs)
        and after.memory <= before.memory * _EQUAL
    ):
        return ratio < 1
    return ratio < 1 - gpu.policy.margin
