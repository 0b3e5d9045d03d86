"""Deliver the report of a kernel to listeners, logs and the files that the options name.

Each line of a file of reports (the option `report`) is one compile, as JSON, appended by one `write` to a file
opened for appending. So lines of processes that write at the same time do not mix, even if the file system has
no locks. The lock protects the check that the previous line is complete.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from triton_linear import __version__
from triton_linear.dialect.records import dataclass
from triton_linear.report import Outcome, Report, ReportWarning, publish
from triton_linear.setting import STDERR, Setting

_log = logging.getLogger("triton_linear")
_LONGEST = 150
"""Characters of a kernel's name in a file name; file systems take 255 bytes."""


@dataclass(frozen=True, slots=True)
class Outlets:
    """The listeners, logs and files of a setting, for kernels of a target."""

    setting: Setting
    target: str

    def tell(self, report: Report) -> list[Exception]:
        """Deliver a report; return the exceptions of listeners. The log warns of other processes' failures."""
        publish(report)
        self._append(report)
        told = self.setting.options.strict or (report.kernel, self.target) in self.setting.warned
        _log.log(
            logging.WARNING if report.outcome is Outcome.FAILED and not told else logging.DEBUG, "%s", report
        )
        failures = []
        for listener in self.setting.listeners:
            try:
                listener(report)
            except Exception as error:
                _log.exception("%s: on_report failed", report.kernel)
                failures.append(error)
        return failures

    def dump(self, kernel: str, before: str, after: str) -> None:
        """Write the module before and after the passes, if the option `dump` is on."""
        if not (folder := self.setting.options.dump):
            return
        try:
            _dump(Path(folder), kernel, self.target, before, after)
        except OSError as error:
            if self.setting.options.strict:
                raise
            _warn(f"kernel '{kernel}' cannot be written to {folder}: {error.strerror or error}")

    def _append(self, report: Report) -> None:
        """Tell what the option `report` names of the report; if that fails, warn once for the setting."""
        if not (path := self.setting.options.report):
            return
        if path == STDERR:
            print(report, file=sys.stderr, flush=True)
            return
        try:
            append(path, report)
        except OSError as error:
            if ("report", path) not in self.setting.warned:
                self.setting.warned.add(("report", path))
                _warn(f"reports cannot be written to {path}: {error.strerror or error}")


def _warn(text: str) -> None:
    warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=4)


def _dump(folder: Path, kernel: str, target: str, before: str, after: str) -> None:
    """Write `KERNEL-DIGEST.before.ttgir` and `KERNEL-DIGEST.after.ttgir` to a folder.

    The digest is that of the module before the passes and of the target. So each specialisation has its own
    files, and processes that compile the same kernel write the same files. Each file appears whole, as other
    threads and processes may read or write it.
    """
    import hashlib

    from triton_linear.dialect.store import write_whole

    digest = hashlib.sha256(f"{target}\0{before}".encode()).hexdigest()[:12]
    for side, text in (("before", before), ("after", after)):
        write_whole(folder / f"{kernel[:_LONGEST]}-{digest}.{side}.ttgir", text.encode())


_COUNTS = ("ours", "noop", "folded", "avoided", "kept", "emitted")
_PATIENCE = 1.0
"""Seconds to wait for the lock. A process that holds it longer is suspended, and a compile does not wait for
it."""


def line_of(report: Report) -> str:
    """A report as one line of JSON, with its counts, the date and the process."""
    words: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        "process": os.getpid(),
        "version": __version__,
    }
    for field in dataclasses.fields(report):
        words[field.name] = getattr(report, field.name)
        if field.name == "seen":
            words |= {name: getattr(report, name) for name in _COUNTS}
            words["made"] = len(report.made)
    words["outcome"] = report.outcome.name.lower()
    words["seconds"] = {phase: round(seconds, 6) for phase, seconds in report.seconds.items()}
    words["conversions"] = [dataclasses.asdict(each) for each in report.conversions]
    return json.dumps(words) + "\n"


def append(path: str, report: Report) -> None:
    """Append a line to the file; create the file if it does not exist.

    Raises OSError if the line cannot be written completely. The next report then starts a new line.
    """
    data = line_of(report).encode()
    # O_NONBLOCK: if the path is a full pipe, a compile must not wait for its reader.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        _lock(descriptor)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            data = b"\n" + data
        written = os.write(descriptor, data)
    finally:
        os.close(descriptor)
    if written < len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written")


def _lock(descriptor: int) -> None:
    """Lock the file until it is closed; give up after `_PATIENCE` seconds."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return None
    return None
