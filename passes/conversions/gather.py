"""Takes gathers out of Triton's hands, and conversions around them with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    FlatSymbolRefAttr,
    Operation,
    RankedTensorType,
    StringAttr,
    Type,
    UnitAttr,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.gather.costs import cost_of, stock_cost
from triton_linear.lowering.gather.shuffles import plan_gather
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.gathers import GatherPlan
from triton_linear.lowering.plan.plans import Cost, Rejected
from triton_linear.lowering.plan.stubs import Index, Stub
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis.accumulators import accumulators
from triton_linear.passes.analysis.flow import maker
from triton_linear.passes.analysis.partial import PartialCode
from triton_linear.passes.conversions.declare import Declarations
from triton_linear.passes.conversions.stubs import GATHER_PREFIX
from triton_linear.passes.framework import diagnostics, provenance
from triton_linear.passes.framework.base import PassRun
from triton_linear.passes.framework.building import made
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.planning import (
    Planning,
    exact_field,
    function_of,
    warps_of,
)
from triton_linear.passes.framework.plans import STOCK, DecidedGather, Plans
from triton_linear.passes.framework.verifiers import Verifier, every_gather_is_decided
from triton_linear.passes.operations.names import CALL, CONVERT, GATHER
from triton_linear.passes.reductions.costs import total
from triton_linear.passes.reductions.held import HELD, KeptBits, takes_held

_AGREE = "lanes that hold copies are to take that of the same one of them"


@dataclass(frozen=True, slots=True)
class _Way:
    """A gather of these values, which needs the conversions `spared` no more, and its cost with that of those
    that stay around it."""

    source: Value
    index: Value
    spared: tuple[Operation, ...]
    plan: GatherPlan
    cost: Cost


@dataclass(frozen=True)
class LowerGathers(Planning):
    """Takes gathers out of Triton's hands.

    A gather becomes a call of a private function, the stub, one for each pair of types and axis, where the cost
    model has it no slower than Triton's own. It takes source and index as they are before conversions, where
    these serve nothing else and all of it is cheaper so, what becomes of the result included: that has the
    layout of the index, and is converted for those who want another. Every other gather is left to Triton, with
    a remark: its layouts are not known, an index asks for what another warp holds, it costs more, it takes
    accumulators of `wgmma`, it is in a function that a warp-specialised region calls, or it is there so that
    copies become alike (`ll.agree`).

    Requires: nothing.
    Ensures: every gather that is left has `ll.stock`, the reason.

        %1 = tt.gather %0[%i] {axis = 1 : i32} : (A, I) -> R
        %1 = tt.call @__ll_gather_0(%0, %i) : (A, I) -> R
    """

    name: ClassVar[str] = "linear-lower-gathers"
    summary: ClassVar[str] = "replace gathers by calls of stubs"
    ensures: ClassVar[tuple[Verifier, ...]] = (every_gather_is_decided,)

    exact: bool = exact_field()

    def __call__(self, op: Operation, pass_: PassRun) -> bool | None:
        ops = pass_.operations(op)
        pass_.plans.lowered = provenance.numbers(ops)
        gathers = [inner for inner in ops if inner.name == GATHER]
        if not gathers:
            return False
        situation = self.situation(op, pass_)
        if situation is None:
            return False
        partial, raw = PartialCode.find(ops), accumulators(ops)
        choice = _Choice(situation, warps_of(op))
        held = KeptBits.of(op, pass_, exact=self.exact).held
        stubs = _Stubs(Declarations.of(op, ops), choice, pass_.plans)
        left: list[DecidedGather] = []
        for gather in gathers:
            if ll.STOCK in gather.attributes:
                del gather.attributes[ll.STOCK]
            decision: _Way | str
            if (reason := partial.reason(gather, situation.gpu)) is not None:
                decision = reason
            elif ll.AGREE in gather.attributes:
                decision = _AGREE
            elif any(operand in raw for operand in gather.operands):
                decision = "it takes what `wgmma` left in its registers"
            elif takes_held(gather, held):
                decision = HELD
            else:
                decision = choice.decide(gather)
            if isinstance(decision, str):
                gather.attributes[ll.STOCK] = StringAttr.get(decision, op.context)
                diagnostics.remark(gather, f"gather left to Triton: {decision}")
                if decision != _AGREE:  # such a one is part of a reduction that was taken apart
                    place = str(gather.location), *_types(gather.operands)
                    left.append(DecidedGather(*place, STOCK, decision, function=function_of(gather)))
            else:
                stubs.call(gather, decision)
        pass_.plans.gathers += left
        return None


@dataclass
class _Choice:
    """Decides about gathers of one module."""

    situation: Situation
    warps: int
    table: LayoutTable = field(default_factory=LayoutTable)

    def decide(self, gather: Operation) -> _Way | str:
        """The best way of ours, or why the gather is left to Triton."""
        source, index = gather.operands
        axis = gather.attributes["axis"].value
        layouts = self.table.both(source.type, index.type)
        if isinstance(layouts, str):
            return layouts
        try:
            for value in (source, index):
                element_of(value.type)
        except ValueError as error:
            return str(error)
        reasons: list[str] = []
        best: _Way | None = None
        for way in self.ways(gather, axis, reasons):
            if best is None or self.clocks(way.cost) < self.clocks(best.cost):
                best = way
        if best is None:
            return reasons[0] if reasons else "conversions around it cannot be ours"
        held, asked = layouts
        element = element_of(source.type)
        theirs = stock_cost(held, asked, axis, element, self.situation.gpu, _warps(held))
        staying = self.together(gather, source, index, theirs)
        if staying is not None and self.clocks(staying) < self.clocks(best.cost):
            return (
                f"{best.cost.clocks:.1f} clocks per warp, latency {best.cost.latency:.0f}, against "
                f"{staying.clocks:.1f}, latency {staying.latency:.0f} as Triton has it"
            )
        return best

    def clocks(self, cost: Cost) -> float:
        """What ways are compared by."""
        return cost.expected(self.situation.busy(self.warps))

    def ways(self, gather: Operation, axis: int, reasons: list[str]) -> Iterable[_Way]:
        """The ways of ours; `reasons` gets why others are none."""
        own = gather.operands
        for source, index in itertools.product(*(self.origins(value) for value in own)):
            layouts = self.table.both(source.type, index.type)
            if isinstance(layouts, str):
                continue
            held, asked = layouts
            element = element_of(source.type)
            plan = plan_gather(held, asked, axis, element, self.situation.gpu)
            if isinstance(plan, Rejected):
                reasons.append(plan.reason)
                continue
            cost = cost_of(plan, element, self.situation.gpu, _warps(held))
            whole = self.together(gather, source, index, cost)
            if whole is not None:
                pairs = zip(own, (source, index), strict=True)
                spared = tuple(value.owner.operation for value, mine in pairs if value != mine)
                yield _Way(source, index, spared, plan, whole)

    def origins(self, value: Value) -> list[Value]:
        """An operand, and what it was converted from for this gather alone."""
        made_by = maker(value)
        if made_by is None or made_by.name != CONVERT or len(list(value.uses)) > 1:
            return [value]
        return [value, made_by.operands[0]]

    def together(self, gather: Operation, source: Value, index: Value, cost: Cost) -> Cost | None:
        """`cost` with the conversions around a gather of these values; None where one cannot be told.

        What stands in front of a loop costs little beside what is in it, and nothing here.
        """
        kept = [
            (origins[1].type, own.type)
            for mine, own in zip((source, index), gather.operands, strict=True)
            if mine == own
            and len(origins := self.origins(own)) > 1
            and own.owner.operation.block == gather.block
        ]
        before, after = gather.results[0].type, _result_type(gather, index)
        users = [use.owner.operation for use in gather.results[0].uses]
        kept += [(after, user.results[0].type) for user in users if user.name == CONVERT]
        if before != after and any(user.name != CONVERT for user in users):
            kept.append((after, before))
        return total([cost, *itertools.starmap(self.conversion, kept)])

    def conversion(self, start: Type, end: Type) -> Cost | None:
        """What a conversion costs, if it can be ours."""
        if start == end:
            return Cost()
        sides = self.table.both(start, end)
        if isinstance(sides, str):
            return None
        selection = select(*sides, element_of(start), self.situation)
        return None if selection.plan is None else selection.cost


@dataclass
class _Stubs:
    """The stubs of one module, and the calls of them."""

    declarations: Declarations
    choice: _Choice
    plans: Plans
    known: dict[tuple[Type, Type, int], str] = field(default_factory=dict)

    def call(self, gather: Operation, way: _Way) -> None:
        """Put a call in the place of `gather`."""
        before = gather.results[0]
        type_ = _result_type(gather, way.index)
        symbol = self.symbol(gather, way, type_)
        kind, detail = way.plan.kind, way.plan.summary()
        types = _types((way.source, way.index))
        self.plans.gathers.append(
            DecidedGather(str(gather.location), *types, kind, detail, symbol, function_of(gather))
        )
        attributes = {
            "callee": FlatSymbolRefAttr.get(symbol, gather.context),
            ll.GATHER: UnitAttr.get(gather.context),
        }
        result = made(CALL, [way.source, way.index], type_, gather, gather.location, attributes)
        if type_ != before.type:
            for user in [use.owner.operation for use in before.uses]:
                if user.name == CONVERT and user.results[0].type == type_:
                    user.results[0].replace_all_uses_with(result)
                    user.erase()
                elif user.name == CONVERT:
                    user.operands[0] = result
                    ll.undecide(user)
            if list(before.uses):
                result = made(CONVERT, [result], before.type, gather, gather.location)
        before.replace_all_uses_with(result)
        gather.erase()
        for conversion in way.spared:
            conversion.erase()

    def symbol(self, gather: Operation, way: _Way, result: Type) -> str:
        """The stub for a gather."""
        key = way.source.type, way.index.type, gather.attributes["axis"].value
        if key not in self.known:
            self.known[key] = self.declared(gather, way, result)
        return self.known[key]

    def declared(self, gather: Operation, way: _Way, result: Type) -> str:
        """The name of a new stub for a gather."""
        source, index, axis = way.source.type, way.index.type, gather.attributes["axis"].value
        layouts = self.choice.table.both(source, index)
        assert not isinstance(layouts, str)  # or there were no plan
        held, asked = layouts
        names = [str(type_.element_type) for type_ in (source, index)]
        attributes: dict[str, object] = {
            ll.ELEMENT: StringAttr.get(names[0], gather.context),
            ll.SOURCE: ll.layout_text(held),
            ll.INDEX_ELEMENT: StringAttr.get(names[1], gather.context),
            ll.INDEX: ll.layout_text(asked),
            ll.AXIS: f"{axis} : i32",
        }
        types = [source, index], result
        name = self.declarations.declare(GATHER_PREFIX, len(self.known), types, attributes, gather)
        element, number = map(element_type, names)
        self.plans.stubs[name] = Stub(name, held, asked, element, way.plan, index=Index(axis, number))
        return name


def _result_type(gather: Operation, index: Value) -> Type:
    """The type of the result where `index` is what it goes by."""
    result = gather.results[0].type
    if index.type == gather.operands[1].type:
        return result
    shape, element = list(result.shape), result.element_type
    return RankedTensorType.get(shape, element, index.type.encoding, loc=gather.location)


def _types(values: Iterable[Value]) -> tuple[str, str]:
    source, index = (str(value.type) for value in values)
    return source, index


def _warps(layout: LinearLayout) -> int:
    return layout.in_dim_size(WARP) if layout.has_in_dim(WARP) else 1
