"""Invariants between passes, as checks that the driver runs in debug mode.

A verifier reports an error at every operation that breaks its rule, and returns True if none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Operation, operations
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.operations.names import CONVERT

Verifier = Callable[[Operation], bool]


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


def _all_left(ops: Iterable[Operation], message: str) -> bool:
    """Whether these operations state why they are left to Triton; the message is an error at each other one."""
    others = [op for op in ops if ll.STOCK not in op.attributes]
    for op in others:
        diagnostics.error(op, message)
    return not others


class NotEquivalent(Exception):
    """The rewritten module may compute other results than before, or have hints that are wrong."""
