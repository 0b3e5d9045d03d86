"""Leaves a kernel to Triton if nothing of this package would make it faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, StringAttr, UnitAttr
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.baseline.alike import is_alike
from triton_linear.lowering.plan.plans import NoOpPlan
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.passes.analysis.partial import PartialCode
from triton_linear.passes.analysis.residency import buffer_bytes
from triton_linear.passes.framework import diagnostics, provenance
from triton_linear.passes.framework.base import PassRun
from triton_linear.passes.framework.planning import Planning, ctas_of
from triton_linear.passes.framework.verifiers import CONVERT, Verifier, every_conversion_is_decided

ALIKE = "Triton lowers it alike, as all conversions of this kernel"

_ALIGNMENT = 1024
"""The most bytes that a buffer may take besides its own, so that it begins where its layout needs it."""


@dataclass(frozen=True)
class LeaveAlike(Planning):
    """Leaves a kernel to Triton if nothing of this package would make it faster.

    That is so if no pass has changed the kernel, and Triton lowers each of its conversions with as many
    accesses, wavefronts and barriers (`lowering/baseline/alike.py`). Other addresses alone make ptxas order the
    instructions otherwise, which is as often slower as faster. Every conversion with a plan that moves data
    then gets `ll.stock` in place of `ll.plan`, with a remark, and the module gets `ll.alike`. Plans stay

    - in kernels with several CTAs or with warp-specialised regions;
    - where a limit of scratch is asked for, or where shared memory may be too small: Triton's scratch cannot be
      made smaller;
    - with `Policy.leaves_alike` off.

    Requires: every conversion is decided, in the same run; what was planned in another stays as it is.
    Ensures: every conversion is decided.

        %1 = ttg.convert_layout %0 {ll.plan = #ll.plan<"cta-shared", ...>} : #a -> #b
        %1 = ttg.convert_layout %0 {ll.stock = "Triton lowers it alike, ..."} : #a -> #b
    """

    name: ClassVar[str] = "linear-leave-alike"
    summary: ClassVar[str] = "leave a kernel to Triton that would be as fast with this package's code"
    requires: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)
    ensures: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)

    def __call__(self, op: Operation, pass_: PassRun) -> bool | None:
        ops = pass_.operations(op)
        conversions = [inner for inner in ops if inner.name == CONVERT]
        gpu = self.gpu(op, pass_) if conversions else None
        if gpu is None or not gpu.policy.leaves_alike or _is_changed(op, ops, pass_):
            return False
        if self.scratch_limit is not None:
            return False
        if ctas_of(op) > 1 or PartialCode.find(ops).present:
            return False
        moving, scratch = [], 0
        for conversion in conversions:
            plan = pass_.plans.of(conversion)
            if ll.STOCK in conversion.attributes or plan == NoOpPlan():
                continue  # Triton's in any case
            if plan is None:
                return False
            sides = [pass_.layouts.of(value.type) for value in (conversion.operands[0], conversion.results[0])]
            src, dst = (Hardware.of(side) for side in sides if isinstance(side, LinearLayout))
            if not is_alike(plan, src, dst, gpu):
                return False
            moving.append(conversion)
            scratch = max(scratch, plan.scratch_bytes)
        buffers = [buffer_bytes(inner.results[0].type) for inner in ops if inner.name == "ttg.local_alloc"]
        if not all(buffers) or sum(buffers) + _ALIGNMENT * len(buffers) + scratch > gpu.max_shared_bytes:
            return False
        for conversion in moving:
            ll.undecide(conversion)
            conversion.attributes[ll.STOCK] = StringAttr.get(ALIKE, op.context)
            diagnostics.remark(conversion, f"conversion left to Triton: {ALIKE}")
        if moving:
            op.attributes[ll.ALIKE] = UnitAttr.get(op.context)
        return False


def _is_changed(module: Operation, ops: Sequence[Operation], pass_: PassRun) -> bool:
    """True if a pass has changed the module, or will put code of its own in the place of a gather."""
    lowered = pass_.plans.lowered
    return (
        any(mark in module.attributes for mark in ll.CHANGES)
        or any(ll.STAGED in op.attributes or ll.AXIS in op.attributes for op in ops)
        or (lowered is not None and lowered != provenance.numbers(ops))
    )
