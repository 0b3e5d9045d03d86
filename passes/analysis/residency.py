"""How many warps a multiprocessor holds while a kernel converts, by which plans are priced.

Many warps wait for the pipes, few for the latency of their own instructions. How many there are is not known
before `ptxas` has run, so it is taken to be

- in kernels with a large tensor: those of one CTA (`Policy.large_tensor`, `framework.planning`);
- in kernels that go through a sequence with a state (`recurrence`): likewise (`Policy.state_warps`);
- in kernels with warp-specialised regions, whose warps have work of their own: the warps of the conversion's
  region, in as many CTAs as find registers and shared memory;
- elsewhere: `Policy.likely_warps`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Operation, Type
from triton_linear.dialect.partitions import WARP_SPECIALIZE, partition_warps, warp_counts
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target, target, with_policy
from triton_linear.passes.analysis.recurrence import carries_state
from triton_linear.passes.framework.layouts import LayoutTable, memory_of, words_of

_WARP_GROUP = 4
"""Triton rounds the warps of all partitions together up to a multiple of this."""
_REQUESTED = "requestedRegisters"
_MOST = "ttg.maxnreg"


@dataclass(frozen=True, slots=True)
class Residency:
    """The GPU by which plans for a kernel are priced.

    ctas: how many a multiprocessor is taken to hold if the kernel has warp-specialised regions, else None.
    own_warps: the warps of a CTA outside of its partitions.
    """

    gpu: Target
    ctas: int | None
    own_warps: int

    @staticmethod
    def of(gpu: Target, ops: Sequence[Operation], own_warps: int, table: LayoutTable) -> Residency:
        """That of the kernel with these operations."""
        policy, specialised = gpu.policy, [op for op in ops if op.name == WARP_SPECIALIZE]
        if specialised and policy.region_scratch_bytes < policy.warp_scratch_bytes:
            gpu = target(with_policy(gpu, warp_scratch_bytes=policy.region_scratch_bytes).spelled)
        if policy.state_warps < gpu.likely_warps and carries_state(ops):
            return Residency(_priced_for(gpu, policy.state_warps), None, own_warps)
        if not specialised or not policy.counts_ctas_of_regions:
            return Residency(gpu, None, own_warps)
        return Residency(gpu, _ctas(gpu, ops, specialised, own_warps, table), own_warps)

    def gpu_for(self, conversion: Operation) -> Target:
        """The GPU by which plans for a conversion are priced."""
        if self.ctas is None:
            return self.gpu
        return _priced_for(self.gpu, self.ctas * (partition_warps(conversion) or self.own_warps))


def _priced_for(gpu: Target, warps: int) -> Target:
    return gpu if warps == gpu.likely_warps else target(with_policy(gpu, likely_warps=warps).spelled)


def _ctas(
    gpu: Target, ops: Sequence[Operation], specialised: Sequence[Operation], own_warps: int, table: LayoutTable
) -> int:
    """CTAs of a kernel with regions that find registers and shared memory on a multiprocessor; at least 1.

    A region that requests registers has the kernel take all of them (`setmaxnreg`). Buffers in shared memory
    may take turns with the same bytes, which is not looked at.
    """
    inside = max(sum(warp_counts(op)) for op in specialised)
    warps = own_warps + -(-inside // _WARP_GROUP) * _WARP_GROUP
    if any(_REQUESTED in op.attributes for op in specialised):
        return 1
    converted = [op for op in ops if op.name == "ttg.convert_layout"]
    words = max((_words_on_both_sides(op, table) for op in converted), default=0)
    registers = max(gpu.policy.likely_registers, words + gpu.policy.registers_beside)
    memory = sum(_bytes(op.results[0].type) for op in ops if op.name == "ttg.local_alloc")
    whole = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    return max(
        1,
        min(
            gpu.resident_warps // warps,
            gpu.registers // (registers * gpu.lanes * warps),
            whole // (memory + gpu.reserved_shared_bytes) if memory else gpu.resident_warps,
        ),
    )


def _words_on_both_sides(conversion: Operation, table: LayoutTable) -> int:
    return words_of(conversion.operands[0].type, table) + words_of(conversion.results[0].type, table)


def _bytes(type_: Type) -> int:
    """Bytes of a buffer, without padding; 0 if its elements are not known."""
    described = memory_of(type_)
    if described is None:
        return 0
    shape, element, _ = described
    try:
        return math.prod(shape) * element_type(element).bits // 8
    except ValueError:
        return 0
