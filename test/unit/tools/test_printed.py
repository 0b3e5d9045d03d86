"""What commands print to a file has no blanks at the ends of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from triton_linear.tools import cli
from triton_linear.tools.support.console import show, trimmed

KERNEL = Path(__file__).parents[2] / "data" / "ttgir" / "bn_nhwc-1.ttgir"


@pytest.mark.parametrize("command", ["diff", "explain", "verify"])
def test_no_line_of_a_command_ends_in_blanks(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([command, str(KERNEL)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if line != line.rstrip()] == []


def test_tables_in_files_are_trimmed_and_on_terminals_left(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.grid("a", "b")
    table.add_row("x", "long")
    table.add_row("y", "z")
    show(Console(width=40), table)
    assert capsys.readouterr().out == "xlong\nyz\n"
    terminal = Console(width=40, force_terminal=True)
    with trimmed(terminal):
        terminal.print("x ")
    assert capsys.readouterr().out == "x \n"
