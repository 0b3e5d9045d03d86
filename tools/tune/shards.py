"""Measure the launches of a program on several GPUs of this machine at once: each runs the program and measures
its share. Their records are joined to the records of one run.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton_linear.tools.measuring.ahead import ENDED, read_compiled
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import Ended, Stopped, read_records, rounds, run_child
from triton_linear.tools.support.progress import say

Records = list[dict[str, Any]]
Watcher = Callable[[], None]

VISIBLE = "CUDA_VISIBLE_DEVICES"
COMPILED = "compiled.json"
FIRST = "0"
"""The folder of the share whose program prints on the terminal."""
_POLL = 0.1


def measure_share(
    plan: MeasuringPlan,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
    watch: Watcher | None = None,
    loud: bool = False,
    stop: threading.Event | None = None,
) -> tuple[Records, int]:
    """Measure one share of the launches; return its records, and the program's exit status.

    folder: for the records; None for a temporary one. environment: variables in addition to those of this
    process. command: replaces the command of the child. watch: called when there are new records. stop: when
    it is set, the children are killed, and Stopped is raised.
    """
    with tempfile.TemporaryDirectory(prefix="triton-linear-tune-") as own:
        place = Path(own) if folder is None else folder
        place.mkdir(parents=True, exist_ok=True)

        def run(part: MeasuringPlan, shown: bool) -> Ended:
            return run_child(part, shown, command, environment=environment, watch=watch, stop=stop)

        if not plan.ahead:
            if loud:
                say("measuring: each kernel is compiled and measured behind its first launch")
            records, ended = rounds(plan, place, run, loud=loud)
            return records, ended.status
        if loud:
            say(f"compiling: the variants of all kernels, in {plan.jobs} processes")
        earlier = sorted(folder.parent.parent.glob(f"*/*/{COMPILED}")) if folder is not None else []
        with _compiling(plan, place, command, environment, stop, earlier) as compiled:
            if loud:
                say("measuring: each kernel behind its first launch, while others are compiled")
            records, ended = rounds(compiled, place, run, loud=loud)
    return records, ended.status


@contextmanager
def _compiling(
    plan: MeasuringPlan,
    folder: Path,
    command: Sequence[str] | None,
    environment: Mapping[str, str] | None,
    stop: threading.Event | None,
    earlier: Iterable[Path],
) -> Iterator[MeasuringPlan]:
    """Run a compiling child, and yield the plan for the measuring children when the program has ended in it.

    From then on the compiling child launches no kernels, but continues compiling. earlier: the files that
    compiling children of interrupted runs have written.
    """
    done = threading.Event()
    compiled, records = folder / COMPILED, folder / "ahead.records"
    compiled.write_bytes(b"".join(read_compiled(path) for path in earlier))
    records.touch()
    plan = replace(plan, compiled=str(compiled))
    part = replace(plan, records=str(records))
    with ThreadPoolExecutor(1) as thread:
        compiles = thread.submit(
            run_child, part, False, command, environment=environment, stop=_AnyEvent(stop, done)
        )
        try:
            while not (compiles.done() or any(ENDED in record for record in read_records(records))):
                time.sleep(_POLL)
            yield replace(plan, ahead=False)
        finally:
            done.set()
            with suppress(Stopped):
                compiles.result()


class _AnyEvent:
    """An event that is set if any of several events is."""

    def __init__(self, *events: threading.Event | None) -> None:
        self._events = [event for event in events if event is not None]

    def is_set(self) -> bool:
        return any(event.is_set() for event in self._events)


def visible_gpus() -> list[str]:
    """The visible GPUs of this machine, as named in `CUDA_VISIBLE_DEVICES`."""
    if (named := os.environ.get(VISIBLE)) is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


def on_gpus(
    plan: MeasuringPlan, gpus: Sequence[str], folder: Path, watch: Watcher | None = None
) -> tuple[Records, int]:
    """Measure all shares on GPUs of this machine, one process at a time on each.

    Only the output of the first program is shown. If a share fails, or this thread is interrupted, the others
    are stopped.
    """
    if len(gpus) <= 1:
        return measure_share(plan, folder / FIRST, watch=watch, loud=True)
    stop = threading.Event()
    with ThreadPoolExecutor(len(gpus)) as threads:
        try:
            shares = [
                threads.submit(
                    measure_share,
                    replace(plan, shard=index, shards=len(gpus), jobs=max(1, plan.jobs // len(gpus))),
                    folder / str(index),
                    {VISIBLE: gpu},
                    watch=watch if index == 0 else None,
                    loud=index == 0,
                    stop=stop,
                )
                for index, gpu in enumerate(gpus)
            ]
            for share in wait(shares, return_when=FIRST_EXCEPTION).done:
                share.result()  # raises its exception
            return _joined([share.result() for share in shares])
        except BaseException:
            stop.set()
            raise


def _joined(shares: Sequence[tuple[Records, int]]) -> tuple[Records, int]:
    return [record for records, _ in shares for record in records], next(
        (status for _, status in shares if status), 0
    )
