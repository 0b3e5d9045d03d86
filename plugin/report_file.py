"""Reports of many processes in one file: the option `report`.

Each line is one compile, as JSON. A line is appended by one `write` to a file that is open for appending, so
processes that write at once do not divide each other's lines, also where a file system knows no locks. The lock
is for the look at what the line before left.
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
"""Seconds to wait for a lock: who holds it longer was stopped, and a compile does not wait for that."""


def line_of(report: Report) -> str:
    """A report as one line of JSON, with its counts, and which process made it when."""
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
    for name in ("conversions", "gathers"):
        words[name] = [dataclasses.asdict(each) for each in words[name]]
    return json.dumps(words) + "\n"


def append(path: str, report: Report) -> None:
    """Add a line to the file, which is made where there is none.

    Raises OSError where it cannot be written, or not whole; the next line then begins a line of its own.
    """
    data = line_of(report).encode()
    # Not blocking: where the path is a pipe that is full, a compile would wait for its reader.
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
    """Lock the file until it is closed, if that can be had soon."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return None
    return None
