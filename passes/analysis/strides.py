"""Arguments of a kernel that are strides: they scale offsets, and reach nothing but addresses."""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect.mlir_adapter import Operation, Value, operations

_OFFSETS = frozenset(
    {
        *("arith.addi", "arith.extsi", "arith.extui", "arith.muli", "arith.subi", "arith.trunci"),
        *("tt.broadcast", "tt.expand_dims", "tt.splat"),
    }
)
"""Operations that make offsets of strides."""


def strides(module: Operation, numbers: Iterable[int]) -> list[int]:
    """Those of a kernel's parameters that are strides, by their numbers.

    If a stride is constant, addresses are known better, and everything else is computed as before: no branch,
    no number of iterations, no mask and no float follows from it.
    """
    (kernel,) = (op for op in operations(module) if op.name == "tt.func" and _is_public(op))
    arguments = kernel.regions[0].blocks[0].arguments
    return [number for number in numbers if _is_stride(arguments[number])]


def _is_public(function: Operation) -> bool:
    attributes = function.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def _is_stride(argument: Value) -> bool:
    """True if an argument reaches nothing but offsets of `tt.addptr`, by arithmetic on integers."""
    seen: set[Value] = set()
    pending = [argument]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op: Operation = use.owner.operation
            if op.name in _OFFSETS:
                pending.extend(op.results)
            elif op.name != "tt.addptr" or use.operand_number != 1:
                return False
    return len(seen) > 1
