"""Passes of upstream MLIR that TTGIR may go through, by name.

The bindings take any pass that upstream registers, but cannot list them: these are those that do something to
any module, whatever its dialects are. What they know of operations is what upstream's own dialects say
(`DIALECTS`); Triton's operations stay opaque to them.
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
"""The passes, each in a line."""

DIALECTS: Final = ("arith", "cf", "math", "scf", "ub")
"""The dialects in TTGIR that are upstream's, but for those of which a release of Triton prints what upstream's
bindings cannot read: `gpu`."""
