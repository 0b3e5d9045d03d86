"""What tests of `exact` share: modules after passes, and what of them rounds or adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from module_equivalence import upstream
from order_machine import stored

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.names import DOTS, REDUCE, SCAN
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline
from triton_linear.passes.reductions.held import held_values
from triton_linear.passes.reductions.region import is_order_free

EXACT, DEFAULT = PipelineOptions(exact=True), PipelineOptions()
CALLS = "linear-outline-conversions"
"""The pass that puts calls into a module, which the machine does not follow."""


def target_of(root: Module) -> str:
    return str(root.operation.attributes["ttg.target"].value)


def passed(text: str, options: PipelineOptions) -> Module:
    """A module after the pipeline, as far as the machine knows what that makes."""
    root = upstream(text)
    return after(root, *(each for each in pipeline(options, target_of(root)) if each.name != CALLS))


def after(root: Module, *steps: Any) -> Module:
    outcome = run_passes(root, steps, verify=True)
    assert outcome.succeeded, outcome.diagnostics
    return root


def that_round(root: Module) -> list[tuple[str, list[str]]]:
    """Reductions and scans whose order shows, and dots, as the module has them, with the types of operands."""
    nvidia = target_of(root).startswith("cuda")
    return [
        (op.name, [str(operand.type) for operand in op.operands])
        for op in operations(root.operation)
        if op.name in DOTS or op.name == SCAN or (op.name == REDUCE and not is_order_free(op, nvidia))
    ]


def is_no_op(conversion: Operation) -> bool:
    return bool(ll.plan_from_attribute(conversion.attributes[ll.PLAN]).kind == "noop")


def held_types(root: Module) -> list[str]:
    """The types of held values, in no order."""
    held = held_values(operations(root.operation), target_of(root).startswith("cuda"))
    return sorted(str(value.type) for value in held)


def same_bits(before: Sequence[Any], root: Module) -> bool:
    return all(mine.same(its) for mine, its in zip(before, stored(root), strict=True))
