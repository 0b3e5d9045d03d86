"""`triton-linear diff`: compare two compiles of one kernel, line by line.

diff a.ttgir b.ttgir                      two modules, folders of them, or scripts
diff script.py                            without the plugin, and with it
diff script.py A=exact B=assign=0         two sets of the plugin's options
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_linear.environment import parse
from triton_linear.setting import Options
from triton_linear.tools.diff.compare import CONDITIONS, KNOWN, Comparison, compare, worse
from triton_linear.tools.diff.compiled import compiled_kernels
from triton_linear.tools.diff.render import as_json, show
from triton_linear.tools.support.arguments import Condition
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.console import present, status_line
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.inputs import modules

STOCK, OURS = "stock", "ours"
MODULES = (".ttgir", ".mlir")
_WORD = re.compile(r"(?P<side>[AB])=(?P<words>.*)", re.DOTALL)


def run(arguments: argparse.Namespace) -> int:
    """Compare the two sides; the exit status is 1 if B is worse than a condition of `--fail-on` allows."""
    conditions = [Condition.parse(text, CONDITIONS, KNOWN) for text in arguments.fail_on]
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
            by, what = worse(condition.name, pair)
            if by is None or condition.holds(by):
                failed = True
                condition.say(f"{pair.a.name}: {what}{' not known of both sides' if by is None else ''}")
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


@dataclass(frozen=True)
class Side:
    """One compile.

    letter: A or B. what: the module, script or folder. plugin: the plugin's options, None for stock Triton.
    words: the command line's words for the side.
    """

    letter: str
    what: str
    plugin: Options | None = None
    words: str = ""


def sides(subjects: Sequence[str]) -> tuple[Side, Side, list[str]]:
    """The two sides that a command line names, and the arguments of the script.

    Fails if it does not name two sides.
    """
    words: dict[str, str] = {}
    names: list[str] = []
    for subject in subjects:
        word = _WORD.fullmatch(subject)
        if word is None:
            names.append(subject)
        elif word["side"] in words:
            fail(f"{word['side']} is said twice: '{words[word['side']]}' and '{word['words']}'")
        else:
            words[word["side"]] = word["words"]
    if not names:
        fail("nothing to compare is named: two modules or folders, or a script")
    first, *rest = names
    is_script = first.endswith(".py")
    two = bool(rest) and (rest[0].endswith(".py") if is_script else _is_subject(rest[0]))
    second, arguments = (rest[0], rest[1:]) if two else (first, rest)
    for name in (first, second):
        if not Path(name).exists():
            fail("cannot open input file: No such file or directory", name)
        if not _is_subject(name):
            fail(f"neither a script, a folder nor one of {', '.join('*' + end for end in MODULES)}", name)
    if arguments and not (is_script and second.endswith(".py")):
        fail(f"arguments are for a script: {' '.join(arguments)}")
    if not words:
        words = {} if two else {"A": STOCK, "B": OURS}
    a, b = (
        _side(letter, name, words.get(letter, "")) for letter, name in zip("AB", (first, second), strict=True)
    )
    if (a.what, a.plugin) == (b.what, b.plugin):
        fail(f"both sides are the same: {a.words or STOCK} of {a.what}")
    return a, b, arguments


def _is_subject(name: str) -> bool:
    path = Path(name)
    return path.suffix in (".py", *MODULES) or path.is_dir()


def _side(letter: str, what: str, words: str) -> Side:
    """Parse the words of a side, separated by commas: `stock`, `ours`, options as in TRITON_LINEAR."""
    given = [part.strip() for part in words.split(",") if part.strip()]
    options = [word for word in given if word not in (STOCK, OURS)]
    if STOCK in given and len(given) > 1:
        fail(f"{letter}: stock Triton has no options of the plugin: '{words}'")
    if given in ([], [STOCK]):
        return Side(letter, what, None, words)
    try:
        return Side(letter, what, parse(",".join(options) or "1"), words)
    except (ValueError, TypeError) as error:
        fail(f"{letter}: {error}")
