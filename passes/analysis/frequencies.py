"""How often the operations of a function run: the turns of the loops around them."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Block, Operation
from triton_linear.passes.assignment.axis import AxisAnalysis

ESTIMATED_TRIPS = 8
"""Turns of a loop whose bounds are not constant."""


class Frequencies:
    """How often each block of a module runs when its function is called once; branches count as taken."""

    def __init__(self, axis: AxisAnalysis) -> None:
        self._axis = axis
        self._known: dict[Block, float] = {}

    def of(self, block: Block) -> float:
        """How often the operations of `block` run."""
        known = self._known.get(block)
        if known is None:
            owner = block.owner.operation
            known = 1.0
            if owner.name not in ("builtin.module", "tt.func"):
                known = self.of(owner.block)
                if owner.name == "scf.for":
                    known *= _trips(owner, self._axis)
            self._known[block] = known
        return known


def _trips(loop: Operation, axis: AxisAnalysis) -> float:
    low, high, step = (axis.of(loop.operands[i]).constant for i in range(3))
    if low is None or high is None or not step:
        return ESTIMATED_TRIPS
    return float(max(0, -((low - high) // step)))
