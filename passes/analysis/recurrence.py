"""Recognise recurrences: kernels with a loop that carries a tensor, the state, and reads it in each iteration.

    for step in range(steps):
        store(h)                  # reads the state before this step
        h = h * decay + dot(k, v)

The accumulator of a dot is carried too, but nothing reads it before the loop ends. If the state is read,
iterations cannot run in different CTAs, so such kernels have few CTAs: a warp waits for its own conversions,
and few other warps hide the latency.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value
from triton_linear.passes.operations import names

_READS = frozenset(
    {names.STORE, names.ATOMIC, names.REDUCE, "tt.descriptor_store", names.LOCAL_ALLOC, names.LOCAL_STORE}
)
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def carries_state(ops: Sequence[Operation]) -> bool:
    """True if a loop among these operations reads, in each iteration, a tensor of floats that it carries.

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
