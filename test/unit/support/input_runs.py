"""Runs the tools on many inputs and judges how each ends.

The tools are loaded once; a forked child runs each case. One that crashes runs once more the way the command
does, under supervision, and it is that which is judged.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from input_mutants import FILE, Case

_ERROR = re.compile(r"^(?P<place>.*?)(?:^|: )error: ", re.MULTILINE)
_POSITION = re.compile(r":\d+:\d+$")
_REPORT = re.compile(r"/\S*triton-linear-\w+\.txt")


@dataclass(frozen=True)
class Ended:
    """How a case ended: its exit status, or minus the signal; what it wrote."""

    status: int
    out: str
    err: str


@dataclass
class Tally:
    """Cases by outcome, and those that ended as none may."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, Case, Ended]] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())


def judge(case: Case, ended: Ended, name: str) -> tuple[str, bool]:
    """What became of a case, and whether that is as it must be.

    Right are: it is accepted; it is refused with an error at its place and status 1; a wrong command line is
    refused with one line and status 2.
    """
    both = ended.out + ended.err
    errors = [found["place"] for found in _ERROR.finditer(ended.err)]
    if ended.status == -signal.SIGALRM:
        return "hangs", False
    if ended.status < 0:
        return f"ended by {signal.Signals(-ended.status).name}", False
    if "Traceback (most recent call last)" in both:
        return "traceback", False
    if "internal error" in both or "this is a bug" in both:
        return "internal error", False
    if ended.status == 0:
        return ("accepted", True) if not errors else ("accepted with an error", False)
    if ended.status == 2:
        one_line = ended.err.count("\n") == 1 and len(errors) == 1 and not case.by_input
        return ("wrong command line", True) if one_line else ("status 2", False)
    if ended.status != 1:
        return f"status {ended.status}", False
    if not errors:
        return ("found wrong" if " wrong" in ended.out else "refused without an error"), False
    if case.by_input and not any(place.startswith(name) or _POSITION.search(place) for place in errors):
        return "refused without the file", False
    if "the compiler crashed with" in both:
        return "refused: the compiler crashed", True
    return "refused", True


class Runner:
    """Runs cases in children that may each take `seconds`."""

    def __init__(self, folder: Path, seconds: int = 30) -> None:
        self.seconds = seconds
        self.path = folder / "input.ttgir"
        self._out, self._err, self._status = (folder / name for name in ("out", "err", "status"))
        from triton_linear.dialect import bridge
        from triton_linear.tools import cli  # loaded before any child is made
        from triton_linear.tools.opt import command as opt
        from triton_linear.tools.verify import command as verify

        self._mains = {"opt": opt.main, "cli": cli.main}
        self._loaded = (bridge, verify)

    def run(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Ended]]:
        """Each case and how it ended, in order."""
        for case in cases:
            ended = self._child(case, supervised=False)
            if ended.status < 0 and ended.status != -signal.SIGALRM:
                ended = self._child(case, supervised=True)
            yield case, ended

    def _child(self, case: Case, supervised: bool) -> Ended:
        if case.content is not None:
            self.path.write_bytes(case.content)
        self._status.unlink(missing_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                forkserver._forkserver._forkserver_pid = None  # it has its own
                faulthandler.disable()
                self._status.write_text(str(self._tool(case, supervised)))
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a supervised tool has left where it took too long
        out, err = (path.read_bytes().decode(errors="replace") for path in (self._out, self._err))
        # LLVM ends a process by itself where it has no memory left: no status was written then.
        aborted = ended if ended < 0 else -signal.SIGABRT
        return Ended(int(self._status.read_text()) if self._status.exists() else aborted, out, err)

    def _tool(self, case: Case, supervised: bool) -> int:
        """The exit status of the tool, whose streams are the files."""
        # Whoever runs this may have put something else in their places.
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")  # as Python's own
        for number, path in ((0, Path(os.devnull)), (1, self._out), (2, self._err)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        words = [word.replace(FILE, str(self.path)) for word in case.words]
        main: Any = self._mains[case.tool]
        sys.argv = [case.tool, *words]
        signal.alarm(self.seconds * (2 if supervised else 1))
        try:
            status = int(main(None if supervised else words) or 0)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception:
            traceback.print_exc()
            status = 1
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        return status

    def tally(self, cases: Iterable[Case], keep: int = 1000) -> Tally:
        """Run and judge; the reports of internal errors are put beside what was written."""
        found = Tally()
        for case, ended in self.run(cases):
            outcome, right = judge(case, ended, str(self.path))
            found.outcomes[outcome] += 1
            reports = ""
            for report in {Path(name) for name in _REPORT.findall(ended.err)}:
                if report.is_relative_to(tempfile.gettempdir()) and report.exists():
                    reports += report.read_text()
                    report.unlink()
            if not right and len(found.findings) < keep:
                found.findings.append((outcome, case, Ended(ended.status, ended.out, ended.err + reports)))
        return found
