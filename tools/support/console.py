"""Tables on a terminal, and in files."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 160


def show(console: Console, table: Table) -> None:
    """Print a table; a file gets no blanks at the ends of lines."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)
