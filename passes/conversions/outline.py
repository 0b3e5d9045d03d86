"""Takes planned conversions out of Triton's hands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import (
    FlatSymbolRefAttr,
    InsertionPoint,
    Operation,
    StringAttr,
    Type,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import Plan
from triton_linear.lowering.plan.stubs import ConversionStub
from triton_linear.passes.analysis.accumulators import accumulators
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.loose import gives_loose_bytes, takes_loose_bytes
from triton_linear.passes.conversions.stubs import ACCUMULATORS, CONVERSION_PREFIX, LOOSE, UNPACKS
from triton_linear.passes.framework import diagnostics, provenance
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.building import made
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.planning import function_of
from triton_linear.passes.framework.plans import NOOP, STOCK, DecidedConversion, Plans
from triton_linear.passes.framework.verifiers import (
    Verifier,
    every_conversion_is_decided,
    no_convert_layout_left,
)
from triton_linear.passes.operations.names import CALL, CONVERT, FUNCTION
from triton_linear.passes.reductions.held import is_for_nvidia


@dataclass(frozen=True)
class OutlineConversions(Pass):
    """Takes planned conversions out of Triton's hands.

    Each conversion that moves data becomes a call of a private function, the stub, one for each pair of types
    and plan, behind all other functions. A stub has no body; `ll.source`, `ll.destination`, `ll.element` and
    `ll.plan` say what its calls are to do. A no-op stays a conversion, which Triton lowers to nothing.
    Calls that take the result of a dot of warp groups as it is, or bytes that arithmetic leaves one to a
    register, have stubs of their own, by name.

    Requires: every conversion is planned or left to Triton.
    Ensures: only no-ops and conversions left to Triton are left.

        %1 = ttg.convert_layout %0 {ll.plan = ...} : A -> B
        %1 = tt.call @__ll_cvt_0(%0) : (A) -> B
    """

    name: ClassVar[str] = "linear-outline-conversions"
    summary: ClassVar[str] = "replace planned conversions by calls of stubs"
    requires: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)
    ensures: ClassVar[tuple[Verifier, ...]] = (no_convert_layout_left,)

    def __call__(self, op: Operation, pass_: PassRun) -> None:
        ops = pass_.operations(op)
        raw, for_nvidia = accumulators(ops), is_for_nvidia(op)

        def suffix_of(conversion: Operation) -> str:
            if conversion.operands[0] in raw:
                return ACCUMULATORS
            if not for_nvidia or ll.PLAN not in conversion.attributes:
                return ""
            taken = LOOSE if takes_loose_bytes(conversion) else ""
            return taken + (UNPACKS if gives_loose_bytes(conversion) else "")

        # Told beforehand: the results of conversions are replaced on the way.
        conversions = [(inner, suffix_of(inner)) for inner in ops if inner.name == CONVERT]
        own = set[int]()
        stubs = _Stubs(op, ops, pass_.plans)
        for conversion, suffix in conversions:
            if ll.STOCK in conversion.attributes:
                reason = conversion.attributes[ll.STOCK].value
                pass_.plans.conversions.append(_decided(conversion, own, STOCK, reason))
                continue
            if ll.PLAN not in conversion.attributes:
                diagnostics.error(
                    conversion, f"{self.name}: conversion has no plan; run linear-select-lowering"
                )
                pass_.signal_pass_failure()
                return
            plan = pass_.plans.of(conversion)
            record = conversion.attributes[ll.PLAN]
            kind = ll.plan_from_attribute(record).kind if plan is None else plan.kind
            if kind == NOOP:
                pass_.plans.conversions.append(
                    _decided(conversion, own, kind, "" if plan is None else plan.summary())
                )
                continue
            symbol = stubs.symbol(conversion, plan, suffix)
            detail = "" if plan is None else plan.summary()
            pass_.plans.conversions.append(_decided(conversion, own, kind, detail, symbol))
            _call(conversion, symbol)


def _decided(
    conversion: Operation, own: set[int], kind: str, detail: str, stub: str | None = None
) -> DecidedConversion:
    made = not provenance.claim(conversion, own)
    source, result = conversion.operands[0].type, conversion.results[0].type
    partials = ll.PARTIALS in conversion.attributes
    function = function_of(conversion)
    return DecidedConversion(
        str(conversion.location), str(source), str(result), kind, detail, partials, stub, function, made
    )


def _call(conversion: Operation, symbol: str) -> None:
    """Put a call of a stub in the place of a conversion."""
    result = conversion.results[0]
    attributes = {"callee": FlatSymbolRefAttr.get(symbol, conversion.context)}
    kept = (ll.RESULTS, *HINTS)
    attributes |= {name: conversion.attributes[name] for name in kept if name in conversion.attributes}
    operands, place = [conversion.operands[0]], conversion.location
    call = made(CALL, operands, result.type, conversion, place, attributes)
    result.replace_all_uses_with(call)
    conversion.erase()


@dataclass
class _Stubs:
    """The stubs of one module."""

    module: Operation
    ops: Sequence[Operation]
    plans: Plans
    table: LayoutTable = field(default_factory=LayoutTable)
    known: dict[tuple[Type, Type, str, str], str] = field(default_factory=dict)
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {op.attributes["sym_name"].value for op in self.ops if op.name == FUNCTION}

    def symbol(self, conversion: Operation, plan: Plan | None, suffix: str) -> str:
        """The name of the stub for a conversion, which is declared if it is the first of its kind. `suffix`:
        `ACCUMULATORS`, or `LOOSE` and `UNPACKS` as far as they hold."""
        source, result = conversion.operands[0].type, conversion.results[0].type
        recorded = str(conversion.attributes[ll.PLAN])
        key = (source, result, recorded, suffix)
        if key in self.known:
            return self.known[key]
        first = len(self.known)
        numbered = (
            f"{CONVERSION_PREFIX}{number}{suffix}" for number in range(first, first + len(self.names) + 1)
        )
        name = self.known[key] = next(name for name in numbered if name not in self.names)
        self.names.add(name)
        held, wanted = self.layout(source), self.layout(result)
        end = InsertionPoint(self.module.regions[0].blocks[0])
        end.insert(_declared(name, conversion, recorded, (held, wanted)))
        if plan is not None:
            element = element_of(source)
            self.plans.stubs[name] = ConversionStub(
                name,
                held,
                wanted,
                element,
                plan,
                accumulators=suffix == ACCUMULATORS,
                loose=suffix.startswith(LOOSE),
                unpacks=suffix.endswith(UNPACKS),
            )
        return name

    def layout(self, type_: Type) -> LinearLayout:
        """The layout of a tensor that is converted, which is known as there is a plan."""
        layout = self.table.of(type_)
        if not isinstance(layout, LinearLayout):
            raise ValueError(f"planned conversion has no layout for '{type_}'")
        return layout


def _declared(name: str, conversion: Operation, plan: str, layouts: Sequence[LinearLayout]) -> Operation:
    """The stub of `conversion`, in no block yet."""
    source, result = conversion.operands[0].type, conversion.results[0].type
    context = conversion.context
    entries = [f"{ll.ELEMENT} = {StringAttr.get(str(source.element_type), context)}"]
    for attribute, layout in zip((ll.SOURCE, ll.DESTINATION), layouts, strict=True):
        entries.append(f"{attribute} = {ll.layout_text(layout)}")
    entries.append(f"{ll.PLAN} = {plan}")
    if ll.SCRATCH_LIMIT in conversion.attributes:
        entries.append(f"{ll.SCRATCH_LIMIT} = {conversion.attributes[ll.SCRATCH_LIMIT]}")
    properties = f'function_type = ({source}) -> {result}, sym_name = "{name}", sym_visibility = "private"'
    attributes = ", ".join([*entries, "noinline = true"])
    text = f'"{FUNCTION}"() <{{{properties}}}> ({{}}) {{{attributes}}} : () -> () {conversion.location}'
    return Operation.parse(text, context=context)
