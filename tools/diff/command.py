"""`triton-linear diff`: compare two compiles of one kernel, line by line."""

from __future__ import annotations

import argparse

from triton_linear.tools.diff import gate
from triton_linear.tools.diff.compare import Comparison, compare
from triton_linear.tools.diff.compiled import compiled_kernels
from triton_linear.tools.diff.render import as_json, show
from triton_linear.tools.diff.sides import Side, sides
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.console import present
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.gate import Condition
from triton_linear.tools.support.inputs import modules
from triton_linear.tools.support.progress import status_line


def run(arguments: argparse.Namespace) -> int:
    """Compare the two sides; the exit status is 1 if B is worse than a condition of `--fail-on` allows."""
    conditions = [Condition.parse(text, gate.NAMES, gate.KNOWN) for text in arguments.fail_on]
    if arguments.target is not None:
        vendor_of(arguments.target)
    a, b, rest = sides(arguments.subjects)
    comparison = _comparison(a, b, rest, arguments.target)
    names = ", ".join(pair.a.name for pair in comparison.pairs if not pair.same_code) or "the same code"
    title = f"{names}: {a.words or a.what} and {b.words or b.what}"
    values = as_json((a, b), comparison)
    present(arguments, title, lambda page: show(page, (a, b), comparison, arguments.all), values)
    failed = False
    for condition in conditions:
        for pair in comparison.pairs:
            worse, what = gate.worse(condition.name, pair)
            if worse is None or condition.holds(worse):
                failed = True
                condition.say(f"{pair.a.name}: {what}{' not known of both sides' if worse is None else ''}")
    return int(failed)


def _comparison(a: Side, b: Side, arguments: list[str], target: str | None) -> Comparison:
    texts = {what: list(modules(what, arguments, target)) for what in dict.fromkeys((a.what, b.what))}
    compiled = []
    for side in (a, b):
        with status_line(f"compiling {side.letter}: {side.words or side.what}"):
            compiled.append(list(compiled_kernels(texts[side.what], target, side.plugin)))
    comparison = compare(*compiled)
    if not comparison.pairs:
        names = [", ".join(kernel.name for kernel in side) for side in compiled]
        fail(f"no kernel is in both: A has {names[0]}, B has {names[1]}")
    return comparison
