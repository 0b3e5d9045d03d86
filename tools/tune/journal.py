"""What the children of `tune` record, followed while they do: each kernel is decided about as soon as may be.

A child writes a line as soon as it knows something. What was read once is not read again, and a decision goes
to the file of decisions at once: whatever ends the run, and however, what it has decided is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triton_linear.decisions import Decision, DecisionError, DecisionFile, now_text
from triton_linear.tools.measuring.ahead import CONTEST, IDLE
from triton_linear.tools.support.errors import fail
from triton_linear.tools.tune import figures
from triton_linear.tools.tune.bar import Bar
from triton_linear.tools.tune.figures import TunedKernel
from triton_linear.tools.tune.shards import FIRST


class Journal:
    """The folder of a run's records, and those of runs of the same before it that were interrupted.

    file: where decisions are kept; None: they are only said. bar: follows what is recorded as well.
    """

    def __init__(self, folder: Path, file: DecisionFile | None, bar: Bar) -> None:
        self._folder, self._file, self._bar = folder, file, bar
        self._read: dict[Path, int] = {}
        self._decided: dict[Any, tuple[Any, ...]] = {}
        self._began = time.monotonic()
        self.records: list[dict[str, Any]] = []

    def follow(self, loud: bool = True) -> None:
        """Read what is new, decide about the kernels that it is about, keep that, and, if `loud`, say it.

        Fails where decisions cannot be kept.
        """
        new: list[dict[str, Any]] = []
        for path in sorted(self._folder.glob("run-*/*/*.jsonl")):
            added = list(self._added(path))
            self._bar.follow(added, shown=loud and path.parent.name == FIRST)
            new += added
        self.records += new
        ended = {record["kernel"] for record in new if record.get("mode") == CONTEST}
        if not ended:
            return
        launches = figures.contested(self.records)
        about = {each.circumstances for each in launches if each.key in ended and each.contest is not None}
        kernels = figures.tuned(each for each in launches if each.contest and each.circumstances in about)
        changed = [kernel for kernel in kernels if self._decided.get(kernel.circumstances) != _told(kernel)]
        if self._file is not None:
            put(self._file, changed)
        self._decided |= {kernel.circumstances: _told(kernel) for kernel in changed}
        if loud:
            self._say(changed, [each for each in launches if each.key in ended])

    def _added(self, path: Path) -> Iterable[dict[str, Any]]:
        """The records that a file has more than when it was read before; the last line may not be whole yet."""
        try:
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:  # another run of the same has ended, and removed it
            return
        self._read[path] = self._read.get(path, 0) + len(whole) + len(end)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def _say(self, kernels: Iterable[TunedKernel], launches: Iterable[figures.Contested]) -> None:
        for kernel in kernels:
            ratio, low, high = kernel.ratio.ratio, kernel.ratio.low, kernel.ratio.high
            self._line(f"{kernel.name}: {kernel.variant} {ratio:.3f} ({low:.3f} to {high:.3f})")
        for launch in launches:
            reason = launch.problems.get(CONTEST)
            if reason is not None and launch.contest is None and reason != IDLE:
                self._line(f"{launch.name}: {reason}")

    def _line(self, text: str) -> None:
        self._bar.say(f"[{time.monotonic() - self._began:.0f} s, {len(self._decided)} decided] {text}")


def _told(kernel: TunedKernel) -> tuple[Any, ...]:
    return kernel.variant, kernel.ratio


def put(file: DecisionFile, kernels: Iterable[TunedKernel]) -> None:
    """Keep decisions. Fails where that is not possible."""
    now = now_text()
    made: list[Decision] = [kernel.decision(now) for kernel in kernels]
    if not made:
        return
    try:
        file.put(made)
    except DecisionError as error:
        fail(str(error))
