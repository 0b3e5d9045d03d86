"""Transposes in front of emitted code."""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect.mlir_adapter import Operation, producers_of
from triton_linear.lowering.emit.scratch import NumberedModule


def take_what_is_transposed(program: NumberedModule, calls: Iterable[Operation]) -> None:
    """Replace the operand of each call by the operand of the `tt.trans` before it, which moves no register.

    Up to Triton 3.7, AMD's stage fails to remove a cast from a transpose if a branch takes the transposed
    value.
    """
    if "tt.trans" not in program.names:
        return
    producers = producers_of(program.ops)
    for call in calls:
        while (view := producers.get(call.operands[0])) is not None and view.name == "tt.trans":
            call.operands[0] = view.operands[0]
