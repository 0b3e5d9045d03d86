"""Check that operations that only change a shape agree with their transfer functions on layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Block, IntegerAttr, Operation, Value
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable, Unknown
from triton_linear.passes.operations.names import BROADCAST, EXPAND, JOIN, RESHAPE, SPLIT, TRANS

Parameter = tuple[int, ...] | None
Pair = tuple[LinearLayout | None, LinearLayout | None]
"""What a transfer function derives, and what that has to equal; None: the last dimension is no register bit."""


def _sizes_of(layout: LinearLayout) -> list[int]:
    return [size for _, size in layout.out_dims]


_RULES: Mapping[str, Callable[[Parameter, LinearLayout, LinearLayout], Pair]] = {
    # Several layouts of the result are valid, so the operand's layout is derived from the result's.
    BROADCAST: lambda _, source, result: (source, transfer.broadcast_backward(result, _sizes_of(source))),
    EXPAND: lambda axis, source, result: (transfer.expand_dims(source, *(axis or ())), result),
    JOIN: lambda _, source, result: (source, transfer.join_backward(result)),
    RESHAPE: lambda _, source, result: (transfer.reshape(source, _sizes_of(result)), result),
    SPLIT: lambda _, source, result: (transfer.split(source), result),
    TRANS: lambda order, source, result: (transfer.trans(source, order or ()), result),
}
_PARAMETERS: Mapping[str, str] = {EXPAND: "axis", TRANS: "order"}


def _parameter(op: Operation) -> Parameter:
    """The integers of the attribute that says what an operation does."""
    name = _PARAMETERS.get(op.name)
    if name is None:
        return None
    value = op.attributes[name]
    return (value.value,) if isinstance(value, IntegerAttr) else tuple(value)


@lru_cache(maxsize=4096)
def disagreement(name: str, parameter: Parameter, source: LinearLayout, result: LinearLayout) -> str | None:
    """Why operation `name` cannot take `source` to `result`; None if it can."""
    try:
        derived, stated = _RULES[name](parameter, source, result)
    except ValueError as error:
        return str(error)
    if derived is None or stated is None:
        return f"the last dimension of the {'operand' if derived is None else 'result'} is not one register bit"
    same = transfer.same_but_for_register_copies(derived, stated)
    return None if same else _witness(derived, stated)


def check_shape_operation(op: Operation, table: LayoutTable) -> bool:
    """Report an error at `op` if its layouts are known and do not agree. Returns False if so. A reshape that
    may move elements anywhere agrees with all."""
    if op.name not in _RULES or "allow_reorder" in op.attributes:
        return True
    source, result = table.of(op.operands[0].type), table.of(op.results[0].type)
    if isinstance(source, Unknown | None) or isinstance(result, Unknown | None):
        return True
    message = disagreement(op.name, _parameter(op), source, result)
    if message is None:
        return True
    notes = [
        (_owner_of(op.operands[0]), f"the operand has {_layout_text(source)}"),
        (op, f"the result has {_layout_text(result)}"),
    ]
    diagnostics.error(op, f"'{op.name}': layouts of operand and result do not agree: {message}", notes)
    return False


def _witness(*layouts: LinearLayout) -> str:
    """The first basis vector in which two layouts differ, without registers that hold copies."""
    derived, stated = (
        layout.remove_zero_bases(REGISTER) if layout.has_in_dim(REGISTER) else layout for layout in layouts
    )
    if derived.out_dims != stated.out_dims:
        return f"sizes {_sizes(derived)} against {_sizes(stated)}"
    others = dict(stated.bases)
    for name, vectors in derived.bases:
        for i in range(max(len(vectors), len(others.get(name, ())))):
            pair = [sides[i] if i < len(sides) else None for sides in (vectors, others.get(name, ()))]
            if pair[0] != pair[1]:
                first, second = ("none" if vector is None else str(tuple(vector)) for vector in pair)
                return f"{name}={1 << i} -> {first} against {second}"
    return f"in-dims {', '.join(derived.in_dim_names)} against {', '.join(stated.in_dim_names)}"


def _sizes(layout: LinearLayout) -> str:
    return "x".join(map(str, _sizes_of(layout)))


def _layout_text(layout: LinearLayout) -> str:
    return "; ".join(f"{name} {[list(vector) for vector in vectors]}" for name, vectors in layout.bases)


def _owner_of(value: Value) -> Operation:
    """The operation that defines `value`, or has it as an argument."""
    owner = value.owner
    return owner.owner if isinstance(owner, Block) else owner
