"""`triton-linear diff`: compare two compiles of one kernel, and find where they diverge."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from triton_linear.tools.diff.compare import Comparison, compare
from triton_linear.tools.diff.compiled import compile_side
from triton_linear.tools.diff.gate import Condition
from triton_linear.tools.diff.render import WIDTH, as_json, show
from triton_linear.tools.diff.sides import sides
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.console import opened, trimmed
from triton_linear.tools.support.errors import Diagnostic, fail
from triton_linear.tools.support.progress import status_line


def run(arguments: argparse.Namespace) -> int:
    """Compare the two sides; the exit status is 1 if B is worse than a condition of `--fail-on` allows."""
    conditions = [Condition.parse(text) for text in arguments.fail_on]
    if arguments.target is not None:
        vendor_of(arguments.target)
    comparison = _comparison(arguments)
    if arguments.json:
        print(json.dumps(as_json(comparison), indent=2))
    else:
        console = opened(WIDTH)
        with trimmed(console):
            show(console, comparison, arguments.all)
    failed = False
    for condition in conditions:
        for violation in condition.violations(comparison):
            failed = True
            print(Diagnostic("error", f"fail-on: {condition.text}: {violation}"), file=sys.stderr)
    return int(failed)


def _comparison(arguments: argparse.Namespace) -> Comparison:
    a, b, rest = sides(arguments.subjects)
    compiled = []
    with tempfile.TemporaryDirectory(prefix="triton-linear-diff-") as name:
        for side in (a, b):
            folder = Path(name) / side.letter
            folder.mkdir()
            with status_line(f"compiling {side.letter}: {side.words or side.what}"):
                compiled.append(compile_side(side, arguments.target, rest, folder))
        with status_line("comparing"):
            comparison = compare(*compiled)
    if not comparison.pairs:
        kernels = [", ".join(kernel.name for kernel in side.kernels) for side in compiled]
        fail(f"no kernel is in both: A has {kernels[0]}, B has {kernels[1]}")
    return comparison
