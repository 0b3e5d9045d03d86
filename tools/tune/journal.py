"""Read the records of `tune`'s children while they run, and decide about each kernel as soon as possible.

Each line is read once, and each decision is written to the file of decisions at once. So if a run is
interrupted, no decision is lost.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triton_linear.decisions import Decision, DecisionError, DecisionFile
from triton_linear.tools.measuring.contest import CONTEST, IDLE
from triton_linear.tools.measuring.contested import Contested, contested
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.progress import say
from triton_linear.tools.tune import figures
from triton_linear.tools.tune.figures import TunedKernel


class Journal:
    """Reads the records in the folder of a run, which may have those of interrupted runs before it.

    file: the file of decisions; None: decisions are printed but not stored.
    """

    def __init__(self, folder: Path, file: DecisionFile | None) -> None:
        self._folder, self._file = folder, file
        self._read: dict[Path, int] = {}
        self._decided: dict[Any, tuple[Any, ...]] = {}
        self._started = time.monotonic()
        self.records: list[dict[str, Any]] = []

    def follow(self, loud: bool = True) -> None:
        """Read new records, decide about their kernels, store the decisions and, if `loud`, print them.

        Fails if decisions cannot be stored.
        """
        new: list[dict[str, Any]] = []
        for path in sorted(self._folder.glob("run-*/*.jsonl")):
            new += self._added(path)
        self.records += new
        ended = {record["kernel"] for record in new if record.get("mode") == CONTEST}
        if not ended:
            return
        launches = contested(self.records)
        affected = {each.circumstances for each in launches if each.key in ended and each.contest is not None}
        kernels = figures.tuned(each for each in launches if each.contest and each.circumstances in affected)
        changed = [kernel for kernel in kernels if self._decided.get(kernel.circumstances) != _outcome(kernel)]
        if self._file is not None:
            store(self._file, changed)
        self._decided |= {kernel.circumstances: _outcome(kernel) for kernel in changed}
        if loud:
            self._say(changed, [each for each in launches if each.key in ended])

    def _added(self, path: Path) -> Iterable[dict[str, Any]]:
        """The new records of a file; an incomplete last line is read the next time."""
        try:
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:  # a concurrent run with an equal digest has ended and removed it
            return
        self._read[path] = self._read.get(path, 0) + len(whole) + len(end)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def _say(self, kernels: Iterable[TunedKernel], launches: Iterable[Contested]) -> None:
        for kernel in kernels:
            ratio, low, high = kernel.ratio.ratio, kernel.ratio.low, kernel.ratio.high
            self._line(f"{kernel.name}: {kernel.variant} {ratio:.3f} ({low:.3f} to {high:.3f})")
        for launch in launches:
            reason = launch.problems.get(CONTEST)
            if reason is not None and launch.contest is None and reason != IDLE:
                self._line(f"{launch.name}: {reason}")

    def _line(self, text: str) -> None:
        say(f"[{time.monotonic() - self._started:.0f} s, {len(self._decided)} decided] {text}")


def _outcome(kernel: TunedKernel) -> tuple[Any, ...]:
    return kernel.variant, kernel.ratio


def now_text() -> str:
    """Date and time (UTC) in the format of `Decision.measured`."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def store(file: DecisionFile, kernels: Iterable[TunedKernel]) -> None:
    """Store the decisions about kernels. Fails if the file cannot be written."""
    now = now_text()
    decisions: list[Decision] = [kernel.decision(now) for kernel in kernels]
    if not decisions:
        return
    try:
        file.put(decisions)
    except DecisionError as error:
        fail(str(error))
