"""What passes tell the user: errors, remarks and warnings at an operation's location, with notes.

The bindings can emit errors only, and none with notes, so passes report through `error`, `warning` and
`remark`. Inside `capture` the diagnostics are collected, together with those that MLIR itself emits; outside,
errors go to MLIR's own handler and the rest is dropped, as MLIR does where nobody listens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from triton_linear.dialect.mlir_adapter import Context, MLIRError, Operation
from triton_linear.dialect.records import dataclass

SEVERITIES = ("error", "warning", "remark", "note")


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
    """Collect, within the block, what passes of this thread report, `remarks` only if asked to, and what
    `context` emits."""
    found: list[PassDiagnostic] = []

    def handle(diagnostic: Any) -> bool:
        found.append(_from_mlir(diagnostic))
        return True

    handler = context.attach_diagnostic_handler(handle)
    token, wanting = _sink.set(found), _remarks.set(remarks)
    try:
        yield found
    finally:
        _sink.reset(token)
        _remarks.reset(wanting)
        handler.detach()


def of_exception(error: MLIRError) -> list[PassDiagnostic]:
    """The diagnostics that MLIR put into an exception instead of handing them to a handler."""
    return [_from_mlir(diagnostic) for diagnostic in error.error_diagnostics]


def _from_mlir(diagnostic: Any) -> PassDiagnostic:
    severity = diagnostic.severity.name.lower()
    notes = tuple(_from_mlir(note) for note in diagnostic.notes)
    return PassDiagnostic(severity, diagnostic.message, str(diagnostic.location), notes)


def wanted() -> bool:
    """Whether anybody collects the remarks of this thread; if not, they need not be composed."""
    return _remarks.get()


Notes = Iterable[tuple[Operation, str]]


def error(op: Operation, message: str, notes: Notes = ()) -> None:
    """Say what is wrong with `op`; the pass that says so must fail."""
    _report("error", op, message, notes)


def warning(op: Operation, message: str, notes: Notes = ()) -> None:
    """Say what is doubtful about `op`."""
    _report("warning", op, message, notes)


def remark(op: Operation, message: str, notes: Notes = ()) -> None:
    """Say what was done, or left, at `op`."""
    if wanted():
        _report("remark", op, message, notes)


def _report(severity: str, op: Operation, message: str, notes: Notes) -> None:
    sink = _sink.get()
    if sink is None:
        if severity == "error":
            op.location.emit_error(message)
        return
    place = str(op.location)
    attached = tuple(
        [PassDiagnostic("note", text, place if at is op else str(at.location)) for at, text in notes]
    )
    sink.append(PassDiagnostic(severity, message, place, attached))
