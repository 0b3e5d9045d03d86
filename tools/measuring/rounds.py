"""Measuring the kernels of a program in child processes, each of which runs it.

What a child measures can end it: a kernel may fault, or not come back. What it was at is left out by the next
child, and what has a figure is not measured again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from triton_linear.tools.measuring.child import FAULT, NO_ROOM, MeasuringPlan
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.launches import ENVIRONMENT

CHILD = "triton_linear.tools.measuring.child"
PATIENCE = 120.0
"""Seconds that one comparison of one kernel may take before its child is ended."""
TIMED = 4
"""How often a child times for as long as its plan says before it records something: twice, in two states of the
caches each."""
MOST_CHILDREN = 20
_POLL = 0.2
_GPU = """
import sys
try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
if not torch.cuda.is_available():
    sys.exit("PyTorch finds none")
print(torch.cuda.get_device_name())
"""
"""Asks for the GPU in a process of its own: it takes seconds, and memory of the GPU."""


def check_script(script: str, module: bool) -> None:
    """Fail unless there is such a program."""
    if module:
        return
    path = Path(script)
    try:
        source = path.read_bytes()
    except IsADirectoryError:
        fail("is a folder, and not a Python script", script)
    except OSError as error:
        fail(f"cannot open script: {error.strerror}", script)
    try:
        compile(source, script, "exec", dont_inherit=True)
    except SyntaxError as error:
        fail(f"is not a Python script: {error.msg}", script, error.lineno or 0, error.offset or 0)
    except ValueError as error:
        fail(f"is not a Python script: {error}", script)


def gpu_name(what: str) -> str:
    """The GPU's name; fails where there is none, which `what` needs."""
    asked = subprocess.run(
        [sys.executable, "-c", _GPU], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or ["the process that asked for it crashed"]
        fail(f"{what} needs a GPU to measure on: {lines[-1]}")
    return asked.stdout.strip().splitlines()[-1]


class Stop(Protocol):
    """Tells whether there is still use for what a child does, as an event of `threading`."""

    def is_set(self) -> bool:
        """Whether there is none any more."""


class Stopped(Exception):
    """A child was ended because there is no use for what it measures any more."""


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status, or minus a signal, and whether it was ended for taking too long."""

    status: int
    too_long: bool = False


Spawn = Callable[[MeasuringPlan, bool], Ended]
"""Runs a child to its end; whether what the program prints is shown."""


def rounds(plan: MeasuringPlan, folder: Path, spawn: Spawn, loud: bool) -> tuple[list[dict[str, Any]], Ended]:
    """Run children until one is not ended by what it measured. What has a figure is not measured again."""
    records: list[dict[str, Any]] = []
    skip = plan.skip
    for number in range(MOST_CHILDREN):
        path = folder / f"{plan.modes[0]}-{number}.jsonl"
        path.touch()
        ended = spawn(replace(plan, records=str(path), skip=skip), loud and number == 0)
        if ended.status == NO_ROOM:
            fail("cannot keep records: the disk is full, or it is gone", str(folder))
        found = read_records(path)
        records += found
        at = unfinished(found, ended)
        if at is None:
            return records, ended
        key, mode = at
        if not _has_outcome(found, key, mode):
            records.append({"kernel": key, "mode": mode, "problem": how(ended)})
        skip = [*plan.skip, *done(records)]
    return records, ended


def run_child(
    plan: MeasuringPlan,
    loud: bool,
    command: Sequence[str] | None = None,
    patience: float = PATIENCE,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[], None] | None = None,
    stop: Stop | None = None,
) -> Ended:
    """Run one child. It is ended where one comparison takes longer than `patience`, in seconds, beside what the
    plan gives it for timing.

    environment: what it has other than this process. watch: called when it has recorded something. stop: where
    this is set, the child is ended, and Stopped raised.
    """
    patience += TIMED * plan.seconds
    path = Path(plan.records)
    file = path.with_suffix(".plan")
    file.write_text(replace(plan, parent=os.getpid()).to_json(), encoding="utf-8")
    child = subprocess.Popen(
        [*(command or (sys.executable, "-m", CHILD)), str(file)],
        stdout=None if loud else subprocess.DEVNULL,
        stderr=None if loud else subprocess.DEVNULL,
        stdin=None if loud else subprocess.DEVNULL,
        env={**os.environ, **ENVIRONMENT, **(environment or {})},
        start_new_session=True,
    )
    size, since = -1, time.monotonic()
    try:
        while True:
            if stop is not None and stop.is_set():
                raise Stopped
            try:
                return Ended(child.wait(_POLL))
            except subprocess.TimeoutExpired:
                pass
            if path.stat().st_size != size:
                size, since = path.stat().st_size, time.monotonic()
                if watch is not None:
                    watch()
            elif time.monotonic() - since > patience and _under_way(read_records(path)) is not None:
                _end(child)
                return Ended(child.wait(), too_long=True)
    except BaseException:
        _end(child)
        child.wait()
        raise


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and what it started; it leads a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records in a file; the last line may be cut off."""
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _under_way(records: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The kernel and mode that a child is at, if it is at one."""
    for record in reversed(records):
        if "begin" in record:
            return record["kernel"], record["begin"]
        if "ratio" in record or "problem" in record or "launches" in record:
            return None
    return None


def unfinished(records: Sequence[Mapping[str, Any]], ended: Ended) -> tuple[str, str] | None:
    """The kernel and mode by which a child ended; None where it ended by itself."""
    if ended.status == FAULT:
        begun = [record for record in records if "begin" in record]
        return (begun[-1]["kernel"], begun[-1]["begin"]) if begun else None
    return _under_way(records) if ended.status < 0 or ended.too_long else None


def _has_outcome(records: Iterable[Mapping[str, Any]], key: str, mode: str) -> bool:
    return any(
        record.get("kernel") == key
        and record.get("mode") == mode
        and ("ratio" in record or "problem" in record)
        for record in records
    )


def done(records: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """The pairs of kernel and mode that have a figure, or will not get one."""
    pairs = {
        (record["kernel"], record["mode"]): None
        for record in records
        if "mode" in record and ("ratio" in record or "problem" in record)
    }
    return [list(pair) for pair in pairs]


def how(ended: Ended) -> str:
    """How a child ended that gave no figure, in words."""
    if ended.too_long:
        return "did not end"
    if ended.status < 0:
        return f"crashed with {signal.Signals(-ended.status).name}"
    return "faulted"
