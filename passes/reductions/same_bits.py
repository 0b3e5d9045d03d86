"""Whether two modules that Triton made of one kernel give the same bits."""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, operations
from triton_linear.passes.operations.names import ASSEMBLY, ATOMIC, COMBINING
from triton_linear.passes.reductions.held import KeptBits
from triton_linear.passes.reductions.strides import DOTS

_BY_THREAD = frozenset({"tt.atomic_cas", ATOMIC, ASSEMBLY})
"""Operations that may give other values in other threads, or beside other elements."""


def same_bits(one: Operation, other: Operation) -> bool:
    """True if two modules give the same bits: what `held` says that bits depend on has the same layouts.

    Requires: both compute the same values, element by element, but for the layouts that these have.
    """
    return list(_deciding(one)) == list(_deciding(other))


def _deciding(module: Operation) -> Iterator[tuple[str, ...]]:
    """The operations on whose layouts bits depend, in the order they are written, with the types of tensors."""
    ops = operations(module)
    kept = KeptBits.among(ops, exact=True)
    for op in ops:
        name = op.name
        combines = name in COMBINING and kept.shows_order(op)
        if combines or name in _BY_THREAD or name.endswith(DOTS):
            # A dot adds in the order that its operands' layouts have in registers; in memory they have none.
            yield name, *(str(value.type) for value in (*op.operands, *op.results) if _is_tensor(value))
        for value in op.results:
            if value in kept.held:
                yield name, str(value.type)
        for region in op.regions:
            for block in region.blocks:
                yield from (("argument", str(value.type)) for value in block.arguments if value in kept.held)


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, RankedTensorType)
