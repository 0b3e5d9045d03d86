"""What is printed on a terminal, and in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 160


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """Within the block, what is printed to a file gets no blanks at the ends of lines; it is written at the
    end of the block."""
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def show(console: Console, table: Table) -> None:
    """Print a table."""
    with trimmed(console):
        console.print(table)
