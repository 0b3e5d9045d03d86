"""What a launch of a contest takes on the host, beside Triton's launcher and the driver.

    python -m bench.contest_launch [--output FOLDER]

There is no GPU: launchers do nothing, and functions of the driver are those of a small library in C, which do
nothing either. So the figures are of this package's Python, and of its calls of C. Each is the least of some
rounds, in processor time, with that of the launcher alone taken off.

- turns: the kernels take turns, and the stream has work;
- turns, idle: the stream has none, so a pause comes first;
- captured: the stream captures a graph;
- known: the winner of the size is known, and the contest goes on for other sizes.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from triton_linear.contests.events import Clock, clock_of
from triton_linear.contests.launches import Entrant, Known, LaunchContest

from .harness.options import Parser
from .harness.report import page, table
from .harness.results import publish

LAUNCHES = 120
"""Launches of one contest: too few for a verdict on times that vary as these."""
ROUNDS = 400
ARGUMENTS = (None, None, None, 1 << 40, 1 << 41, 4096, 4096, 1)
"""Launch metadata, hooks, and what a kernel takes."""
DRIVER = """
#include <stdlib.h>
static int idle = 0, capturing = 0;
int cuEventCreate(void **event, unsigned flags) { *event = (void *)1; return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventElapsedTime(float *ms, void *begin, void *end) { *ms = 1 + rand() % 100; return 0; }
int cuStreamIsCapturing(void *stream, int *found) { *found = capturing; return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuModuleLoadData(void **module, const void *image) { *module = (void *)2; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = (void *)3; return 0; }
int cuStreamQuery(void *stream) { return idle ? 0 : 600; }
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                   void *stream, void **parameters, void **extra) { return 0; }
void set(int idle_, int capturing_) { idle = idle_; capturing = capturing_; }
"""
CASES = {"turns": (0, 0, False), "turns, idle": (1, 0, False), "captured": (0, 1, False), "known": (0, 0, True)}
"""For each case: whether the stream is idle, whether it captures, whether the winner is known."""


def driver(folder: str) -> Path:
    """The driver that does nothing."""
    source, library = Path(folder, "driver.c"), Path(folder, "driver.so")
    source.write_text(DRIVER)
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("contest_launch: there is no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


def launcher(*arguments: Any) -> None:
    """Triton's, which takes 5 to 12 us where there is a GPU."""


def contest(clock: Clock, known: bool) -> LaunchContest:
    """One that does not end."""
    ours = SimpleNamespace(run=launcher, function=1, packed_metadata=())
    winners = {1: Known("ours", ("stock", "ours"))} if known else {}
    entrants = [Entrant("ours", ours)]
    return LaunchContest(launcher, entrants, clock, lambda *found: None, lambda *found: None, winners)


def microseconds(run: Callable[..., Any]) -> float:
    """What a launch takes."""
    start = time.process_time()
    for _ in range(LAUNCHES):
        run(1, 1, 1, 7, 1, (), *ARGUMENTS)
    return 1e6 * (time.process_time() - start) / LAUNCHES


def measured() -> dict[str, float]:
    """By case, microseconds beside the launcher."""
    with tempfile.TemporaryDirectory() as folder:
        library = driver(folder)
        clock = clock_of("cuda", lambda: str(library))
        assert clock is not None
        told = ctypes.CDLL(str(library))
        alone: list[float] = []
        found: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(ROUNDS):  # in turns, as a machine is not always equally fast
            alone.append(microseconds(launcher))
            for name, (idle, capturing, known) in CASES.items():
                told.set(idle, capturing)
                found[name].append(microseconds(contest(clock, known)))
    return {name: min(each) - min(alone) for name, each in found.items()}


def markdown(result: dict[str, Any]) -> str:
    rows = [(name, f"{found:.1f}") for name, found in result["microseconds"].items()]
    where = f"Python {result['python']}, {result['machine']}, {result['date']}"
    return page(f"A launch of a contest on the host, {where}.", "", *table("case | µs:", rows))


def main(argv: Sequence[str] | None = None) -> int:
    options = Parser("contest_launch", __doc__).output().parse_args(argv)
    publish(options.output, "contest_launch", markdown, microseconds=measured())
    return 0


if __name__ == "__main__":
    sys.exit(main())
