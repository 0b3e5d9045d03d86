"""Print to a terminal or to a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

WIDTH = 110
"""The columns of reports in a file."""
WIDTH_WITHOUT_TERMINAL = 160


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """If the output is no terminal, remove blanks at line ends, and write the output at the end
    of the block.
    """
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def opened(width: int = WIDTH_WITHOUT_TERMINAL) -> Console:
    """The console of the standard output, of that width if it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def show(console: Console, table: Table) -> None:
    """Print a table; in a file, without blanks at line ends."""
    with trimmed(console):
        console.print(table)
