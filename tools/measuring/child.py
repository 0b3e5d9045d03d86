"""The process that runs a program and measures its kernels, for `triton-linear explain --measure` and `tune`:
`python -m triton_linear.tools.measuring.child NUMBER`, where NUMBER is the file descriptor of a connection. It
receives a `MeasuringPlan` there, and says what it finds at once, because a kernel can crash the process.

The first launch of each kernel on each grid is measured, on copies of its arguments, right after the program's
own launch. Each mode is compiled and run once, and its results are compared with stock Triton's. Modes with
equal code count as one. They are timed alternately, with warm and with empty caches, in two phases: the first
has all, and selects one; the second has the selected one, stock Triton and the plugin. Only the times of the
second decide, because those of the first are biased in favour of the selected mode.

It says, in tuples, for `rounds.Heard`:

    seen, KEY, NAME, GRID, MODULE   a new launch, and the digest of its TTGIR
    begin, KEY, CONTEST, ""         stock Triton's kernel runs, or kernels are timed
    begin, KEY, MODE, ""            compiling begins
    begin, KEY, MODE, CODE          running begins
    problem, KEY, MODE, REASON      why a mode takes no part or, for CONTEST, why there is no comparison
    end, KEY, COMPARISON            the result; None if there is none
    counts, {KEY: COUNT}            launches, at the end of the program
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import runpy
import signal
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from triton_linear import hook
from triton_linear.decisions import NONE, Circumstances, ptxas_version
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.report import Report
from triton_linear.setting import Options
from triton_linear.tools.measuring import choose
from triton_linear.tools.measuring.choose import Times
from triton_linear.tools.measuring.launches import GpuClock, Launch, Watch, again, digest, side_by_side
from triton_linear.tools.measuring.results import Copies, NoCopy, Results
from triton_linear.tools.measuring.rounds import CONTEST, IDLE, Comparison, MeasuringPlan
from triton_linear.variants import OURS, STOCK, variant

FIRST = 0.5
"""The part of the plan's seconds that the first phase takes; the second takes all. A third phase between them,
of those that may be the fastest, would make what is decided 0.04 % faster in the mean at most (simulated: six
variants, a standard deviation of their speeds of up to 3 %, noise of 0.3 to 3 %)."""
_OWN_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
"""The attribute of a TritonGPU module with the warps of a kernel outside of warp-specialised regions."""
_PR_SET_PDEATHSIG = 1
"""The option of Linux's `prctl` that sets the signal sent when the thread that started the process ends."""


class LeftOut(Exception):
    """A mode, or a launch, takes no part; the message says why."""


@dataclass
class Field:
    """The modes that are compared for a launch.

    copies: of its arguments. before: their contents. expected: stock Triton's results. runs: functions that
    launch the kernels that take part, by the first mode with that code, stock Triton's first. names: the modes
    with equal code, by its digest. exact: modes in `runs` with stock Triton's bits. kernel, target: those of
    the kernel in decisions.
    """

    launch: Launch
    copies: Copies
    before: Results
    expected: Results
    runs: dict[str, Callable[[], None]]
    names: dict[str, list[str]]
    exact: set[str]
    kernel: str = ""
    target: str = ""


class Child:
    """Compares the plan's modes for the launches that a `Watch` observes. tell: sends a tuple to the parent."""

    def __init__(self, plan: MeasuringPlan, tell: Callable[[tuple[Any, ...]], object]) -> None:
        self._plan = plan
        self._send = tell
        self._lock = threading.Lock()
        self._grids: Counter[str] = Counter()
        self._clock = functools.cache(lambda device, flush: GpuClock(flush))
        self.watch = Watch(self.visit)

    def tell(self, *said: Any) -> None:
        """Say something, in whichever thread."""
        with self._lock:
            self._send(said)

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Copy the arguments of a launch, and return the function that measures it; None while a graph is
        captured, to be shown the next launch like it."""
        import torch

        if torch.cuda.is_current_stream_capturing():
            return None
        kernel, key = launch.kernel, launch.key
        self.tell("seen", key, kernel.metadata.name, launch.grid, digest(kernel.asm.get("ttgir", "")))
        self._grids[kernel.hash] += 1
        if (key, CONTEST) in self._plan.skip or self._grids[kernel.hash] > self._plan.grids:
            return nothing
        try:
            copies = Copies(launch.arguments, launch.types)
        except Exception as error:
            self.tell("problem", key, CONTEST, reason(error))
            self.tell("end", key, None)
            return nothing
        return functools.partial(self._measure, launch, copies)

    def _measure(self, launch: Launch, copies: Copies) -> None:
        found = None
        self.tell("begin", launch.key, CONTEST, "")
        try:
            found = self._compare(launch, copies)
        except Exception as error:
            self._failed(launch.key, CONTEST, error)
        self.tell("end", launch.key, found)

    def _failed(self, key: str, name: str, error: Exception) -> None:
        """Say why a mode has no times. If the error has left the GPU unusable for this process, end it, as a
        kernel that crashes does."""
        self.tell("problem", key, name, reason(error))
        try:
            self._synchronize()
        except Exception:
            os.kill(os.getpid(), signal.SIGKILL)

    def _compare(self, launch: Launch, copies: Copies) -> Comparison:
        """Compare the modes of a launch. Raises LeftOut if that gives nothing."""
        before = Results(copies)
        stock, _ = compiled(launch.kernel, STOCK)
        run = again(stock, launch, copies.arguments)
        expected, once_more = (self._results(run, copies) for _ in range(2))
        if differs := expected.difference(once_more, before):
            raise LeftOut(f"stock Triton's results vary: {differs}")
        field = Field(launch, copies, before, expected, {STOCK: run}, {_code(stock): [STOCK]}, {STOCK})
        for name in self._plan.modes:
            if (launch.key, name) not in self._plan.skip:
                self.tell("begin", launch.key, name, "")
                try:
                    self._enter(field, name)
                except Exception as error:
                    self._failed(launch.key, name, error)
        if not self._plan.decide:
            return self._comparison(field, [self._timed(field, field.runs, 1.0)], STOCK)
        if len(field.runs) == 1:
            raise LeftOut(IDLE)
        phases = [self._timed(field, field.runs, FIRST)]
        best = choose.candidate(list(field.runs), phases[0])
        if best != STOCK:
            finalists = [name for name in field.runs if name in (STOCK, OURS, best)]
            phases.append(self._timed(field, finalists, 1.0))
        return self._comparison(field, phases, choose.decide(phases[-1], best))

    def _enter(self, field: Field, name: str) -> None:
        """Compile a mode, and run it if its code is new. Raises LeftOut if it takes no part.

        Digest and target are those of the plugin's report, because TRITON_OVERRIDE_ARCH may change the target.
        """
        launch = field.launch
        kernel, (*_, report) = compiled(launch.kernel, name)
        field.kernel, field.target = report.key, report.target
        if report.error is not None:
            raise LeftOut(f"stock Triton does it: {report.error}")
        code = _code(kernel)
        names = field.names.setdefault(code, [])
        names.append(name)
        if len(names) > 1 or (launch.key, code) in self._plan.skip:
            return
        self.tell("begin", launch.key, name, code)
        run = again(kernel, launch, field.copies.arguments)
        results = self._results(run, field.copies)
        if differs := results.difference(field.expected, field.before):
            raise LeftOut(f"results: {differs}")
        field.runs[name] = run
        if results.same(field.expected):
            field.exact.add(name)

    def _results(self, run: Callable[[], None], copies: Copies) -> Results:
        copies.restore()
        run()
        self._synchronize()
        return Results(copies)

    def _timed(self, field: Field, names: Iterable[str], part: float) -> list[Times]:
        """Times of modes with warm caches and with empty ones; each takes `part` of the plan's seconds."""
        import torch

        self.tell("begin", field.launch.key, CONTEST, "")
        device = torch.cuda.current_device()
        once = "tt.atomic" in field.launch.kernel.asm.get("ttgir", "")
        return [
            side_by_side(
                {name: field.runs[name] for name in names},
                self._clock(device, flush),
                before=field.copies.restore,
                seconds=part * self._plan.seconds,
                in_a_row=not once and not flush,
            )
            for flush in (False, True)
        ]

    def _comparison(self, field: Field, phases: list[list[Times]], fastest: str) -> Comparison:
        """The record of a comparison; the ratio of a mode is that of the last phase that it was in."""
        import torch

        target = field.target
        gpu = str(torch.cuda.get_device_name()) if target.startswith("cuda") else ""
        versions = (installed() or "", ptxas_version(target), CODE_VERSION)
        alike = {name: names[0] for names in field.names.values() for name in names if names[0] in field.runs}
        last = {name: times for times in phases for name in times[0]}
        return Comparison(
            Circumstances(field.kernel, gpu, target, *versions),
            statistics.median(phases[-1][0][STOCK]),
            {name: choose.faster(STOCK, first, last[first]) for name, first in alike.items()},
            fastest,
            frozenset(name for name, first in alike.items() if first in field.exact),
        )

    def _synchronize(self) -> None:
        """Wait for the GPU. Raises an exception if a kernel failed."""
        import torch

        torch.cuda.synchronize()


def nothing() -> None:
    """The function that follows a launch that is not timed."""


def reason(error: Exception) -> str:
    """Why something takes no part: the first line of the error, with its type if it is of other origin."""
    if isinstance(error, LeftOut | NoCopy):
        return str(error)
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"


def mode(name: str) -> AbstractContextManager[list[Report]]:
    """Compile a variant in the block, in this thread; the list receives the reports of the compiles. Decisions
    of `triton-linear tune` are ignored."""
    return hook.pinned(variant(name).of(Options(decisions=NONE, measured=True)))


def compiled(kernel: Any, name: str) -> tuple[Any, list[Report]]:
    """Compile the source of `kernel` in mode `name`; return the kernel and the plugin's reports.

    In every mode but `stock` the kernel is compiled even if Triton's cache has it, so that there are reports.
    """
    import triton
    from triton import knobs

    source = getattr(kernel.src, "path", kernel.src)
    with mode(name) as reports, knobs.compilation.scope():
        if name != STOCK:
            knobs.compilation.always_compile = True
        result = triton.compile(source, target=kernel.metadata.target, options=_options(kernel))
    return result, reports


def _options(kernel: Any) -> dict[str, Any]:
    """The options that a kernel was compiled with, from its metadata. Those count as `num_warps` the warps of
    warp-specialised regions too, so the kernel's own are taken from its IR."""
    options = {name: _as_option(value) for name, value in kernel.metadata._asdict().items()}
    own = _OWN_WARPS.search(str(kernel.asm.get("ttgir", "")))
    return options | ({"num_warps": int(own[1])} if own else {})


def _as_option(value: Any) -> Any:
    """A value of a kernel's metadata as a hashable option: JSON has turned tuples into lists."""
    return tuple(map(_as_option, value)) if isinstance(value, list) else value


def _code(kernel: Any) -> str:
    """A digest of the machine code of a compiled kernel."""
    return hashlib.sha256(bytes(kernel.kernel)).hexdigest()[:32]


def main(connection: Connection) -> None:
    """Run the program of the plan that comes, observed by a child; end with the process that sends it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    plan: MeasuringPlan = connection.recv()
    child = Child(plan, connection.send)
    import triton  # noqa: F401

    child.watch.start()
    sys.argv = [plan.script, *plan.arguments]
    try:
        if plan.module:
            runpy.run_module(plan.script, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(plan.script))
            runpy.run_path(plan.script, run_name="__main__")
    finally:
        child.tell("counts", dict(child.watch.counts))


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
