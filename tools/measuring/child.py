"""The process that runs a program and measures its kernels, for `triton-linear explain --measure` and `tune`:
`python -m triton_linear.tools.measuring.child PLAN`, where PLAN is a file with a `MeasuringPlan` as JSON.

The first launch of each kernel on each grid is measured, on copies of its arguments, right after the
program's own launch (`contest`). Each result is written to the plan's file of records at once, one JSON object
per line, because a kernel can crash the process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from triton_linear import __main__ as runner
from triton_linear.report import Report
from triton_linear.tools.measuring.parent import end_with_parent
from triton_linear.tools.support.copies import Copies, NoCopy
from triton_linear.tools.support.launches import Launch, Watch
from triton_linear.tools.support.modes import mode
from triton_linear.tools.support.timing import Clock, GpuClock
from triton_linear.variants import STOCK

_OWN_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
"""The attribute of a TritonGPU module with the warps of a kernel outside of warp-specialised regions."""
FAULT = 99
"""The exit status if a kernel has left the GPU unusable for this process."""
NO_ROOM = 98
"""The exit status if a record could not be written."""


@dataclass(frozen=True)
class MeasuringPlan:
    """The task of a child. `skip` has the pairs of a kernel's key and a mode that must not be run."""

    records: str
    script: str
    arguments: list[str]
    module: bool = False
    modes: list[str] = field(default_factory=list)
    skip: list[list[str]] = field(default_factory=list)
    seconds: float = 0.5
    grids: int = 4
    """The largest number of grids of a kernel that are timed."""
    decide: bool = True
    """Whether the fastest mode is to be found; else all are timed once."""
    decided: dict[str, list[str]] = field(default_factory=dict)
    """Further variants for some kernels, by the kernel's digest in decisions."""
    jobs: int = 1
    """The number of processes that compile modes in parallel."""
    parent: int = 0
    """The process with which the child must end; 0 for none."""

    def to_json(self) -> str:
        """The plan as JSON, from which `MeasuringPlan(**json.loads(...))` makes an equal one."""
        return json.dumps(dataclasses.asdict(self))


class Child:
    """Records what is measured of the launches that a `Watch` observes."""

    def __init__(self, plan: MeasuringPlan) -> None:
        self._plan = plan
        self._skip = {(key, name) for key, name in plan.skip}
        self._grids: Counter[str] = Counter()
        self._clocks: dict[tuple[int, bool], Clock] = {}
        self._records = open(plan.records, "a", encoding="utf-8")  # noqa: SIM115
        self.watch = Watch(self.visit)

    def record(self, **entry: Any) -> None:
        """Write a record. If that fails, as on a full disk, end the process, because its results would be
        lost.
        """
        try:
            print(json.dumps(entry), file=self._records, flush=True)
        except OSError:
            os._exit(NO_ROOM)

    def finish(self) -> None:
        """Record the numbers of launches."""
        self.record(launches=dict(self.watch.counts))

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """The function that measures a launch after it; None: show the next one like it too."""
        raise NotImplementedError

    def copies_of(self, launch: Launch, mode_name: str) -> Copies | None:
        """Copies of the arguments of a launch; None if there are none, with a record of that mode."""
        try:
            return Copies(launch.arguments, launch.types)
        except Exception as error:
            reason = str(error) if isinstance(error, NoCopy) else first_line(error)
            self.record(kernel=launch.key, mode=mode_name, problem=reason)
            return None

    def _guarded(self, launch: Launch, name: str, action: Callable[[], None]) -> None:
        """Call `action` unless the mode is to be skipped; record a failure, and exit if the GPU is unusable."""
        if (launch.key, name) in self._skip:
            return
        self.record(kernel=launch.key, begin=name)
        try:
            action()
            self.synchronize()
        except Exception as error:
            self.failed(launch.key, name, error)

    def failed(self, key: str, name: str, error: Exception) -> None:
        """Record why a mode of a kernel has no ratio; exit if the GPU is unusable."""
        self.record(kernel=key, mode=name, problem=first_line(error))
        try:
            self.synchronize()
        except Exception:
            os._exit(FAULT)

    def _clock(self, flush: bool) -> Clock:
        """The clock of the current GPU; `flush`: it empties the caches first."""
        import torch

        device = torch.cuda.current_device()
        if (device, flush) not in self._clocks:
            self._clocks[device, flush] = GpuClock(flush)
        return self._clocks[device, flush]

    def synchronize(self) -> None:
        """Wait for the GPU. Raises an exception if a kernel failed."""
        import torch

        torch.cuda.synchronize()

    def _gpu(self) -> str:
        """The name of the current GPU."""
        import torch

        return str(torch.cuda.get_device_name())


def nothing() -> None:
    """The function that follows a launch that is not timed."""


def first_line(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"


def compiled(kernel: Any, name: str, cached: bool = False) -> tuple[Any, list[Report]]:
    """Compile the source of `kernel` in mode `name`; return the kernel and the plugin's reports.

    In every mode but `stock` the kernel is compiled even if Triton's cache has it, so that there are reports,
    unless `cached` is set.
    """
    import triton
    from triton import knobs

    source = getattr(kernel.src, "path", kernel.src)
    with mode(name) as reports, knobs.compilation.scope():
        if name != STOCK and not cached:
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


def main(plan: MeasuringPlan) -> None:
    """Run the program, observed by the child that the plan describes."""
    if plan.parent:
        end_with_parent(plan.parent)
    from triton_linear.tools.measuring.contest import Contest

    child = Contest(plan)
    import triton  # noqa: F401

    child.watch.start()
    sys.argv = [plan.script, *plan.arguments]
    try:
        if plan.module:
            runner._run_module(plan.script, argparse.ArgumentParser(prog="triton-linear"))
        else:
            runner._run_file(os.path.abspath(plan.script))
    finally:
        child.finish()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        main(MeasuringPlan(**json.load(file)))
