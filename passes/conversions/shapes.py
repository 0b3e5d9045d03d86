"""Check that operations that only change a shape agree with their transfer functions on layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Block, IntegerAttr, Operation, UnitAttr, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable, Unknown
from triton_linear.passes.operations.names import BROADCAST, EXPAND, JOIN, RESHAPE, SPLIT, TRANS


@dataclass(frozen=True)
class Disagreement:
    """Two layouts that should be equal: the one derived by the transfer function, and the one that the type
    states."""

    derived: LinearLayout
    stated: LinearLayout


Parameter = tuple[int, ...] | None


def _compare(derived: LinearLayout, stated: LinearLayout) -> Disagreement | None:
    same = transfer.same_but_for_register_copies(derived, stated)
    return None if same else Disagreement(derived, stated)


def _trans(order: Parameter, source: LinearLayout, result: LinearLayout) -> Disagreement | None:
    return _compare(transfer.trans(source, order or ()), result)


def _reshape(reorder: Parameter, source: LinearLayout, result: LinearLayout) -> Disagreement | None:
    if reorder is not None:
        return None  # the reshape may move elements anywhere
    return _compare(transfer.reshape(source, [size for _, size in result.out_dims]), result)


def _expand_dims(axis: Parameter, source: LinearLayout, result: LinearLayout) -> Disagreement | None:
    return _compare(transfer.expand_dims(source, *(axis or ())), result)


def _broadcast(_: Parameter, source: LinearLayout, result: LinearLayout) -> Disagreement | None:
    # Several layouts of the result are valid, so the operand's layout is derived from the result's.
    return _compare(source, transfer.broadcast_backward(result, [size for _, size in source.out_dims]))


def _join(_: Parameter, source: LinearLayout, result: LinearLayout) -> Disagreement | str | None:
    half = transfer.join_backward(result)
    if half is None:
        return "the last dimension of the result is not one register bit"
    return _compare(source, half)


def _split(_: Parameter, source: LinearLayout, result: LinearLayout) -> Disagreement | str | None:
    half = transfer.split(source)
    if half is None:
        return "the last dimension of the operand is not one register bit"
    return _compare(half, result)


@dataclass(frozen=True)
class Rule:
    """The check of an operation's layouts, and the attribute that is its parameter."""

    check: Callable[[Parameter, LinearLayout, LinearLayout], Disagreement | str | None]
    attribute: str | None = None

    def parameter(self, op: Operation) -> Parameter:
        """The attribute's integers; () for a unit attribute, None if it is absent."""
        if self.attribute is None or self.attribute not in op.attributes:
            return None
        value = op.attributes[self.attribute]
        if isinstance(value, UnitAttr):
            return ()
        return (value.value,) if isinstance(value, IntegerAttr) else tuple(value)


RULES: Mapping[str, Rule] = {
    BROADCAST: Rule(_broadcast),
    EXPAND: Rule(_expand_dims, "axis"),
    JOIN: Rule(_join),
    RESHAPE: Rule(_reshape, "allow_reorder"),
    SPLIT: Rule(_split),
    TRANS: Rule(_trans, "order"),
}


@lru_cache(maxsize=4096)
def disagreement(
    name: str, parameter: Parameter, source: LinearLayout, result: LinearLayout
) -> Disagreement | str | None:
    """Why operation `name` cannot take `source` to `result`; None if it can."""
    try:
        return RULES[name].check(parameter, source, result)
    except ValueError as error:
        return str(error)


def check_shape_operation(op: Operation, table: LayoutTable) -> bool:
    """Report an error at `op` if its layouts are known and do not agree. Returns False if so."""
    rule = RULES.get(op.name)
    if rule is None:
        return True
    source, result = table.of(op.operands[0].type), table.of(op.results[0].type)
    if isinstance(source, Unknown | None) or isinstance(result, Unknown | None):
        return True
    found = disagreement(op.name, rule.parameter(op), source, result)
    if found is None:
        return True
    message = found if isinstance(found, str) else _witness(found)
    notes = [
        (_owner_of(op.operands[0]), f"the operand has {_layout_text(source)}"),
        (op, f"the result has {_layout_text(result)}"),
    ]
    diagnostics.error(op, f"'{op.name}': layouts of operand and result do not agree: {message}", notes)
    return False


def _witness(found: Disagreement) -> str:
    """The first basis vector in which two layouts differ, without registers that hold copies."""
    derived, stated = (
        layout.remove_zero_bases(REGISTER) if layout.has_in_dim(REGISTER) else layout
        for layout in (found.derived, found.stated)
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
    return "x".join(str(size) for _, size in layout.out_dims)


def _layout_text(layout: LinearLayout) -> str:
    return "; ".join(f"{name} {[list(vector) for vector in vectors]}" for name, vectors in layout.bases)


def _owner_of(value: Value) -> Operation:
    """The operation that defines `value`, or has it as an argument."""
    owner = value.owner
    return owner.owner if isinstance(owner, Block) else owner
