"""`triton-linear headroom SCRIPT`: what a program's layout conversions cost, and how much of that ours saves.

The program runs in child processes. The first compares ours with stock Triton; the second compares stock Triton
with kernels whose conversions are free (passes/conversions/free.py). Those compute garbage, on copies of the
arguments, and may go wrong; what a child was at when it ended is left out by the next one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_linear.tools.headroom.child import FAULT, HeadroomPlan
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail
from triton_linear.tools.support.launches import ENVIRONMENT
from triton_linear.tools.support.modes import FREE, OURS
from triton_linear.tools.support.progress import told

CHILD = "triton_linear.tools.headroom.child"
PATIENCE = 120.0
"""Seconds that one comparison of one kernel may take before its child is ended."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `triton-linear headroom`."""
    parser.usage = "%(prog)s [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    parser.add_argument("--conversions", action="store_true", help="also leave out one conversion at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.5,
        help="time for each comparison of a kernel (default %(default)s)",
    )
    parser.add_argument("--flush", action="store_true", help="empty the L2 cache before each timed launch")
    parser.add_argument(
        "--grids", type=int, default=4, help="time a kernel on so many grids at most (default %(default)s)"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="Python program that runs kernels on a GPU")
    rest = parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script"
    )
    rest.required = False


def run(chosen: argparse.Namespace) -> int:
    """Run the command; 1 where the program failed."""
    check_script(chosen.script, chosen.module)
    if chosen.json is not None and not chosen.json.resolve().parent.is_dir():
        fail("cannot write there: no such folder", str(chosen.json))
    device = gpu_name()
    with tempfile.TemporaryDirectory(prefix="triton-linear-headroom-") as folder:
        plan = HeadroomPlan(
            records="",
            script=chosen.script,
            arguments=list(chosen.arguments),
            module=chosen.module,
            seconds=chosen.seconds,
            flush=chosen.flush,
            grids=chosen.grids,
        )
        records, status = measure(plan, chosen.conversions, Path(folder))
    return show(records, status, device, chosen)


def show(records: Sequence[Mapping[str, Any]], status: int, device: str, chosen: argparse.Namespace) -> int:
    """Print what was found; 1 where the program failed."""
    from rich.console import Console

    from triton_linear.tools.headroom import figures
    from triton_linear.tools.support.console import WIDTH_WITHOUT_TERMINAL
    from triton_linear.tools.support.console import show as print_table

    kernels = figures.kernels_of(records)
    if not kernels:
        why = f"the program ended with status {status}" if status else "the program ended"
        fail(f"{why} without launching a kernel of Triton's", chosen.script)
    if chosen.json is not None:
        found = figures.as_json(kernels, device, [chosen.script, *chosen.arguments])
        chosen.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_WITHOUT_TERMINAL)
    print_table(console, figures.table_of(kernels, device, chosen.conversions))
    console.print(figures.sentence(kernels), highlight=False, soft_wrap=True)
    if status:
        message = f"the program ended with status {status}; the figures are for what it did before"
        raise ToolError(Diagnostic("error", message, chosen.script))
    return 0


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


def gpu_name(what: str = "headroom") -> str:
    """The GPU's name; fails where there is none, which `what` needs."""
    asked = subprocess.run(
        [sys.executable, "-c", _GPU], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or ["the process that asked for it crashed"]
        fail(f"{what} needs a GPU to measure on: {lines[-1]}")
    return asked.stdout.strip().splitlines()[-1]


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status, or minus a signal, and whether it was ended for taking too long."""

    status: int
    too_long: bool = False


Spawn = Callable[[HeadroomPlan, bool], Ended]
"""Runs a child to its end; whether what the program prints is shown."""


def measure(
    plan: HeadroomPlan, each: bool, folder: Path, spawn: Spawn | None = None
) -> tuple[list[dict[str, Any]], int]:
    """The records of all children, and the exit status of the program in the first."""
    spawn = spawn or run_child
    records, ended = _rounds(replace(plan, modes=[OURS]), folder, spawn, loud=True)
    if any(record.get("seen") for record in records):
        known = replace(plan, modes=[FREE], each=each, skip=_done(records))
        with told("timing the kernels with free conversions"):
            records += _rounds(known, folder, spawn, loud=False)[0]
    return records, ended.status


def _rounds(plan: HeadroomPlan, folder: Path, spawn: Spawn, loud: bool) -> tuple[list[dict[str, Any]], Ended]:
    """Run children until one is not ended by what it measured. What has a figure is not measured again."""
    records: list[dict[str, Any]] = []
    skip = plan.skip
    for number in range(MOST_CHILDREN):
        path = folder / f"{plan.modes[0]}-{number}.jsonl"
        path.touch()
        ended = spawn(replace(plan, records=str(path), skip=skip), loud and number == 0)
        found = read_records(path)
        records += found
        at = unfinished(found, ended)
        if at is None:
            return records, ended
        key, mode = at
        if not _has_outcome(found, key, mode):
            records.append({"kernel": key, "mode": mode, "problem": how(ended)})
        skip = [*plan.skip, *_done(records)]
    return records, ended


def run_child(
    plan: HeadroomPlan, loud: bool, command: Sequence[str] | None = None, patience: float = PATIENCE
) -> Ended:
    """Run one child. It is ended where one comparison takes longer than `patience`, in seconds."""
    path = Path(plan.records)
    file = path.with_suffix(".plan")
    file.write_text(plan.to_json(), encoding="utf-8")
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


def _done(records: Iterable[Mapping[str, Any]]) -> list[list[str]]:
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
