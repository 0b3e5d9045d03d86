"""The passes by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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


UPSTREAM: Final[Mapping[str, str]] = {
    "canonicalize": "fold operations of upstream's dialects, and drop dead ones",
    "control-flow-sink": "move operations into the only branch that uses them",
    "cse": "keep one of equal operations",
    "int-range-optimizations": "fold what ranges of integers decide",
    "loop-invariant-code-motion": "move what does not change in a loop before it",
    "print-op-stats": "count the operations of each kind, to the standard error",
    "sccp": "propagate constants through branches and loops",
    "strip-debuginfo": "forget all locations",
    "topological-sort": "order operations by their operands",
}
"""The passes, each with a summary in one line."""

DIALECTS: Final = ("arith", "cf", "math", "scf", "ub")
"""The upstream dialects in TTGIR. `gpu` is left out: some releases of Triton print operations of it that
upstream's bindings cannot read."""
