"""Parse the two sides of a comparison: what each compiles, with which Python, and with which options.

diff a.ttgir b.ttgir                      two modules, or two folders that Triton has written
diff script.py                            without the plugin, and with it
diff script.py A=exact B=assign=0         two sets of the plugin's options
diff script.py A=/venv36 B=stock          two releases
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_linear.environment import parse
from triton_linear.setting import Options
from triton_linear.tools.support.errors import fail

STOCK, OURS = "stock", "ours"
MODULES = (".ttir", ".ttgir", ".mlir")
_WORD = re.compile(r"(?P<side>[AB])=(?P<words>.*)", re.DOTALL)


@dataclass(frozen=True)
class Side:
    """One compile.

    letter: A or B. what: the module, script or folder. plugin: the plugin's options, None for stock Triton.
    python: the interpreter whose Triton compiles, empty for the present one. words: the command line's words
    for the side.
    """

    letter: str
    what: Path
    plugin: Options | None = None
    python: str = ""
    words: str = ""

    @property
    def is_script(self) -> bool:
        """Whether it is a Python script, whose kernels are compiled."""
        return self.what.suffix == ".py"

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that Triton has written, so that nothing is compiled."""
        return self.what.is_dir()


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
    two = bool(rest) and _kind(rest[0]) != "" and (_kind(first) != "script" or rest[0].endswith(".py"))
    second, arguments = (rest[0], rest[1:]) if two else (first, rest)
    if _kind(first) == "" or not Path(first).exists():
        _no_subject(first)
    if two and not Path(second).exists():
        _no_subject(second)
    if arguments and not (_kind(first) == _kind(second) == "script"):
        fail(f"arguments are for a script: {' '.join(arguments)}")
    if not two and not words:
        if _kind(first) == "folder":
            fail("a folder is compared with another folder", first)
        words = {"A": STOCK, "B": OURS}
    a, b = (
        _side(letter, Path(name), words.get(letter, ""))
        for letter, name in zip("AB", (first, second), strict=True)
    )
    if a.what == b.what and (a.is_folder or (a.plugin, a.python) == (b.plugin, b.python)):
        fail(f"both sides are the same: {a.words or STOCK} of {a.what}")
    return a, b, arguments


def _kind(name: str) -> str:
    path = Path(name)
    if path.suffix == ".py":
        return "script"
    if path.suffix in MODULES:
        return "module"
    return "folder" if path.is_dir() else ""


def _no_subject(name: str) -> None:
    if not Path(name).exists():
        fail("cannot open input file: No such file or directory", name)
    fail(f"neither a script, a folder nor one of {', '.join('*' + end for end in MODULES)}", name)


def _side(letter: str, what: Path, words: str) -> Side:
    """Parse the words of a side, separated by commas: `stock`, `ours`, options of TRITON_LINEAR, a Python's
    path.
    """
    python = ""
    options: list[str] = []
    kinds: set[str] = set()
    for word in filter(None, (part.strip() for part in words.split(","))):
        if word in (STOCK, OURS):
            kinds.add(word)
        elif "=" not in word and ("/" in word or (Path(word) / "bin" / "python").exists()):
            python = _python(letter, word)
        else:
            options.append(word)
    if STOCK in kinds and (OURS in kinds or options):
        fail(f"{letter}: stock Triton has no options of the plugin: '{words}'")
    if what.is_dir() and words:
        fail(f"{letter}: what Triton has left is not compiled again: '{words}'", str(what))
    plugin: Options | None = None
    if options or OURS in kinds:
        try:
            plugin = parse(",".join(options) or "1")
        except (ValueError, TypeError) as error:
            fail(f"{letter}: {error}")
    return Side(letter, what, plugin, python, words)


def _python(letter: str, name: str) -> str:
    """The interpreter that a path names: the path itself, or the Python of a virtual environment."""
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    if shutil.which(path) is None:
        fail(f"{letter}: no Python is there", str(path))
    return str(path.absolute())
