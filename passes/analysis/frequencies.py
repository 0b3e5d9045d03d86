"""How often the operations of a function run: the product of the trip counts of the loops around them."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Block, Operation
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.operations.names import FOR, FUNCTION, MODULE


class Frequencies:
    """How often each block of a module runs if its function is called once. Branches count as taken; loops
    whose bounds are not constant count `unknown_trips` iterations."""

    def __init__(self, axis: AxisAnalysis, unknown_trips: int) -> None:
        self._axis = axis
        self._unknown_trips = unknown_trips
        self._known: dict[Block, float] = {}

    def of(self, block: Block) -> float:
        """How often the operations of `block` run."""
        known = self._known.get(block)
        if known is None:
            owner = block.owner.operation
            known = 1.0
            if owner.name not in (MODULE, FUNCTION):
                known = self.of(owner.block)
                if owner.name == FOR:
                    known *= self._trips(owner)
            self._known[block] = known
        return known

    def _trips(self, loop: Operation) -> float:
        low, high, step = (self._axis.of(loop.operands[i]).constant for i in range(3))
        if low is None or high is None or not step:
            return self._unknown_trips
        return float(max(0, -((low - high) // step)))
