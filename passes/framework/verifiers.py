"""Invariants between passes, as checks that the driver runs in debug mode.

A verifier reports an error at every operation that breaks its rule, and returns True if none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation, UnitAttr, block_arguments, operations
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations.names import CONVERT, GATHER

Verifier = Callable[[Operation], bool]


def every_tensor_has_layout(root: Operation) -> bool:
    """The operation of every tensor and memory descriptor states its layout, or the reason why it has none."""
    table = LayoutTable()
    good = True
    for op in operations(root):
        kinds = (
            ("result", ll.RESULTS, list(op.results)),
            ("block argument", ll.ARGUMENTS, list(block_arguments(op))),
        )
        for kind, name, values in kinds:
            attached: list[Attribute | None] = [None] * len(values)
            if name in op.attributes:
                attached = list(op.attributes[name])
            if len(attached) != len(values):
                diagnostics.error(op, f"'{name}' has {len(attached)} entries for {len(values)} {kind}s")
                good = False
                continue
            for i, (value, layout) in enumerate(zip(values, attached, strict=True)):
                if (layout is None or isinstance(layout, UnitAttr)) and table.of(value.type) is not None:
                    diagnostics.error(op, f"{kind} {i} of type '{value.type}' has no layout")
                    good = False
    return good


def no_convert_layout_left(root: Operation) -> bool:
    """Every remaining conversion is a no-op, or is marked as left to Triton."""
    others = [
        op
        for op in operations(root)
        if op.name == CONVERT
        and (ll.PLAN not in op.attributes or ll.plan_from_attribute(op.attributes[ll.PLAN]).kind != "noop")
    ]
    return _all_left(others, "conversion is neither outlined, nor a no-op, nor left to Triton")


def every_conversion_is_decided(root: Operation) -> bool:
    """Every conversion has a plan, or states the reason why it is left to Triton."""
    undecided = [op for op in operations(root) if op.name == CONVERT and ll.PLAN not in op.attributes]
    return _all_left(undecided, "conversion has no plan and is not left to Triton")


def every_gather_is_decided(root: Operation) -> bool:
    """Every remaining gather states the reason why it is left to Triton."""
    gathers = [op for op in operations(root) if op.name == GATHER]
    return _all_left(gathers, "gather is neither outlined nor left to Triton")


def _all_left(ops: Iterable[Operation], message: str) -> bool:
    """Whether these operations state why they are left to Triton; the message is an error at each other one."""
    others = [op for op in ops if ll.STOCK not in op.attributes]
    for op in others:
        diagnostics.error(op, message)
    return not others
