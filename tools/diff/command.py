"""`triton-linear diff`: two compiles of one kernel beside each other, and where they began to differ."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from triton_linear.tools.diff.compare import Comparison, compare
from triton_linear.tools.diff.gate import Condition
from triton_linear.tools.diff.made import compiled
from triton_linear.tools.diff.render import WIDTH, as_json, show
from triton_linear.tools.diff.sides import sides
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.console import trimmed
from triton_linear.tools.support.errors import Diagnostic, fail
from triton_linear.tools.support.progress import told


def run(arguments: argparse.Namespace) -> int:
    """Compare what was named; the exit status is 1 where B is worse than a condition admits."""
    conditions = [Condition.parse(text) for text in arguments.fail_on]
    if arguments.target is not None:
        vendor_of(arguments.target)
    if arguments.page is not None and not arguments.page.absolute().parent.is_dir():
        fail("cannot write output file: no such folder", str(arguments.page))
    found = _compared(arguments)
    if arguments.page is not None:
        from triton_linear.tools.diff.page import page

        try:
            arguments.page.write_text(page(found), encoding="utf-8")
        except OSError as error:
            fail(f"cannot write output file: {error.strerror}", str(arguments.page))
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=WIDTH)
        with trimmed(console):
            show(console, found, arguments.all)
    failed = False
    for condition in conditions:
        for broken in condition.broken(found):
            failed = True
            print(Diagnostic("error", f"fail-on: {condition.text}: {broken}"), file=sys.stderr)
    return int(failed)


def _compared(arguments: argparse.Namespace) -> Comparison:
    a, b, rest = sides(arguments.subjects)
    made = []
    with tempfile.TemporaryDirectory(prefix="triton-linear-diff-") as name:
        for side in (a, b):
            folder = Path(name) / side.letter
            folder.mkdir()
            with told(f"compiling {side.letter}: {side.words or side.what}"):
                made.append(compiled(side, arguments.target, rest, folder))
        with told("comparing"):
            found = compare(*made)
    if not found.pairs:
        kernels = [", ".join(one.name for one in side.kernels) for side in made]
        fail(f"no kernel is in both: A has {kernels[0]}, B has {kernels[1]}")
    return found
