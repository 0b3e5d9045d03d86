"""Passes of upstream MLIR that can run on TTGIR, by name.

The Python bindings accept any pass that upstream registers, but cannot list the passes. These are the ones that
work on modules of any dialects. They know the operations of upstream's dialects (`DIALECTS`) only; Triton's
operations are opaque to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
