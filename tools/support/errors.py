"""Diagnostics: what went wrong, where in the user's file, in the form MLIR's own tools print.

Everything the tools report passes through `Diagnostic`: what upstream MLIR hands to a handler, what libtriton
writes to the standard error stream (it has no handler Python could attach), and what this project raises.
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
    """One message at one place of a file; `line` and `column` count from 1, 0 means unknown."""

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
    """A failure the user can act on: the tools print its diagnostics and exit with status 1."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


def fail(message: str, file: str = "", line: int = 0, column: int = 0) -> NoReturn:
    """Raise a ToolError with one error."""
    raise ToolError(Diagnostic("error", message, file, line, column))


_SEVERITY = "|".join(SEVERITIES)
_TRITON = re.compile(
    rf"^(?P<place>loc\(.*?\)|<unknown>:0|[^\s:][^:\n]*:\d+:\d+): (?P<severity>{_SEVERITY}): (?P<message>.*)$"
)
_BARE = re.compile(rf"^(?P<place>)(?P<severity>{_SEVERITY}): (?P<message>.*)$")


def parse_diagnostics(text: str) -> tuple[list[Diagnostic], str]:
    """The diagnostics in what an MLIR library printed, notes under their error, and the text that is none."""
    found: list[Diagnostic] = []
    rest: list[str] = []
    for line in text.splitlines():
        match = _TRITON.match(line) or _BARE.match(line)
        if match is None:
            rest.append(line)
            continue
        diagnostic = Diagnostic(match["severity"], match["message"], *position(match["place"]))
        if diagnostic.severity == "note" and found:
            found[-1] = replace(found[-1], notes=(*found[-1].notes, diagnostic))
        else:
            found.append(diagnostic)
    return found, "\n".join(rest)


@dataclass
class Captured:
    """What the process wrote to its standard error stream while it was captured."""

    text: str = ""


# Where captured text goes while a supervised child runs, so that its parent can read it after a crash.
_crash_log: list[BinaryIO] = []
# Where the child says which file it is at.
_crash_input: list[BinaryIO] = []


def now_at(filename: str) -> None:
    """Remember the input that is compiled from here on, for what is reported if the compiler crashes."""
    for log in _crash_input:
        log.seek(0)
        log.truncate()
        log.write(filename.encode(errors="surrogateescape"))
        log.flush()


def keep_captured() -> None:
    """Capture into the file that is the standard error stream, so that who has it can read it after a crash."""
    _crash_log[:] = [open("/proc/self/fd/2", "r+b", buffering=0)]  # noqa: SIM115


@contextmanager
def captured_stderr() -> Iterator[Captured]:
    """Collect everything written to file descriptor 2, by C++ code too; not for several threads."""
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
    """Let closed standard streams lead nowhere: else the next file that is opened takes their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None and number:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def supervised(run: Callable[[], int]) -> int:
    """The exit status of `run`, which a child process runs: C++ code that aborts takes the child only.

    Requires: no other thread. Ensures: a child that a signal ends is reported with the input it was at and
    what it said last.
    """
    open_streams()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as at:
        child = os.fork()
        if child == 0:
            _crash_log.append(log)
            _crash_input.append(at)
            sys.exit(run())
        status = _wait(child)
        log.seek(0)
        last_words = log.read().decode(errors="replace")
        at.seek(0)
        filename = at.read().decode(errors="replace")
    if status >= 0:
        return status
    found, rest = parse_diagnostics(last_words)
    assertion = next((line for line in reversed(rest.splitlines()) if "Assertion" in line), "")
    cause = f"{signal.Signals(-status).name}{': ' if assertion else ''}{assertion}"
    printer = Printer()
    for diagnostic in found:
        printer.print(diagnostic)
    printer.print(Diagnostic("error", f"the compiler crashed with {cause}", filename))
    return 1


def _wait(child: int) -> int:
    """The exit status of a child, or minus the signal that ended it."""
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:  # the child was interrupted as well
            continue


_SHOWN = 200
"""Characters of a line that are shown; lines of JSON and of printed constants have thousands."""


def _shortened(text: str, column: int) -> tuple[str, int]:
    """What is shown of a line, and its column there: the whole, or what is around the column."""
    if len(text) <= _SHOWN:
        return text, column
    start = max(0, min(column - _SHOWN // 2, len(text) - _SHOWN))
    head, tail = "..." * (start > 0), "..." * (start + _SHOWN < len(text))
    return f"{head}{text[start : start + _SHOWN]}{tail}", column - start + len(head)


@dataclass
class Printer:
    """Writes diagnostics as MLIR does: message, line of the source, caret; notes after their error."""

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
"""What writing to a full or broken device gives; opening files is guarded where it is done."""


def guarded(run: Callable[[], int], printer: Printer) -> int:
    """The exit status of `run`; whatever goes wrong in it is printed as a diagnostic, never as a traceback."""
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write would fail again
    except Exception as error:
        return _internal(error, printer)
    return 1


def _internal(error: Exception, printer: Printer) -> int:
    """The exit status for an exception that nobody meant to raise; called where it is handled."""
    with tempfile.NamedTemporaryFile("w", prefix="triton-linear-", suffix=".txt", delete=False) as file:
        file.write(traceback.format_exc())
    message = f"internal error: {type(error).__name__}: {error}"
    advice = f"this is a bug; please report it with the input and {file.name}"
    printer.print(Diagnostic("error", message, notes=(Diagnostic("note", advice),)))
    return 1
