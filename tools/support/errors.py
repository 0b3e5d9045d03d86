"""Diagnostics: errors with their place in the user's file, printed like those of MLIR's own tools.

Everything that the tools report is a `Diagnostic`: the diagnostics of upstream MLIR, libtriton's messages,
which can only be read from standard error, and the errors of this project.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NoReturn, TextIO

from triton_linear.dialect.locations import position
from triton_linear.dialect.triton_versions import UnsupportedMLIR, UnsupportedTriton

SEVERITIES = ("error", "warning", "remark", "note")


@dataclass(frozen=True)
class Diagnostic:
    """A message about a place in a file; `line` and `column` count from 1, and 0 means unknown."""

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        place = (
            f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        )
        return f"{place}{self.severity}: {self.message}"


class ToolError(Exception):
    """A failure for the user to act on: the tools print its diagnostics and exit with status 1."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


def fail(message: str, file: str = "", line: int = 0, column: int = 0) -> NoReturn:
    """Raise a ToolError with one error."""
    raise ToolError(Diagnostic("error", message, file, line, column))


_PRINTED = re.compile(
    r"^(?:(?P<place>loc\(.*?\)|<unknown>:0|[^\s:][^:\n]*:\d+:\d+): )?"
    rf"(?P<severity>{'|'.join(SEVERITIES)}): (?P<message>.*)$"
)


def parse_diagnostics(text: str) -> tuple[list[Diagnostic], str]:
    """The diagnostics in the output of an MLIR library, errors with their notes; and the other text."""
    diagnostics: list[Diagnostic] = []
    rest: list[str] = []
    for line in text.splitlines():
        match = _PRINTED.match(line)
        if match is None:
            rest.append(line)
            continue
        diagnostic = Diagnostic(match["severity"], match["message"], *position(match["place"] or ""))
        if diagnostic.severity == "note" and diagnostics:
            diagnostics[-1] = replace(diagnostics[-1], notes=(*diagnostics[-1].notes, diagnostic))
        else:
            diagnostics.append(diagnostic)
    return diagnostics, "\n".join(rest)


@dataclass
class Captured:
    """The text that was written to standard error while it was captured."""

    text: str = ""


# In a supervised child, the file to which captured text is written, so that the parent can read it after a
# crash.
_crash_log: list[BinaryIO] = []
# In a supervised child, the file to which it writes the name of the input that it compiles.
_crash_input: list[BinaryIO] = []


def note_input(filename: str) -> None:
    """Record the name of the input that is compiled next, for the report if the compiler crashes."""
    for file in _crash_input:
        file.seek(0)
        file.truncate()
        file.write(filename.encode(errors="surrogateescape"))
        file.flush()


def capture_into_stderr() -> None:
    """From now on, capture into the file that is standard error, which the parent can read after a crash."""
    _crash_log[:] = [open("/proc/self/fd/2", "r+b", buffering=0)]  # noqa: SIM115


@contextmanager
def captured_stderr() -> Iterator[Captured]:
    """Collect everything written to file descriptor 2, also by C++ code. Not thread-safe."""
    captured = Captured()
    sys.stderr.flush()
    saved = os.dup(2)
    with nullcontext(_crash_log[0]) if _crash_log else tempfile.TemporaryFile() as sink:
        sink.seek(0)
        sink.truncate()
        os.dup2(sink.fileno(), 2)
        try:
            yield captured
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            sink.seek(0)
            captured.text = sink.read().decode(errors="replace")


def open_streams() -> None:
    """Open closed standard streams on /dev/null; else the next opened file would get their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None and number:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def supervised(run: Callable[[], int]) -> int:
    """Run `run` in a child process, so that C++ code that aborts ends only the child; return its exit status.

    Requires: no other thread. Ensures: if a signal ends the child, the error names the input, and diagnostics
    that the child captured are printed.
    """
    open_streams()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as input_name:
        child = os.fork()
        if child == 0:
            _crash_log.append(log)
            _crash_input.append(input_name)
            sys.exit(run())
        status = _wait(child)
        log.seek(0)
        last_output = log.read().decode(errors="replace")
        input_name.seek(0)
        filename = input_name.read().decode(errors="replace")
    if status >= 0:
        return status
    diagnostics, rest = parse_diagnostics(last_output)
    assertion = next((line for line in reversed(rest.splitlines()) if "Assertion" in line), "")
    cause = f"{signal.Signals(-status).name}{': ' if assertion else ''}{assertion}"
    printer = Printer()
    for diagnostic in diagnostics:
        printer.print(diagnostic)
    printer.print(Diagnostic("error", f"the compiler crashed with {cause}", filename))
    return 1


def _wait(child: int) -> int:
    """The exit status of a child, or the negative number of the signal that ended it."""
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:  # the child was interrupted as well
            continue


_MOST_CHARACTERS = 200
"""The number of characters shown of a source line; lines of JSON and printed constants have thousands."""


def _shortened(text: str, column: int) -> tuple[str, int]:
    """The part of a line that is shown, around the column, and the column in that part."""
    if len(text) <= _MOST_CHARACTERS:
        return text, column
    start = max(0, min(column - _MOST_CHARACTERS // 2, len(text) - _MOST_CHARACTERS))
    head, tail = "..." * (start > 0), "..." * (start + _MOST_CHARACTERS < len(text))
    return f"{head}{text[start : start + _MOST_CHARACTERS]}{tail}", column - start + len(head)


@dataclass
class Printer:
    """Prints diagnostics as MLIR does: the message, the source line, a caret, then the notes."""

    sources: dict[str, str] = field(default_factory=dict)
    stream: TextIO | None = None

    def print(self, diagnostic: Diagnostic) -> None:
        """Write one diagnostic and its notes."""
        stream = self.stream or sys.stderr
        print(diagnostic, file=stream)
        lines = self.sources.get(diagnostic.file, "").split("\n")
        if 0 < diagnostic.line <= len(lines) and lines[diagnostic.line - 1].strip():
            text, column = _shortened(lines[diagnostic.line - 1], diagnostic.column)
            before = text[: max(column - 1, 0)]
            print(text, "\n", re.sub(r"[^\t]", " ", before), "^", sep="", file=stream)
        for note in diagnostic.notes:
            self.print(note)


_OUTPUT_FAILS = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
"""The errors of writing to a full or broken device; code that opens files handles their errors itself."""


def guarded(run: Callable[[], int], printer: Printer) -> int:
    """Run `run` and return its exit status; print any exception as a diagnostic instead of a traceback."""
    try:
        status = run()
        sys.stdout.flush()
        return status
    except ToolError as error:
        for diagnostic in error.diagnostics:
            printer.print(diagnostic)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except (UnsupportedTriton, UnsupportedMLIR) as error:
        printer.print(Diagnostic("error", str(error)))
    except OSError as error:
        if error.errno not in _OUTPUT_FAILS:
            return _internal(error, printer)
        printer.print(Diagnostic("error", f"cannot write output: {error.strerror}", "<stdout>"))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a flush at exit would fail again
    except Exception as error:
        return _internal(error, printer)
    return 1


def _internal(error: Exception, printer: Printer) -> int:
    """Report an unexpected exception, which is being handled, as a bug; return the exit status."""
    with tempfile.NamedTemporaryFile("w", prefix="triton-linear-", suffix=".txt", delete=False) as file:
        file.write(traceback.format_exc())
    message = f"internal error: {type(error).__name__}: {error}"
    advice = f"this is a bug; please report it with the input and {file.name}"
    printer.print(Diagnostic("error", message, notes=(Diagnostic("note", advice),)))
    return 1
