"""Which operations a load from global memory may come before, and which exchange data between warps."""

from __future__ import annotations

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.plan.plans import meets_warps
from triton_linear.passes.framework.base import PassRun
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import computes, facts, is_volatile


def lets_pass(op: Operation) -> bool:
    """True if a load may come before an operation that comes before it in the block."""
    if op.name == names.LOAD:
        return not is_volatile(op)
    return facts(op).loads_pass or computes(op)


def is_exchange(op: Operation, looped: bool, pass_: PassRun) -> bool:
    """True if an operation that has a barrier, or may have one, is worth a load in front of it. `looped`: it is
    in the body of a loop."""
    if op.name == names.CONVERT and (looped or ll.PARTIALS not in op.attributes):
        plan = pass_.plans.of(op)
        return plan is None or meets_warps(plan)
    if op.name in names.COMBINING and looped:
        layout, axis = pass_.layouts.of(op.operands[0].type), op.attributes["axis"].value
        return not isinstance(layout, LinearLayout) or any(basis[axis] for basis in dict(layout.bases)[WARP])
    return op.name == names.GATHER or (looped and op.name in names.LOCAL_ACCESSES)
