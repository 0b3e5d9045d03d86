"""The passes by name."""

from __future__ import annotations

from collections.abc import Mapping

from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.fixes.await_operands import AwaitOperands
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.reductions.defer import DeferReductions
from triton_linear.passes.reductions.split_reductions import SplitReductions
from triton_linear.passes.scheduling.load_ahead import LoadAhead
from triton_linear.passes.scheduling.load_early import LoadEarly
from triton_linear.passes.widening.widen import WidenAccesses

PASSES: Mapping[str, type[Pass]] = {
    "linear-assign-layouts": AssignLayouts,
    "linear-await-operands": AwaitOperands,
    "linear-defer-reductions": DeferReductions,
    "linear-load-ahead": LoadAhead,
    "linear-load-early": LoadEarly,
    "linear-select-lowering": SelectLowering,
    "linear-outline-conversions": OutlineConversions,
    "linear-split-reductions": SplitReductions,
    "linear-widen-accesses": WidenAccesses,
}
