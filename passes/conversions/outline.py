"""Takes planned conversions out of Triton's hands."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import field
from typing import ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import FlatSymbolRefAttr, InsertionPoint, Operation, StringAttr, Type
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import Plan, Stub
from triton_linear.passes.analysis.accumulators import accumulators
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.conversions.stubs import STUB_PREFIX
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


@dataclass(frozen=True)
class OutlineConversions(Pass):
    """Takes planned conversions out of Triton's hands.

    Each conversion that moves data becomes a call of a private function, the stub, one for each pair of types
    and plan, behind all other functions. A stub has no body; `ll.source`, `ll.destination`, `ll.element` and
    `ll.plan` say what its calls are to do. A no-op stays a conversion, which Triton lowers to nothing.
    Calls that take the result of a dot of warp groups as it is have stubs of their own (`ll.accumulators`).

    Requires: every conversion is planned or left to Triton.
    Ensures: only no-ops and conversions left to Triton are left.

        %1 = ttg.convert_layout %0 {ll.plan = ...} : A -> B
        %1 = tt.call @__ll_cvt_0(%0) : (A) -> B
    """

    name: ClassVar[str] = "linear-outline-conversions"
    summary: ClassVar[str] = "replace planned conversions by calls of stubs"
    requires: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)
    ensures: ClassVar[tuple[Verifier, ...]] = (no_convert_layout_left,)

    def __call__(self, op: Operation, pass_: PassRun) -> bool:
        ops = pass_.operations(op)
        converting = [inner for inner in ops if inner.name == CONVERT]
        raw = accumulators(ops) if converting else frozenset()
        # Told beforehand: the results of conversions are replaced on the way.
        conversions = [(inner, inner.operands[0] in raw) for inner in converting]
        own = set[int]()
        taken = {inner.attributes["sym_name"].value for inner in ops if inner.name == FUNCTION}
        stubs = _Stubs(InsertionPoint(op.regions[0].blocks[0]), taken, pass_.plans, pass_.layouts)
        for conversion, takes_raw in conversions:
            if ll.STOCK in conversion.attributes:
                reason = conversion.attributes[ll.STOCK].value
                pass_.plans.conversions.append(_decided(conversion, own, STOCK, reason))
                continue
            if ll.PLAN not in conversion.attributes:
                diagnostics.error(
                    conversion, f"{self.name}: conversion has no plan; run linear-select-lowering"
                )
                pass_.signal_pass_failure()
                break
            plan = pass_.plans.of(conversion)
            record = conversion.attributes[ll.PLAN]
            kind = ll.plan_from_attribute(record).kind if plan is None else plan.kind
            detail = "" if plan is None else plan.summary()
            symbol = None if kind == NOOP else stubs.symbol(conversion, plan, takes_raw)
            pass_.plans.conversions.append(_decided(conversion, own, kind, detail, symbol))
            if symbol is not None:
                _call(conversion, symbol)
        return bool(stubs.known)


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
    attributes |= {name: conversion.attributes[name] for name in HINTS if name in conversion.attributes}
    operands, place = [conversion.operands[0]], conversion.location
    call = made(CALL, operands, result.type, conversion, place, attributes)
    result.replace_all_uses_with(call)
    conversion.erase()


@dataclass
class _Stubs:
    """The stubs of one module, which stand behind its other functions. taken: the names of functions."""

    end: InsertionPoint
    taken: set[str]
    plans: Plans
    table: LayoutTable
    known: dict[Hashable, str] = field(default_factory=dict)

    def symbol(self, conversion: Operation, plan: Plan | None, takes_raw: bool) -> str:
        """The name of the stub for a conversion, which is declared if it is the first of its kind."""
        source, result = conversion.operands[0].type, conversion.results[0].type
        key = source, result, conversion.attributes[ll.PLAN], takes_raw
        if key not in self.known:
            layouts = self.layout(source), self.layout(result)
            name = self.known[key] = self.declared(conversion, *layouts, takes_raw)
            if plan is not None:
                self.plans.stubs[name] = Stub(name, *layouts, element_of(source), plan, takes_raw)
        return self.known[key]

    def declared(
        self, conversion: Operation, source: LinearLayout, destination: LinearLayout, takes_raw: bool
    ) -> str:
        """The name of a new stub for a conversion."""
        numbered = (f"{STUB_PREFIX}{number}" for number in itertools.count(len(self.known)))
        name = next(name for name in numbered if name not in self.taken)
        self.taken.add(name)
        given, result = conversion.operands[0].type, conversion.results[0].type
        entries = [
            f"{ll.ELEMENT} = {StringAttr.get(str(given.element_type), conversion.context)}",
            f"{ll.SOURCE} = {ll.layout_text(source)}",
            f"{ll.DESTINATION} = {ll.layout_text(destination)}",
            f"{ll.PLAN} = {conversion.attributes[ll.PLAN]}",
        ]
        if ll.SCRATCH_LIMIT in conversion.attributes:
            entries.append(f"{ll.SCRATCH_LIMIT} = {conversion.attributes[ll.SCRATCH_LIMIT]}")
        if takes_raw:
            entries.append(ll.ACCUMULATORS)
        listed = ", ".join([*entries, "noinline = true"])
        properties = f'function_type = ({given}) -> {result}, sym_name = "{name}", sym_visibility = "private"'
        text = f'"{FUNCTION}"() <{{{properties}}}> ({{}}) {{{listed}}} : () -> () {conversion.location}'
        self.end.insert(Operation.parse(text, context=conversion.context))
        return name

    def layout(self, type_: Type) -> LinearLayout:
        """The layout of a tensor that is converted, which is known as there is a plan."""
        layout = self.table.of(type_)
        if not isinstance(layout, LinearLayout):
            raise ValueError(f"planned conversion has no layout for '{type_}'")
        return layout
