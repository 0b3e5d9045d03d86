"""Leaves out what layout conversions cost, to see what a kernel takes without."""

from __future__ import annotations

from typing import ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Operation, StringAttr, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Cost, FreePlan, RegisterPlan, Selection
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.planners.free import plan_free
from triton_linear.passes.analysis.influence import deciding_values
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.verifiers import Verifier, every_conversion_is_decided
from triton_linear.passes.operations.names import CONVERT

_DECIDES = "it leads to an address, a mask, an index or a branch, all of which must be right"


@dataclass(frozen=True)
class FreeConversions(Pass):
    """Leaves out what layout conversions cost, to see what a kernel takes without.

    Every conversion of floats gets an `ll.plan` of kind "free": its result is garbage, made of the source's
    registers where they are. It is for measuring, and nothing else. Conversions of anything but floats, and
    those whose result leads to an address, a mask, an index or a branch, get `ll.stock` with the reason, and
    a remark; Triton lowers them. What moves nothing gets the plan "noop".

    Requires: nothing.
    Ensures: every conversion has either attribute.

        %1 = ttg.convert_layout %0 : #a -> #b
        %1 = ttg.convert_layout %0 {ll.plan = #ll.plan<"free", {...}, []>} : #a -> #b
    """

    name: ClassVar[str] = "linear-free-conversions"
    summary: ClassVar[str] = "let conversions of floats cost nothing and give garbage, for measuring"
    ensures: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)

    def __call__(self, op: Operation, pass_: PassRun) -> None:
        ops = pass_.operations(op)
        conversions = [inner for inner in ops if inner.name == CONVERT]
        if not conversions:
            return
        deciding = deciding_values(ops)
        table = pass_.layouts
        for conversion in conversions:
            ll.undecide(conversion)
            plan = decide(conversion, deciding, table)
            if isinstance(plan, str):
                conversion.attributes[ll.STOCK] = StringAttr.get(plan, op.context)
                diagnostics.remark(conversion, f"conversion left to Triton: {plan}")
            else:
                figures = {"clocks": 0.0, "scratch_bytes": 0}
                conversion.attributes[ll.PLAN] = ll.plan_attribute(plan.kind, figures, (), op.context)
                pass_.plans.keep(conversion, Selection(plan, Cost(), ()))


def decide(
    conversion: Operation, deciding: frozenset[Value], table: LayoutTable
) -> FreePlan | RegisterPlan | str:
    """What stands for a conversion in a kernel whose conversions are free, or why it stays as it is."""
    source, result = conversion.operands[0].type, conversion.results[0].type
    plan = plan_between(source, result, table)
    if not isinstance(plan, FreePlan):
        return plan
    if not str(source.element_type).startswith(("f", "bf")):
        return f"it converts {source.element_type}, and only conversions of floats are left out"
    return _DECIDES if conversion.results[0] in deciding else plan


def plan_between(source: Type, result: Type, table: LayoutTable) -> FreePlan | RegisterPlan | str:
    """The plan of a free conversion between two types, or why there is none."""
    known = table.both(source, result)
    if isinstance(known, str):
        return known
    try:
        element_type(str(source.element_type))
        if (held := Hardware.of(known[0])) == Hardware.of(known[1]):
            count = 1 << len(held.register)
            return RegisterPlan(count, tuple(range(count)))
    except ValueError as error:
        return str(error)
    return plan_free(*known)
