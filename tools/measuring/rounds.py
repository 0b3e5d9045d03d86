"""Measure the kernels of a program in child processes, each of which runs the program.

A kernel may crash or hang the child that measures it. The next child then skips that kernel and mode, and all
that have results already.
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
from typing import Any

from triton_linear.tools.measuring.child import FAULT, NO_ROOM, MeasuringPlan
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.launches import ENVIRONMENT

CHILD = "triton_linear.tools.measuring.child"
PATIENCE = 120.0
"""The time limit for one comparison of a kernel, in seconds, after which its child is killed."""
TIMED = 4
"""The number of times that a child measures for the plan's seconds before it writes a record: two phases, in
two states of the caches each."""
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
"""Prints the GPU's name in a child process, because it takes seconds, and GPU memory."""


def check_script(script: str, module: bool) -> None:
    """Fail unless the script is a readable Python file; modules are not checked."""
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
    """The GPU's name. Fails if there is none; `what` is the command that needs it."""
    process = subprocess.run(
        [sys.executable, "-c", _GPU], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["the process that asked for it crashed"]
        fail(f"{what} needs a GPU to measure on: {lines[-1]}")
    return process.stdout.strip().splitlines()[-1]


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status, or the negative number of a signal, and whether it exceeded its
    time.
    """

    status: int
    too_long: bool = False


Spawn = Callable[[MeasuringPlan, bool], Ended]
"""Runs a child to its end; the second argument says whether the program's output is shown."""


def rounds(plan: MeasuringPlan, folder: Path, spawn: Spawn, loud: bool) -> tuple[list[dict[str, Any]], Ended]:
    """Run children until one is not ended by a kernel that it measured; return all records, and how the last
    ended.
    """
    records: list[dict[str, Any]] = []
    skip = plan.skip
    for number in range(MOST_CHILDREN):
        path = folder / f"{plan.modes[0]}-{number}.jsonl"
        path.touch()
        ended = spawn(replace(plan, records=str(path), skip=skip), loud and number == 0)
        if ended.status == NO_ROOM:
            fail("cannot keep records: the disk is full, or it is gone", str(folder))
        added = read_records(path)
        records += added
        culprit = unfinished(added, ended)
        if culprit is None:
            return records, ended
        key, mode = culprit
        if not _has_outcome(added, key, mode):
            records.append({"kernel": key, "mode": mode, "problem": how(ended)})
        skip = [*plan.skip, *done(records)]
    return records, ended


def run_child(
    plan: MeasuringPlan,
    loud: bool,
    command: Sequence[str] | None = None,
    patience: float = PATIENCE,
    watch: Callable[[], None] | None = None,
) -> Ended:
    """Run a child. It is killed if a comparison takes more than `patience` seconds, not counting the plan's
    time for measuring.

    watch: called when the child has written records.
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
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )
    size, since = -1, time.monotonic()
    try:
        while True:
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
    """Kill a child and its own children, which are in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records in a file; an incomplete last line is left out."""
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _under_way(records: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The kernel and mode that a child is measuring, from its records; None if it is measuring none."""
    for record in reversed(records):
        if "begin" in record:
            return record["kernel"], record["begin"]
        if "ratio" in record or "problem" in record or "launches" in record:
            return None
    return None


def unfinished(records: Sequence[Mapping[str, Any]], ended: Ended) -> tuple[str, str] | None:
    """The kernel and mode that ended a child; None if no kernel ended it."""
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
    """The pairs of kernel and mode that have a result, or a reason for having none."""
    pairs = {
        (record["kernel"], record["mode"]): None
        for record in records
        if "mode" in record and ("ratio" in record or "problem" in record)
    }
    return [list(pair) for pair in pairs]


def how(ended: Ended) -> str:
    """Why a child that was ended by a kernel has no result for it, in words."""
    if ended.too_long:
        return "did not end"
    if ended.status < 0:
        return f"crashed with {signal.Signals(-ended.status).name}"
    return "faulted"
