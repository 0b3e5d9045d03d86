"""Diagnostics of passes: errors and remarks at an operation's location, with notes.

MLIR's Python bindings can only emit errors without notes, so passes report through `error` and `remark`. Inside
`capture`, their diagnostics and MLIR's own are collected. Outside, errors go to MLIR's handler, and remarks are
dropped, as by MLIR without a handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from triton_linear.dialect.mlir_adapter import Context, MLIRError, Operation
from triton_linear.dialect.records import dataclass


@dataclass(frozen=True)
class PassDiagnostic:
    """One message; `location` is the text of an MLIR location, `loc("kernel.py":3:4)`."""

    severity: str
    message: str
    location: str
    notes: tuple[PassDiagnostic, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.location}: {self.severity}: {self.message}", *map(str, self.notes)]
        return "\n".join(lines)


_sink: ContextVar[list[PassDiagnostic] | None] = ContextVar("diagnostics", default=None)
_remarks: ContextVar[bool] = ContextVar("remarks", default=False)


@contextmanager
def capture(context: Context, remarks: bool = True) -> Iterator[list[PassDiagnostic]]:
    """Collect, within the block, the diagnostics of this thread's passes and of `context`. `remarks`: collect
    remarks too."""
    collected: list[PassDiagnostic] = []

    def handle(diagnostic: Any) -> bool:
        collected.append(_from_mlir(diagnostic))
        return True

    handler = context.attach_diagnostic_handler(handle)
    sink_token, remarks_token = _sink.set(collected), _remarks.set(remarks)
    try:
        yield collected
    finally:
        _sink.reset(sink_token)
        _remarks.reset(remarks_token)
        handler.detach()


def of_exception(error: MLIRError) -> list[PassDiagnostic]:
    """The diagnostics that MLIR put into an exception instead of handing them to a handler."""
    return [_from_mlir(diagnostic) for diagnostic in error.error_diagnostics]


def _from_mlir(diagnostic: Any) -> PassDiagnostic:
    severity = diagnostic.severity.name.lower()
    notes = tuple(_from_mlir(note) for note in diagnostic.notes)
    return PassDiagnostic(severity, diagnostic.message, str(diagnostic.location), notes)


def wanted() -> bool:
    """True if the remarks of this thread are collected; if not, they need not be composed."""
    return _remarks.get()


Notes = Iterable[tuple[Operation, str]]


def error(op: Operation, message: str) -> None:
    """Report an error at `op`. The pass that reports it must fail."""
    if (sink := _sink.get()) is None:
        op.location.emit_error(message)
    else:
        sink.append(PassDiagnostic("error", message, str(op.location)))


def remark(op: Operation, message: str, notes: Notes = ()) -> None:
    """Report a remark at `op`: what a pass did there, or did not."""
    sink = _sink.get()
    if sink is not None and wanted():
        place = str(op.location)
        attached = [PassDiagnostic("note", text, place if at is op else str(at.location)) for at, text in notes]
        sink.append(PassDiagnostic("remark", message, place, tuple(attached)))
