"""The one pipeline: the passes between Triton's TTGIR and the code of this package, in their order.

`pipeline` gives the passes; `rewrite` runs them. The plugin, `triton-linear-opt --linear-pipeline`, `verify`,
`demo`, `explain`, `fuzz` and the benches all take them from here, so they all run the same passes.
`PipelineOptions` leaves passes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import Stub
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.writes import Pair, early
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import stubs_of
from triton_linear.passes.fixes.await_operands import AwaitOperands
from triton_linear.passes.framework import provenance
from triton_linear.passes.framework.base import Pass, Walk
from triton_linear.passes.framework.planning import function_of
from triton_linear.passes.framework.plans import STOCK, DecidedConversion, Plans
from triton_linear.passes.framework.run import PipelineRun, run_passes
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions.defer import DeferReductions
from triton_linear.passes.reductions.split_reductions import SplitReductions, spares_memory
from triton_linear.passes.scheduling.load_ahead import LoadAhead
from triton_linear.passes.scheduling.load_early import LoadEarly
from triton_linear.passes.widening.widen import WidenAccesses


def pipeline(options: PipelineOptions, target: str | None) -> list[Pass]:
    """The passes in the order in which they run.

    `target`: the GPU to plan for; None: the one that the module names.
    """
    limit, exact = options.scratch_limit, options.exact
    passes: list[Pass] = [AwaitOperands()]
    if options.splits_reductions:
        passes.append(DeferReductions(exact))
    if options.chooses_layouts:
        passes.append(AssignLayouts(target, limit, split_reductions=options.splits_reductions, exact=exact))
    if options.splits_reductions:
        passes.append(SplitReductions(target, limit, exact))
    if options.lower:
        passes.append(SelectLowering(target, limit, exact))
    if options.assign:
        passes.append(LoadAhead(target, options.distinct))
    if options.chooses_layouts:
        passes.append(LoadEarly(options.distinct))
    if options.lower:
        passes.append(OutlineConversions())
    if options.chooses_layouts:
        passes.append(WidenAccesses())
    return [each for each in passes if each.name != options.without]


_LOWERING_IS_OFF = "conversions are not lowered (lower=False)"


@dataclass(frozen=True)
class Rewritten:
    """A module after the pipeline.

    run: plans, remarks and errors of the passes.
    stubs: what each outlined function computes, by its name; every plan is proved.
    conversions: how each of them is lowered, in the order of the module.
    changed: True if the passes changed layouts, reductions or accesses.
    seen: number of conversions before the pipeline. avoided: how many of these the assignment of layouts
    removed.
    awaited: True if waits were added for dots whose operands Triton overwrites while the dots read them.
    distinct: the arguments of the kernel that must not lead to one memory, in pairs (`Writes.passed`).
    spares_memory: True if scratch must not grow in order to save barriers.
    """

    run: PipelineRun
    stubs: Mapping[str, Stub] = field(default_factory=dict)
    conversions: tuple[DecidedConversion, ...] = ()
    changed: bool = False
    seen: int = 0
    avoided: int = 0
    awaited: bool = False
    distinct: tuple[Pair, ...] = ()
    spares_memory: bool = False


class PassFailure(Exception):
    """A pass failed; the message holds its diagnostics."""


def rewrite(
    module: Module, options: PipelineOptions, target: Target, *, verify: bool = False, remarks: bool = True
) -> Rewritten:
    """Run the pipeline over `module`, in place, for `target`.

    `verify`: check what passes require and ensure. `remarks`: compose remarks, which takes time.

    Raises PassFailure with the diagnostics if a pass fails.
    """
    walk = Walk(ops := operations(module.operation))
    seen = provenance.number(ops)
    passes = pipeline(options, target.spelled)
    done = run_passes(module, passes, verify=verify, remarks=remarks, walk=walk)
    if not done.succeeded:
        raise PassFailure(done.errors)
    ops = walk.found or operations(module.operation)
    if not options.lower:
        _leave_conversions_to_triton(ops, done.plans)
    return rewritten(module, done, target, seen, ops)


def rewritten(
    module: Module, done: PipelineRun, target: Target, seen: int = 0, known: Sequence[Operation] = ()
) -> Rewritten:
    """The record of a run of the passes that succeeded on `module`, which had `seen` conversions before. known:
    its operations, if they are known."""
    attributes = module.operation.attributes
    ops = known or operations(module.operation)
    lowered = done.plans.lowered
    provenance.forget(ops)
    return Rewritten(
        done,
        stubs_of(ops, target, done.plans),
        tuple(done.plans.conversions),
        any(mark in attributes for mark in ll.CHANGES),
        seen,
        0 if lowered is None else seen - len(lowered),
        ll.AWAITED in attributes,
        early(module.operation),
        spares_memory(module, target),
    )


def _leave_conversions_to_triton(ops: Sequence[Operation], plans: Plans) -> None:
    """Record for each conversion that Triton lowers it."""
    plans.lowered = provenance.numbers(ops)
    own = set[int]()
    for op in ops:
        if op.name == CONVERT:
            made = not provenance.claim(op, own)
            types = str(op.operands[0].type), str(op.results[0].type)
            plans.conversions.append(
                DecidedConversion(
                    str(op.location), *types, STOCK, _LOWERING_IS_OFF, function=function_of(op), made=made
                )
            )
