"""How far a run is: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .cases import say

EVERY = 10.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """The function that it gives tells of one more, and may say which."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[at]}"),
    )
    begun = told = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task, count = bar.add_task(what, total=total, at=""), 0

        def advance(at: str = "") -> None:
            nonlocal count, told
            count += 1
            bar.update(task, advance=1, at=at)
            now = time.monotonic()
            if not console.is_terminal and (now - told > EVERY or count == total):
                told = now
                say(f"{what} {count}/{total} [{now - begun:.0f} s] {at}")

        yield advance
