"""Takes planned conversions out of Triton's hands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    FlatSymbolRefAttr,
    InsertionPoint,
    Module,
    Operation,
    StringAttr,
    Type,
    operations,
)
from triton_linear.lowering.element import element_type
from triton_linear.lowering.embed import ACCUMULATORS
from triton_linear.lowering.free import plan_free
from triton_linear.lowering.plan import FREE, PADDED, Plan
from triton_linear.lowering.prove import refuted
from triton_linear.lowering.select import select
from triton_linear.lowering.targets import Target
from triton_linear.passes import diagnostics
from triton_linear.passes.accumulators import accumulators
from triton_linear.passes.layouts import LayoutTable, Unknown
from triton_linear.passes.select import legacy_selection
from triton_linear.passes.verifiers import (
    CONVERT,
    Verifier,
    every_conversion_is_decided,
    no_convert_layout_left,
)

PREFIX = "__ll_cvt_"


@dataclass(frozen=True)
class OutlineConversions:
    """Takes planned conversions out of Triton's hands.

    Each conversion that moves data becomes a call of a private function, the stub, one for each pair of types
    and plan, behind all other functions. A stub has no body; `ll.source`, `ll.destination`, `ll.element` and
    `ll.plan` say what its calls are to do. A no-op stays a conversion, which Triton lowers to nothing.
    Calls that take the result of a product of warp groups as it is have stubs of their own, by name.

    Requires: every conversion is planned or left to Triton.
    Ensures: only no-ops and conversions left to Triton are left.

        %1 = ttg.convert_layout %0 {ll.plan = ...} : A -> B
        %1 = tt.call @__ll_cvt_0(%0) : (A) -> B
    """

    name: ClassVar[str] = "linear-outline-conversions"
    summary: ClassVar[str] = "replace planned conversions by calls of stubs"
    requires: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)
    ensures: ClassVar[tuple[Verifier, ...]] = (no_convert_layout_left,)

    def __call__(self, op: Operation, pass_: Any) -> None:
        ops = operations(op)
        names = {inner.attributes["sym_name"].value for inner in ops if inner.name == "tt.func"}
        table, raw = LayoutTable(), accumulators(ops)
        end = InsertionPoint(op.regions[0].blocks[0])
        stubs: dict[tuple[Type, Type, str, str], str] = {}
        # Told beforehand: the results of conversions are replaced on the way.
        conversions = [(inner, inner.operands[0] in raw) for inner in ops if inner.name == CONVERT]
        for conversion, unsettled in conversions:
            if ll.STOCK in conversion.attributes:
                continue
            if ll.PLAN not in conversion.attributes:
                diagnostics.error(
                    conversion, f"{self.name}: conversion has no plan; run linear-select-lowering"
                )
                pass_.signal_pass_failure()
                return
            plan = str(conversion.attributes[ll.PLAN])
            if ll.plan_from_text(plan).kind == "noop":
                continue
            source, result = conversion.operands[0], conversion.results[0]
            kind = ACCUMULATORS if unsettled else ""
            key = (source.type, result.type, plan, kind)
            if key not in stubs:
                numbered = (
                    f"{PREFIX}{number}{kind}" for number in range(len(stubs), len(stubs) + len(names) + 1)
                )
                stubs[key] = next(name for name in numbered if name not in names)
                names.add(stubs[key])
                end.insert(_declare(stubs[key], conversion, plan, table))
            attributes = {"callee": FlatSymbolRefAttr.get(stubs[key], op.context)}
            if ll.RESULTS in conversion.attributes:
                attributes[ll.RESULTS] = conversion.attributes[ll.RESULTS]
            call = Operation.create(
                "tt.call",
                results=[result.type],
                operands=[source],
                attributes=attributes,
                loc=conversion.location,
                ip=InsertionPoint(conversion),
            )
            result.replace_all_uses_with(call.results[0])
            conversion.erase()


def _declare(name: str, conversion: Operation, plan: str, table: LayoutTable) -> Operation:
    """The stub of `conversion`, in no block yet."""
    source, result = conversion.operands[0].type, conversion.results[0].type
    context = conversion.context
    entries = [f"{ll.ELEMENT} = {StringAttr.get(str(source.element_type), context)}"]
    for attribute, type_ in ((ll.SOURCE, source), (ll.DESTINATION, result)):
        layout = table.of(type_)
        if layout is None or isinstance(layout, Unknown):
            raise ValueError(f"planned conversion has no layout for '{type_}'")
        entries.append(f"{attribute} = {ll.layout_text(layout)}")
    entries.append(f"{ll.PLAN} = {plan}")
    if ll.SCRATCH_LIMIT in conversion.attributes:
        entries.append(f"{ll.SCRATCH_LIMIT} = {conversion.attributes[ll.SCRATCH_LIMIT]}")
    properties = f'function_type = ({source}) -> {result}, sym_name = "{name}", sym_visibility = "private"'
    attributes = ", ".join([*entries, "noinline = true"])
    text = f'"tt.func"() <{{{properties}}}> ({{}}) {{{attributes}}} : () -> () {conversion.location}'
    return Operation.parse(text, context=context)


def stub_plans(module: Module, target: Target) -> dict[str, Plan]:
    """The plan of each stub in `module`, by the stub's name, as the passes chose it for `target`.

    Every plan that is to give what is right is proved to: here all of them come by on their way to emission.

    Raises ValueError for a plan that is not what was chosen, or not proved.
    """
    plans: dict[str, Plan] = {}
    for op in operations(module.operation):
        if op.name != "tt.func" or ll.PLAN not in op.attributes:
            continue
        attributes = op.attributes
        limit = attributes[ll.SCRATCH_LIMIT].value if ll.SCRATCH_LIMIT in attributes else None
        name = attributes["sym_name"].value
        source = ll.layout_from_attribute(attributes[ll.SOURCE])
        destination = ll.layout_from_attribute(attributes[ll.DESTINATION])
        recorded = ll.plan_from_attribute(attributes[ll.PLAN]).kind
        if recorded == FREE:
            plans[name] = plan_free(source, destination)
            continue
        element = element_type(attributes[ll.ELEMENT].value)
        if recorded == PADDED:
            type_ = attributes["function_type"].value
            plan = legacy_selection(type_.inputs[0], type_.results[0], target).plan
        else:
            plan = select(source, destination, element, target, limit).plan
        if plan is None or plan.kind != recorded:
            found = "none" if plan is None else f"'{plan.kind}'"
            raise ValueError(f"stub_plans: @{name} was planned as '{recorded}', {target.name} gives {found}")
        if reason := refuted(plan, source, destination, element, target):
            raise ValueError(f"stub_plans: the plan '{plan.kind}' of @{name} is not proved: {reason}")
        plans[name] = plan
    return plans
