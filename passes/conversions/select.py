"""Decides how each layout conversion is lowered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation, StringAttr, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED
from triton_linear.lowering.plan.plans import NOOP, Selection, meets_warps
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis.accumulators import changed_signs
from triton_linear.passes.analysis.addresses import address_conversions
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.analysis.axis_hints import AxisHints, hints_of
from triton_linear.passes.analysis.partial import CALLS, PartialCode
from triton_linear.passes.analysis.residency import Residency
from triton_linear.passes.framework import diagnostics, provenance
from triton_linear.passes.framework.base import PassRun
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.planning import UNORDERED, Planning, ctas_of, exact_field, warps_of
from triton_linear.passes.framework.verifiers import Verifier, every_conversion_is_decided
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.reductions.held import HELD, KeptBits

_SEEN_THROUGH = (
    "it leads to an address or a mask of a memory access, whose width Triton takes from what it knows of them, "
    "which may be more than is known here: "
)
_SIGN = "it takes what `wgmma` left with its sign changed, in an integer instruction that ptxas has wrong"


@dataclass(frozen=True)
class SelectLowering(Planning):
    """Decides how each layout conversion is lowered.

    Every `ttg.convert_layout` gets `ll.plan`: the kind of the cheapest plan for the target, the figures of its
    cost, and the planners that were passed over with the basis vectors that did not fit. A conversion that
    cannot be ours gets `ll.stock` instead, the reason why it is left to Triton, and a remark that says so: its
    layouts are not known, it crosses CTAs, it is in a function that a
    warp-specialised region calls, it leads to an address or a mask of which Triton's axis analysis may
    know more than can be handed on, or it takes accumulators of `wgmma` with another sign
    (`passes/analysis/accumulators.py`), or it goes through memory in a cluster with a release that does not
    order that (`CLUSTERS_ORDERED`), or it gives a value that is held (`passes/reductions/held.py`).

    A planned conversion that leads to an address or a mask promises what is known of its result
    (`passes/analysis/axis_hints.py`), by `tt.contiguity`, `tt.divisibility` and `tt.constancy`.

    Requires: nothing.
    Ensures: every conversion has either attribute.

        %1 = ttg.convert_layout %0 : #a -> #b
        %1 = ttg.convert_layout %0 {ll.plan = #ll.plan<"shuffle", {clocks = 8.0, ...}, [...]>} : #a -> #b
    """

    name: ClassVar[str] = "linear-select-lowering"
    summary: ClassVar[str] = "give every conversion a plan, or leave it to Triton with a remark"
    ensures: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)

    exact: bool = exact_field()

    def __call__(self, op: Operation, pass_: PassRun) -> bool | None:
        ops = pass_.operations(op)
        pass_.plans.lowered = provenance.numbers(ops)
        situation = self.situation(op, pass_)
        if situation is None:
            return False
        conversions = [inner for inner in ops if inner.name == CONVERT]
        if not conversions:
            return False
        partial = PartialCode.find(ops)
        ctas = ctas_of(op)
        unordered = ctas > 1 and situation.release not in CLUSTERS_ORDERED
        addresses, signs = address_conversions(ops), changed_signs(ops)
        held = KeptBits.of(op, pass_, exact=self.exact).held
        axes = AxisAnalysis(producers_of(ops) if addresses else {})
        table = pass_.layouts
        residency = Residency.of(situation, ops, warps_of(op), table)
        for conversion in conversions:
            ll.undecide(conversion)
            situation = residency.at(conversion)
            decision = self.decide(conversion, situation, table, partial)
            if unordered and isinstance(decision, Selection) and decision.plan and decision.plan.scratch_bytes:
                decision = UNORDERED.format(ctas)
            if isinstance(decision, Selection) and decision.plan and decision.plan.kind != NOOP:
                if conversion in addresses and (unknown := _hand_on(conversion, axes)) is not None:
                    decision = _SEEN_THROUGH + unknown
                elif conversion.operands[0] in signs:
                    decision = _SIGN
                elif conversion.results[0] in held:
                    decision = HELD
            if isinstance(decision, str):
                conversion.attributes[ll.STOCK] = StringAttr.get(decision, op.context)
                diagnostics.remark(conversion, f"conversion left to Triton: {decision}")
                continue
            conversion.attributes[ll.PLAN] = plan_attribute(decision, op)
            pass_.plans.keep(conversion, decision)
            if self.scratch_limit is not None:
                limit = Attribute.parse(f"{self.scratch_limit} : i64", op.context)
                conversion.attributes[ll.SCRATCH_LIMIT] = limit
        return False

    def decide(
        self, conversion: Operation, situation: Situation, table: LayoutTable, partial: PartialCode
    ) -> Selection | str:
        """The selection for one conversion, or why it is left to Triton."""
        if (reason := partial.reason(conversion, situation.gpu)) is not None:
            return reason
        selection = self.selection(conversion, situation, table)
        if isinstance(selection, str):
            return selection
        if selection.plan is None:
            return "; ".join(_reasons(selection))
        if partial.calls and meets_warps(selection.plan):
            return CALLS
        return selection

    def selection(self, conversion: Operation, situation: Situation, table: LayoutTable) -> Selection | str:
        """What the planners make of a conversion's types, or why they cannot be asked."""
        sides = table.both(conversion.operands[0].type, conversion.results[0].type)
        if isinstance(sides, str):
            return sides
        try:
            element = element_of(conversion.operands[0].type)
        except ValueError as error:
            return str(error)
        if situation.gpu.vendor == "amd" and (space := element.named_space):
            return f"it moves pointers to the address space {space}, which AMD GPUs have apart"
        return select(*sides, element, situation)


def _hand_on(conversion: Operation, axes: AxisAnalysis) -> str | None:
    """Let a conversion promise what is known of its result, or say why that may be less than Triton knows."""
    known = hints_of(conversion.operands[0], axes)
    if isinstance(known, AxisHints):
        known.put(conversion)
        return None
    return known


def _reasons(selection: Selection) -> Iterator[str]:
    for rejected in selection.rejected:
        yield rejected.reason if rejected.planner == "any" else str(rejected)


def plan_attribute(selection: Selection, op: Operation) -> Attribute:
    """`#ll.plan` for a selection that has a plan, in the context of `op`."""
    plan = selection.plan
    if plan is None:
        raise ValueError("plan_attribute: the selection has no plan")
    figures = {f.name: getattr(selection.cost, f.name) for f in fields(selection.cost)}
    figures = {name: value for name, value in figures.items() if value or name == "clocks"}
    figures["scratch_bytes"] = plan.scratch_bytes
    return ll.plan_attribute(plan.kind, figures, map(str, selection.rejected), op.context)
