"""Measure the kernels of a program in child processes, each of which runs the program.

A kernel may crash or hang the child that measures it. The next child then skips that kernel and mode, and all
that have results already.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from triton_linear.tools.measuring.records import CONTEST, Heard, Launched, MeasuringPlan
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.launches import ENVIRONMENT

CHILD = "triton_linear.tools.measuring.child"
PATIENCE = 120.0
"""The time limit for compiling, running or timing a kernel, in seconds, after which its child is killed."""
TIMED = 2
"""The number of times that a child measures for the plan's seconds in one step: in two states of the caches."""
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


def rounds(
    plan: MeasuringPlan, loud: bool = False, ended: Callable[[Launched], object] = lambda launch: None
) -> tuple[list[Launched], int]:
    """Run children until one is not ended by a kernel that it measured; return all launches, and the exit
    status of the last child.

    loud: whether the first child's output is shown. ended: called for each launch that has been measured.
    """
    heard = Heard(ended)
    lost: set[tuple[str, str]] = set()
    for number in range(MOST_CHILDREN):
        done = {
            (key, CONTEST) for key, one in heard.launches.items() if one.comparison or CONTEST in one.problems
        }
        status, why = run_child(replace(plan, skip=frozenset(done | lost)), heard, loud and number == 0)
        if not why or heard.under_way is None:
            break
        key, mode, code = heard.under_way
        lost.add((key, code or mode))
        heard.hear(("problem", key, mode, why))
        if mode == CONTEST:
            heard.hear(("end", key, None))
    return list(heard.launches.values()), status


def run_child(
    plan: MeasuringPlan,
    heard: Heard,
    loud: bool,
    command: Sequence[str] = (sys.executable, "-m", CHILD),
    patience: float = PATIENCE,
) -> tuple[int, str]:
    """Run a child; return its exit status, or the negative number of a signal, and how it ended if not by
    itself. It is killed if a step of a comparison takes more than `patience` seconds, not counting the plan's
    time for measuring.
    """
    patience += TIMED * plan.seconds
    heard.under_way, why, since = None, "", time.monotonic()
    stream = None if loud else subprocess.DEVNULL
    ours, theirs = multiprocessing.Pipe()
    with ours:
        child = subprocess.Popen(
            [*command, str(theirs.fileno())],
            stdin=stream,
            stdout=stream,
            stderr=stream,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )
        theirs.close()
        try:
            with contextlib.suppress(OSError):  # it has ended
                ours.send(plan)
            while child.poll() is None or ours.poll():
                if ours.poll(_POLL):
                    try:
                        said = ours.recv()
                    except (EOFError, OSError):
                        break
                    heard.hear(said)
                    since = time.monotonic()
                elif heard.under_way is not None and time.monotonic() - since > patience:
                    why = "did not end"
                    _kill(child)
            status = child.wait()
        except BaseException:
            _kill(child)
            child.wait()
            raise
    return status, why or (f"crashed with {signal.Signals(-status).name}" if status < 0 else "")


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a child and its own children, which are in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
