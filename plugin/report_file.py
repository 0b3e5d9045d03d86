"""Append the reports of many processes to one file: the option `report`.

Each line is one compile, as JSON. A line is appended by one `write` to a file opened for appending. So lines of
processes that write at the same time do not mix, even if the file system has no locks. The lock protects the
check that the previous line is complete.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import json
import os
import time
from typing import Any

from triton_linear import __version__
from triton_linear.report import Report

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
