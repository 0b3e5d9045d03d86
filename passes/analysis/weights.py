"""Clocks of an SM that one warp takes for an elementwise operation on one register of each lane.

Those of the table of operations, beside additions and multiplications of 32-bit floats, whose rate
`Costs.float_alu` has from the CUDA programming guide.
"""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.target.targets import InstructionCosts
from triton_linear.passes.operations.names import CONSTANT
from triton_linear.passes.operations.table import named


def of(op: Operation, bits: int, costs: InstructionCosts) -> float:
    """Clocks of an operation on one register of each lane; its widest element has `bits` bits."""
    known = named(op.name)
    if known.divides:
        return (2.5 if _is_by_constant(op) else 6.0) * (7.0 if bits > 32 else 1.0)
    return (costs.float_alu if known.clocks is None else known.clocks) * (2.0 if bits > 32 else 1.0)


def _is_by_constant(op: Operation) -> bool:
    owner = op.operands[1].owner
    return not hasattr(owner, "arguments") and getattr(owner, "name", "") == CONSTANT


def of_region(op: Operation, costs: InstructionCosts) -> float:
    """Clocks that the region of a reduction takes to combine two elements."""
    inside = (view.operation for region in op.regions for block in region.blocks for view in block.operations)
    return sum(of(inner, 32, costs) for inner in inside if inner.name.startswith(("arith.", "math.")))
