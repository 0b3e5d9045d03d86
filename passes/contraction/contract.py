"""Puts axes that dots contract in an order that spares conversions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, UnitAttr, Value, operations
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.frequencies import Frequencies
from triton_linear.passes.contraction import proof
from triton_linear.passes.contraction.accesses import dearer
from triton_linear.passes.contraction.order import Order, aligning, inverse, reordered_layout
from triton_linear.passes.contraction.region import ModuleIndex, Region, Stuck
from triton_linear.passes.contraction.rewrite import Permuter
from triton_linear.passes.contraction.ties import extents
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.planning import Planning, unfit, warps_of
from triton_linear.passes.operations.names import CONVERT, DOTS, REDUCE
from triton_linear.passes.reductions.held import UNORDERED_BITS, KeptBits


@dataclass(frozen=True)
class PermuteContraction(Planning):
    """Puts axes that dots contract in an order that spares conversions.

    The product of a dot is a sum over k, in any order. A matrix instruction leaves its result where the next
    does not want its operand: with 8-bit elements a thread has two neighbours along k and needs four. Instead
    of exchanging elements between threads, what they stand for is exchanged: the columns of the first product
    are computed in another order, by loading the rows of its operand in it, and a change of shape, which moves
    nothing, puts them in order for the second. Or the rows of the other operand are loaded in the order in
    which a thread has its elements.

    Requires: one CTA a cluster, no warp-specialised regions; other modules are left as they are.
    Ensures: the module computes what it did (see `contraction.proof`); a sum of floats may add in another
    order, unless its bits have to stay (`reductions/held.py`). A module that changed has `ll.permuted`.
    """

    name: ClassVar[str] = "linear-permute-contraction"
    summary: ClassVar[str] = "put axes that dots contract in an order that spares conversions"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        situation = self.situation(op, pass_)
        if situation is None:
            return False
        ops = pass_.operations(op)
        if not any(inner.name in DOTS for inner in ops) or unfit(op, ops):
            return False
        candidates = contracted(ops)
        done: set[Operation] = set()
        search = None
        for conversion in list(candidates):
            if conversion in done:
                continue
            search = search or _Search(
                op,
                operations(op) if done else ops,
                situation,
                pass_.layouts,
                KeptBits.of(op, pass_, exact=False),
            )
            if changed := search.improve(conversion):
                done.update(changed)
                search = None  # what it knows is of the module as it was
        return bool(done)


def contracted(ops: list[Operation]) -> dict[Operation, int]:
    """Conversions whose result is an operand of a dot, with the axis that the dot contracts."""
    producers = {op.results[0]: op for op in ops if op.name == CONVERT}
    found: dict[Operation, int] = {}
    for op in ops:
        if op.name in DOTS:
            for index in (0, 1):
                operand = op.operands[index]
                if operand in producers:
                    found[producers[operand]] = len(operand.type.shape) - 1 - index
    return found


def _results(ends: Mapping[Operation, int]) -> Iterator[tuple[Value, int]]:
    """The results of conversions, each with its axis."""
    return ((end.results[0], axis) for end, axis in ends.items())


@dataclass
class _Plan:
    """A way to go: what is put in which order, and clocks that it takes. `start`: the conversion behind which
    it begins, None if it ends at it."""

    region: Region
    order: Order
    before: float
    after: float
    start: Operation | None


@dataclass
class _Search:
    """Looks for an order that spares one conversion of a module, and applies it."""

    root: Operation
    ops: list[Operation]
    situation: Situation
    table: LayoutTable
    kept: KeptBits

    def __post_init__(self) -> None:
        self.module = ModuleIndex(self.ops)
        self.axis = AxisAnalysis(self.module.producers)
        self.frequencies = Frequencies(self.axis, self.situation.gpu.policy.unknown_trips)
        self.candidates = contracted(self.ops)
        self.busy = self.situation.busy(warps_of(self.root))

    def improve(self, conversion: Operation) -> list[Operation]:
        """Spare a conversion if that pays; gives the conversions that have been dealt with."""
        axis = self.candidates[conversion]
        layouts = self._layouts(conversion)
        order = None if isinstance(layouts, str) else aligning(*layouts, axis)
        if order is None:
            return []
        plans, reasons = [], []
        for forward in (False, True):
            try:
                plans.append(self._plan(conversion, axis, order, forward))
            except Stuck as stuck:
                reasons.append(f"{'behind' if forward else 'before'} it {stuck}")
        plan = min(plans, key=lambda plan: plan.after, default=None)
        size = "x".join(map(str, extents(conversion.results[0].type)))
        if plan is None or plan.after >= plan.before:
            why = (
                "; ".join(reasons) if plan is None else f"{plan.after:.1f} clocks instead of {plan.before:.1f}"
            )
            diagnostics.remark(conversion, f"the contracted axis of {size} stays in order: {why}")
            return []
        self._apply(plan)
        diagnostics.remark(
            conversion,
            f"the contracted axis of {size} is put in another order: its bits {list(plan.order)}; "
            f"{plan.before:.1f} clocks before, {plan.after:.1f} after",
        )
        return [conversion, *plan.region.ends]

    def _layouts(self, conversion: Operation) -> tuple[LinearLayout, LinearLayout] | str:
        return self.table.both(conversion.operands[0].type, conversion.results[0].type)

    def _clocks(self, conversion: Operation, order: Order | None, axis: int) -> float:
        """What a conversion costs if its operand is put in an order before; 0 where that is not known."""
        layouts = self._layouts(conversion)
        if isinstance(layouts, str):
            return 0.0
        source, wanted = layouts
        if order is not None:
            source = reordered_layout(source, axis, order)
        if source == wanted:
            return 0.0
        element = element_of(conversion.operands[0].type)
        selection = select(source, wanted, element, self.situation)
        if selection.plan is None:
            return 0.0
        return selection.cost.expected(self.busy) * self.frequencies.of(conversion.block)

    def _plan(self, conversion: Operation, axis: int, order: Order, forward: bool) -> _Plan:
        """What follows from putting the axis in order behind a conversion, or before it; Stuck if it cannot."""
        region = Region(self.module, self.candidates)
        side = conversion.results[0] if forward else conversion.operands[0]
        region.grow(side, axis, forward=forward)
        other = conversion.operands[0] if forward else conversion.results[0]
        if other in region.changed or (forward and conversion in region.ends):
            raise Stuck("both sides of it would be in the order")
        inside = inverse(order) if forward else order
        if not forward and conversion not in region.ends:
            region.ends.append(conversion)
        ends = {end: self.candidates[end] for end in region.ends}
        before = sum(self._clocks(end, None, along) for end, along in ends.items())
        after = sum(self._clocks(end, inside, along) for end, along in ends.items())
        if forward:
            before += self._clocks(conversion, None, axis)
            after += self._clocks(conversion, order, axis)
        for end, along in ends.items():
            value = end.operands[0]
            if region.changed.get(value, region.twins.get(value)) != along:
                raise Stuck("a conversion is of another axis")
        places = {**region.changed, **region.twins}
        for value in places:
            maker = self.module.producers.get(value)
            if maker is not None and any(promise in maker.attributes for promise in HINTS):
                raise Stuck(f"what '{maker.name}' promises of neighbours would not hold")
        if any(self._shows_order(value, along) for value, along in (*places.items(), *_results(ends))):
            raise Stuck(f"what adds along it stays as it is: {UNORDERED_BITS}")
        dearer_by = dearer(self.ops, places, inside, self.axis, self.frequencies, self.situation.gpu.memory)
        more = max(0.0, dearer_by * self.busy)
        return _Plan(region, inside, before, after + more, conversion if forward else None)

    def _shows_order(self, value: Value, axis: int) -> bool:
        """True if a sum along an axis of a value gives other bits in another order, and they have to stay."""
        return any(
            self.kept.shows_order(user)
            for user in self.module.users.get(value, ())
            if (user.name == REDUCE and user.attributes["axis"].value == axis)
            or (user.name in DOTS and axis == len(extents(value.type)) - 1 - list(user.operands).index(value))
        )

    def _apply(self, plan: _Plan) -> None:
        """Rewrite the module, and prove it."""
        numbering = Numbering()
        permuter = Permuter(plan.region, plan.order)
        with numbering.same(self.root, "another order"):
            permuter.run()
            for end in plan.region.ends:
                permuter.reorder(end, self.candidates[end], plan.order)
            if plan.start is not None:
                permuter.reorder(plan.start, self.candidates[plan.start], inverse(plan.order), begins=True)
            permuter.sweep()
            ops = operations(self.root)
            numbering.erased = proof.check(ops, plan.order, permuter.claims, permuter.erased)
        self.root.attributes[ll.PERMUTED] = UnitAttr.get(self.root.context)
