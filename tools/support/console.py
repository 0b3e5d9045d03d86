"""Print to a terminal, to a file, or as a page; show what a command does that takes long."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from triton_linear.tools.support.inputs import write

WIDTH = 110
"""The columns of reports in a file."""
WIDTH_WITHOUT_TERMINAL = 160


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """If the output is no terminal, write it at the end of the block, without blanks at line ends."""
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def _opened(width: int) -> Console:
    """The console of the standard output, of that width if it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def present(arguments: argparse.Namespace, title: str, shown: Callable[[Console], None], values: Any) -> None:
    """Print what `shown` prints, or `values` with `--json`; and write the page that `--html` asks for."""
    if arguments.html is not None:
        write_page(arguments.html, title, shown)
    if arguments.json:
        print(json.dumps(values, indent=2))
    else:
        console = _opened(WIDTH)
        with trimmed(console):
            shown(console)


def show(table: Table) -> None:
    """Print a table; in a file, without blanks at line ends."""
    console = _opened(WIDTH_WITHOUT_TERMINAL)
    with trimmed(console):
        console.print(table)


_PAGE_WIDTH = 140
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<meta name="viewport" content="width=device-width"><style>
{stylesheet}
body {{ color: {foreground}; background-color: {background}; margin: 1em; overflow-x: auto; }}
pre {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 13px; line-height: 1.3; }}
</style></head><body><pre><code>{code}</code></pre></body></html>
"""
"""A page as wide as a window of 1400 pixels, in which nothing is loaded; rich fills it."""


def write_page(path: Path, title: str, shown: Callable[[Console], None]) -> None:
    """Write what `shown` prints as an HTML file. Fails if that cannot be written."""
    console = Console(
        record=True, width=_PAGE_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    shown(console)
    text = console.export_html(
        code_format=_PAGE.replace("@TITLE@", escape(title).replace("{", "{{").replace("}", "}}"))
    )
    write(str(path), text.encode())


_CLEAR = "\r\x1b[K"


@contextmanager
def status_line(what: str) -> Iterator[None]:
    """Show `what` in the last line of the terminal while the block runs, and clear the line afterwards.

    Output of the block itself follows on the same line. Does nothing if standard error is no terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    width = shutil.get_terminal_size().columns - 1
    text = what if len(what) <= width else what[: max(width - 3, 0)] + "..."
    print(f"{_CLEAR}{text}", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
