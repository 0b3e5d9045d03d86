"""Measure the launches of a program in child processes, whose variants another child may compile before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton_linear.tools.measuring.ahead import ENDED, read_compiled
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import Ended, Stopped, read_records, rounds, run_child
from triton_linear.tools.support.progress import say

COMPILED = "compiled.json"
_POLL = 0.1


def measured(plan: MeasuringPlan, folder: Path, watch: Callable[[], None]) -> tuple[list[dict[str, Any]], int]:
    """Measure the launches; return the records, which are kept in `folder` too, and the program's exit status.

    watch: called when there are new records.
    """

    def run(part: MeasuringPlan, shown: bool) -> Ended:
        return run_child(part, shown, watch=watch)

    if not plan.ahead:
        say("measuring: each kernel is compiled and measured behind its first launch")
        records, ended = rounds(plan, folder, run, loud=True)
        return records, ended.status
    say(f"compiling: the variants of all kernels, in {plan.jobs} processes")
    with _compiling(plan, folder, sorted(folder.parent.glob(f"*/{COMPILED}"))) as compiled:
        say("measuring: each kernel behind its first launch, while others are compiled")
        records, ended = rounds(compiled, folder, run, loud=True)
    return records, ended.status


@contextmanager
def _compiling(plan: MeasuringPlan, folder: Path, earlier: Iterable[Path]) -> Iterator[MeasuringPlan]:
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
        compiles = thread.submit(run_child, part, False, stop=done)
        try:
            while not (compiles.done() or any(ENDED in record for record in read_records(records))):
                time.sleep(_POLL)
            yield replace(plan, ahead=False)
        finally:
            done.set()
            with suppress(Stopped):
                compiles.result()
