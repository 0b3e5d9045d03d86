"""Takes reductions across warps apart, so that what goes between them is a conversion."""

from __future__ import annotations

from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    InsertionPoint,
    Module,
    Operation,
    RankedTensorType,
    Value,
)
from triton_linear.dialect.partitions import partition_warps
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, REDUCTIONS_CONVERT, Release
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis import weights
from triton_linear.passes.analysis.flow import is_used
from triton_linear.passes.analysis.partial import CALLS, PartialCode
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.planning import NUM_WARPS, UNORDERED, Planning, ctas_of, exact_field
from triton_linear.passes.operations.names import CONVERT, REDUCE
from triton_linear.passes.reductions import proof
from triton_linear.passes.reductions.held import UNORDERED_BITS, KeptBits, takes_held
from triton_linear.passes.reductions.region import commutes, must_stay
from triton_linear.passes.reductions.rewrite import ReductionWriter, converted
from triton_linear.passes.reductions.split import Split, split
from triton_linear.passes.reductions.ways import Asked, Choice, choose, without_copies


def spares_memory(module: Module, target: Target) -> bool:
    """Whether scratch of a module, after the pass, is to take no more memory where that would save barriers."""
    return target.policy.spares_shared_memory and ll.SPLIT in module.operation.attributes


@dataclass(frozen=True)
class SplitReductions(Planning):
    """Takes reductions across warps apart, so that what goes between them is a conversion.

    Triton reduces within warps, leaves what each warp has in shared memory, lets some threads combine that by
    shuffles and leave it there again, and loads the result: two trips and two barriers. Here each warp's part
    of the axis becomes dimensions of their own, which moves nothing; the partial results are converted to a
    layout that has those dimensions in registers, or in lanes, and reduced there. That is one trip with one
    barrier, which `linear-select-lowering` plans. Where results are only wanted in another layout, partial
    results are converted to one that reduces to it. It is done where the model has it cost less.

    In a warp-specialised region the warps are those of the partition. Where an axis lies across the CTAs of a
    cluster, the reduction is left as it is.

    Requires: nothing. Reductions stay where the conversion would be Triton's: beside both regions and calls.
    Ensures: each result combines what it did, in the same order (see `reductions.proof`). A module that changed
    has `ll.split`, the modelled clocks of what was rewritten, before and after.

        %1 = "tt.reduce"(%0) <{axis = 1}> : 16x64 -> 16          where warps lie along dimension 1
        %1 = tt.reshape %0 : 16x64 -> 16x2x2x16 ; %2 = "tt.reduce"(%1) <{axis = 3}>
        %3 = ttg.convert_layout %2 ; %4 = "tt.reduce"(%3) <{axis = 1}> ; %5 = "tt.reduce"(%4) <{axis = 1}>
    """

    name: ClassVar[str] = "linear-split-reductions"
    summary: ClassVar[str] = "reduce within warps, then convert what the warps have, and reduce that"

    exact: bool = exact_field()

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        situation = self.situation(op, pass_)
        if situation is None:
            return False
        ops = pass_.operations(op)
        reductions = [inner for inner in ops if inner.name == REDUCE]
        if not reductions or NUM_WARPS not in op.attributes:
            return False
        warps, partial = op.attributes[NUM_WARPS].value, PartialCode.find(ops)
        run = _Run(situation, warps, ctas_of(op), partial, pass_.layouts)
        kept = KeptBits.of(op, pass_, exact=self.exact)
        run.stay = frozenset(
            each for each in reductions if kept.shows_order(each) or takes_held(each, kept.held)
        )
        for reduction in reductions:
            run.visit(reduction)
        if run.done:
            before, after = run.before, run.after
            op.attributes[ll.SPLIT] = Attribute.parse(f"[{before:.1f}, {after:.1f}]", op.context)
        return bool(run.done)


@dataclass
class _Run:
    """One run over a module: what was rewritten, and its clocks before and after."""

    situation: Situation
    warps: int
    ctas: int
    partial: PartialCode
    table: LayoutTable
    stay: frozenset[Operation] = frozenset()
    """Reductions that give other bits in another order."""
    done: int = 0
    before: float = 0.0
    after: float = 0.0

    def visit(self, op: Operation) -> None:
        """Rewrite a reduction, if it pays."""
        layout = self._layout(op.operands[0])
        if layout is None or len(set(op.operands)) < len(op.operands):
            return
        found = split(layout, op.attributes["axis"].value, self.situation.release)
        if isinstance(found, str):
            return
        if op in self.stay:
            diagnostics.remark(op, f"the reduction stays as it is: {UNORDERED_BITS}")
            return
        if (reason := self._not_ours(op)) is not None:
            diagnostics.remark(op, f"the reduction stays as it is: {reason}")
            return
        warps = partition_warps(op) or self.warps
        choice = self._choose(op, layout, found, warps)
        if isinstance(choice, str):
            diagnostics.remark(op, f"the reduction stays as it is: {choice}")
            return
        busy = self.situation.busy(warps)
        before, after = (clocks.expected(busy) for clocks in (choice.before, choice.after))
        least = after / (1 - self.situation.gpu.policy.margin)
        if least >= before and not _is_wrong(op, found, self.situation.release):
            diagnostics.remark(
                op, f"the reduction stays as it is: {before:.1f} clocks, and {after:.1f} if it is split"
            )
            return
        packed = sum(len(set(pack)) for pack in choice.way.packs if len(pack) > 1)
        together = f", {packed} operands together" if packed else ""
        diagnostics.remark(
            op,
            f"the reduction is split: results of {1 << found.crossing} warps converted{together}; "
            f"{before:.1f} clocks before, {after:.1f} after",
        )
        self._rewrite(op, found, choice)
        self.done, self.before, self.after = self.done + 1, self.before + before, self.after + after

    def _not_ours(self, op: Operation) -> str | None:
        """Why the conversion that a reduction would leave could not be ours."""
        if (reason := self.partial.reason(op, self.situation.gpu)) is not None:
            return reason
        if self.partial.calls:
            return CALLS
        if self.ctas > 1 and self.situation.release not in CLUSTERS_ORDERED:
            return UNORDERED.format(self.ctas)
        return None

    def _layout(self, value: Value) -> LinearLayout | None:
        layout = self.table.of(value.type)
        return layout if isinstance(layout, LinearLayout) else None

    def _choose(self, op: Operation, layout: LinearLayout, found: Split, warps: int) -> Choice | str:
        try:
            elements = tuple(element_of(operand.type) for operand in op.operands)
        except ValueError as error:
            return str(error)
        if reason := _unfit(op, layout, self.situation.release):
            return reason
        own = without_copies(transfer.reduce(layout, found.axis))
        wanted = tuple(tuple(self._wanted(result, own, op)) for result in op.results)
        asked = Asked(elements, wanted, own, weights.of_region(op, self.situation.gpu.costs), commutes(op))
        return choose(layout, found, asked, self.situation, warps)

    def _wanted(self, result: Value, own: LinearLayout, op: Operation) -> list[LinearLayout]:
        """The layouts in which a result is taken, its own first."""
        if not isinstance(result.type, RankedTensorType):
            return [own]
        found: dict[LinearLayout, None] = {}
        for use in result.uses:
            user = use.owner.operation
            layout = self._layout(user.results[0]) if _converts_beside(user, op) else None
            found[own if layout is None else without_copies(layout)] = None
        return sorted(found, key=lambda layout: layout != own)

    def _rewrite(self, op: Operation, found: Split, choice: Choice) -> None:
        results = ReductionWriter(op).write(found, choice.way)
        proof.check(op, results)
        for old, new in zip(op.results, results, strict=True):
            self._take(old, new, op)
        op.erase()

    def _take(self, old: Value, new: Value, op: Operation) -> None:
        """Let those who take a result take the new one: conversions as it is, others in its old type."""
        if not isinstance(old.type, RankedTensorType):
            old.replace_all_uses_with(new)
            return
        for user in [use.owner.operation for use in old.uses]:
            if _converts_beside(user, op):
                user.operands[0] = new
        if is_used(old):
            old.replace_all_uses_with(converted(new, old.type, InsertionPoint(op), op.location))


def _is_wrong(op: Operation, found: Split, release: Release) -> bool:
    """Whether Triton's lowering may reduce wrongly: before 3.8 it takes the lanes along the axis for one run of
    bits, and puts the warps along it in an order that it has to guess for a `#ttg.linear` encoding."""
    if release in REDUCTIONS_CONVERT:
        return False
    return found.inside > 1 or "#ttg.linear" in str(op.operands[0].type.encoding)


def _unfit(op: Operation, layout: LinearLayout, release: Release) -> str | None:
    """What this release of Triton has in its way, None if nothing."""
    if reason := must_stay(op, release):
        return reason
    type_ = op.operands[0].type
    written = layout_of(str(type_.encoding), tuple(type_.shape))
    if written.in_dim_size(REGISTER) != layout.in_dim_size(REGISTER):
        return "its encoding has registers for copies, which this Triton wants where it reshapes"
    return None


def _converts_beside(user: Operation, op: Operation) -> bool:
    """Whether an operation converts a result of another, as often as that gives it."""
    return bool(user.name == CONVERT and user.block == op.block)
