"""Runs the tools on many inputs and judges how each ends.

The tools are loaded once; forked children run the cases one after another, so that what crashes takes one child
with it. Such a case runs once more the way the command does, under supervision, and it is that which is judged.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from input_mutants import FILE, Case

_BATCH = 100
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
    """Runs cases in children that may each take `seconds` for one."""

    def __init__(self, folder: Path, seconds: int = 30) -> None:
        self.seconds = seconds
        self.path = folder / "input.ttgir"
        self._folder = folder
        from triton_linear.dialect import bridge
        from triton_linear.tools import cli  # loaded before any child is made
        from triton_linear.tools.opt import command as opt
        from triton_linear.tools.verify import command as verify

        self._mains = {"opt": opt.main, "cli": cli.main}
        self._loaded = (bridge, verify)

    def run(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Ended]]:
        """Each case and how it ended, in order."""
        rest = iter(cases)
        while batch := list(islice(rest, _BATCH)):
            while batch:
                ended = self._child(batch, supervised=False)
                if len(ended) < len(batch) or ended[-1].status < 0:
                    if not ended or ended[-1].status >= 0:
                        raise RuntimeError("a child ended early")
                    crashed = batch[len(ended) - 1]
                    if ended[-1].status != -signal.SIGALRM:
                        ended[-1] = self._child([crashed], supervised=True)[0]
                yield from zip(batch, ended, strict=False)
                batch = batch[len(ended) :]

    def _child(self, batch: Sequence[Case], supervised: bool) -> list[Ended]:
        """How the first cases of a batch ended; a signal can only have ended the last one."""
        log = self._folder / "log"
        log.unlink(missing_ok=True)
        (self._folder / "failure").unlink(missing_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setpgid(0, 0)
                faulthandler.disable()
                self._cases(batch, log, supervised)
                status = 0
            except BaseException:
                (self._folder / "failure").write_text(traceback.format_exc(), errors="backslashreplace")
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a supervised tool has left where it took too long
        ended = [Ended(*json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
        failure = self._folder / "failure"
        if status == 1 and failure.exists():
            raise RuntimeError(failure.read_text())
        if status:
            # LLVM ends a process by itself, with status 1, where it has no memory left.
            ended.append(Ended(-signal.SIGABRT if status > 0 else status, *self._written()))
        return ended

    def _written(self) -> tuple[str, str]:
        out, err = ((self._folder / name).read_bytes().decode(errors="replace") for name in ("out", "err"))
        return out, err

    def _cases(self, batch: Sequence[Case], log: Path, supervised: bool) -> None:
        # Whoever runs this may have put something else in their places.
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")  # as Python's own
        with log.open("w") as record:
            for case in batch:
                if case.content is not None:
                    self.path.write_bytes(case.content)
                for number, name in ((1, "out"), (2, "err")):
                    file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
                    os.dup2(file, number)
                    os.close(file)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                words = [word.replace(FILE, str(self.path)) for word in case.words]
                signal.alarm(self.seconds * (2 if supervised else 1))
                status = self._status(case, words, supervised)
                signal.alarm(0)
                sys.stdout.flush()
                sys.stderr.flush()
                record.write(json.dumps((status, *self._written())) + "\n")
                record.flush()

    def _status(self, case: Case, words: list[str], supervised: bool) -> int:
        main: Any = self._mains[case.tool]
        sys.argv = [case.tool, *words]
        try:
            return int(main(None if supervised else words) or 0)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception:
            traceback.print_exc()
            return 1

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
