"""Transposes in front of code of ours."""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect.mlir_adapter import Operation, producers_of
from triton_linear.lowering.emit.scratch import NumberedModule


def take_what_is_transposed(program: NumberedModule, calls: Iterable[Operation]) -> None:
    """Let calls take what transposes before them take, which move no register. (Up to Triton 3.7, AMD's stage
    leaves a cast from a transpose standing where a branch takes what is transposed.)"""
    if "tt.trans" not in program.names:
        return
    producers = producers_of(program.ops)
    for call in calls:
        while (view := producers.get(call.operands[0])) is not None and view.name == "tt.trans":
            call.operands[0] = view.operands[0]
