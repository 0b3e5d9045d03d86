"""How far `tune` is, on a terminal: at which launch it is, what of that is done, and how many it has seen.

Before a program ends nobody knows how many launches it has, so the bar is that of the present one. It is there
while the program waits for it; in between the program may print what it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from triton_linear.tools.measuring.compiling import CONTEST
from triton_linear.tools.measuring.contest import COMPILING, TIMING
from triton_linear.tools.support.progress import say


class Bar:
    """A bar for a run that measures so many variants. Where the standard error is no terminal there is none."""

    def __init__(self, variants: int) -> None:
        self._variants = variants
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._names: dict[str, str] = {}
        self._decided: set[str] = set()
        self._kernel = ""
        self._done = 0

    def say(self, text: str) -> None:
        """A line above the bar, or, where there is none, on the standard error."""
        if self._bar is None:
            say(text)
        else:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def follow(self, records: Iterable[Mapping[str, Any]], shown: bool) -> None:
        """Go on by what a child has recorded; `shown`: it is the one whose program prints."""
        for record in records:
            if "name" in record and "kernel" in record:
                self._names[record["kernel"]] = record["name"]
            if record.get("mode") == CONTEST:
                self._decided.add(record["kernel"])
            if shown and self._console.is_terminal:
                self._go_on(record)

    def _go_on(self, record: Mapping[str, Any]) -> None:
        if "launches" in record or record.get("mode") == CONTEST:
            self.hide()
            return
        compiled, begun = record.get("compiled"), record.get("begin")
        if compiled is None and begun is None:
            return
        if record["kernel"] != self._kernel:
            self.hide()
            self._kernel, self._done = record["kernel"], 0
        kind, _, variant = (begun or f"{COMPILING}:{compiled}").partition(":")
        if kind == TIMING:
            at, self._done = TIMING, 2 * self._variants - 1
        elif kind == COMPILING:
            at, self._done = f"{COMPILING} {variant}", self._done + 1
        else:
            at, self._done = f"running {kind}", max(self._done, self._variants - 1) + 1
        self._show(at)

    def _show(self, at: str) -> None:
        counts = f"launches: {len(self._names)} seen, {len(self._decided)} measured"
        name = self._names.get(self._kernel, "")
        if self._bar is None:
            columns = (
                TextColumn("{task.fields[name]}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[at]}", markup=False),
                TimeElapsedColumn(),
                TextColumn("{task.fields[counts]}", markup=False),
            )
            self._bar = Progress(*columns, console=self._console, transient=True, redirect_stdout=False)
            self._task = self._bar.add_task("", total=2 * self._variants, name=name, at=at, counts=counts)
            self._bar.start()
        done = min(self._done, 2 * self._variants - 1)  # refinements are not counted: nobody knows how many
        self._bar.update(self._task, completed=done, name=name, at=at, counts=counts)

    def hide(self) -> None:
        """Take it away, until something is measured again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._kernel = ""
