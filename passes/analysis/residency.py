"""How many warps are resident on a multiprocessor while a kernel converts; plans are priced for this number.

Many resident warps are limited by the throughput of the pipes, few by the latency of their own instructions.
The number is not known before `ptxas` has run, so it is assumed to be

- in kernels with a large tensor and no regions: the warps of one CTA (`Policy.large_tensor`,
  `framework.planning`);
- in kernels with a recurrence (`carries_state`): `Policy.state_warps`;
- in kernels with warp-specialised regions, whose other warps do other work: the warps of the conversion's
  region, in as many CTAs as registers and shared memory allow;
- in all other kernels: `Policy.likely_warps`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Type, Value
from triton_linear.dialect.partitions import WARP_SPECIALIZE, partition_warps, warps_of_partitions
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.conversion import conversion as between_layouts
from triton_linear.lowering.planners.select import plan_registers
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.framework.layouts import LayoutTable, memory_of, words_of
from triton_linear.passes.operations import names
from triton_linear.passes.operations.names import CONVERT, LOCAL_ALLOC

_READS = frozenset(
    {names.STORE, names.ATOMIC, names.REDUCE, "tt.descriptor_store", names.LOCAL_ALLOC, names.LOCAL_STORE}
)
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def carries_state(ops: Sequence[Operation]) -> bool:
    """True if a loop among these operations reads, in each iteration, a tensor of floats that it carries: its
    state. Iterations cannot run in different CTAs then, so such kernels have few CTAs: a warp waits for its own
    conversions, and few other warps hide the latency. The accumulator of a dot is carried too, but nothing
    reads it before the loop ends.

    Tensors of one dimension do not count: the sums and maxima of a softmax, carried with an accumulator, are
    such.
    """
    return any(_reads_its_state(op) for op in ops if op.name == names.FOR)


def _reads_its_state(loop: Operation) -> bool:
    body = loop.regions[0].blocks[0]
    return any(_is_read(argument) for argument in list(body.arguments)[1:] if _may_be_state(argument))


def _may_be_state(value: Value) -> bool:
    type_ = value.type
    if not isinstance(type_, RankedTensorType) or type_.rank < 2:
        return False
    return str(type_.element_type) in _FLOATS


def _is_read(state: Value) -> bool:
    """True if a block argument, or a value computed from it, is read in its block."""
    seen, pending = {state}, [state]
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.owner.operation
            if user.block != state.owner:
                continue
            if user.name in _READS or (user.name in names.DOTS and value in list(user.operands)[:2]):
                return True
            results = list(user.results)
            if user.name == names.WARP_GROUP_WAIT:  # result i is operand i
                results = results[use.operand_number : use.operand_number + 1]
            following = [result for result in results if result not in seen]
            seen.update(following)
            pending += following
    return False


_WARP_GROUP = 4
"""Triton rounds the total number of warps of all partitions up to a multiple of this."""
_REQUESTED = "requestedRegisters"


@dataclass(frozen=True, slots=True)
class Residency:
    """The situation of a kernel's conversions.

    ctas: the assumed number of resident CTAs if the kernel has warp-specialised regions, else None. own_warps:
    the warps of a CTA outside of its partitions.
    """

    situation: Situation
    ctas: int | None
    own_warps: int

    @staticmethod
    def of(situation: Situation, ops: Sequence[Operation], own_warps: int, table: LayoutTable) -> Residency:
        """The residency of the kernel with these operations."""
        few = situation.gpu.policy.state_warps
        if few < situation.resident_warps and carries_state(ops):
            return Residency(situation.with_warps(few), None, own_warps)
        specialised = [op for op in ops if op.name == WARP_SPECIALIZE]
        ctas = _resident_ctas(situation.gpu, ops, specialised, own_warps, table) if specialised else None
        return Residency(situation, ctas, own_warps)

    def at(self, conversion: Operation) -> Situation:
        """The situation of one conversion."""
        return self.in_region(partition_warps(conversion) or self.own_warps)

    def in_region(self, warps: int) -> Situation:
        """The situation in a region of `warps` warps."""
        return self.situation if self.ctas is None else self.situation.with_warps(self.ctas * warps)


def _resident_ctas(
    gpu: Target, ops: Sequence[Operation], specialised: Sequence[Operation], own_warps: int, table: LayoutTable
) -> int:
    """Resident CTAs of a kernel with warp-specialised regions, as registers and shared memory allow; at least
    1.

    If a region requests registers (`setmaxnreg`), the kernel takes all registers. Buffers that share bytes of
    shared memory one after another are counted as if they did not.
    """
    inside = max(sum(warps_of_partitions(op)) for op in specialised)
    warps = own_warps + -(-inside // _WARP_GROUP) * _WARP_GROUP
    if any(_REQUESTED in op.attributes for op in specialised):
        return 1
    converted = [op for op in ops if op.name == CONVERT]
    words = max((_words_at_once(op, table) for op in converted), default=0)
    registers = max(gpu.policy.likely_registers, words)
    memory = sum(buffer_bytes(op.results[0].type) for op in ops if op.name == LOCAL_ALLOC)
    whole = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    return max(
        1,
        min(
            gpu.resident_warps // warps,
            gpu.registers // (registers * gpu.lanes * warps),
            whole // (memory + gpu.reserved_shared_bytes) if memory else gpu.resident_warps,
        ),
    )


def _words_at_once(conversion: Operation, table: LayoutTable) -> int:
    """Words that a thread holds at once: of both tensors, or of the larger where registers are renamed."""
    types = conversion.operands[0].type, conversion.results[0].type
    words = [words_of(type_, table) for type_ in types]
    sides = table.both(*types)
    if not isinstance(sides, str) and not isinstance(plan_registers(between_layouts(*sides)), Rejected):
        return max(words)
    return sum(words)


def buffer_bytes(type_: Type) -> int:
    """Bytes of a buffer, without padding; 0 if its elements are not known."""
    described = memory_of(type_)
    if described is None:
        return 0
    shape, element, _ = described
    try:
        return math.prod(shape) * element_type(element).bits // 8
    except ValueError:
        return 0
