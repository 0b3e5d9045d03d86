"""What is compared: two sides, each with what it compiles, by which Python and with which options.

diff a.ttgir b.ttgir                      two modules, or two folders that Triton has left
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
_WORD = re.compile(r"(?P<side>[AB])=(?P<said>.*)", re.DOTALL)


@dataclass(frozen=True)
class Side:
    """One compile. `plugin`: its options, None for stock Triton. `python`: the interpreter whose Triton
    compiles; empty for this one. `words`: what the command line said of it."""

    letter: str
    what: Path
    plugin: Options | None = None
    python: str = ""
    words: str = ""

    @property
    def is_script(self) -> bool:
        """Whether it is a program, whose kernels are compiled."""
        return self.what.suffix == ".py"

    @property
    def is_made(self) -> bool:
        """Whether it is what Triton has left, and nothing is compiled."""
        return self.what.is_dir()


def sides(subjects: Sequence[str]) -> tuple[Side, Side, list[str]]:
    """Both sides that a command line names, and the arguments of the script.

    Fails on what names none.
    """
    said: dict[str, str] = {}
    names: list[str] = []
    for subject in subjects:
        word = _WORD.fullmatch(subject)
        if word is None:
            names.append(subject)
        elif word["side"] in said:
            fail(f"{word['side']} is said twice: '{said[word['side']]}' and '{word['said']}'")
        else:
            said[word["side"]] = word["said"]
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
    if not two and not said:
        if _kind(first) == "folder":
            fail("a folder is compared with another folder", first)
        said = {"A": STOCK, "B": OURS}
    made = [
        _side(letter, Path(name), said.get(letter, ""))
        for letter, name in zip("AB", (first, second), strict=True)
    ]
    if made[0].what == made[1].what and _same(*made):
        fail(f"both sides are the same: {made[0].words or STOCK} of {made[0].what}")
    return made[0], made[1], arguments


def _same(a: Side, b: Side) -> bool:
    return a.is_made or (a.plugin, a.python) == (b.plugin, b.python)


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


def _side(letter: str, what: Path, said: str) -> Side:
    """A side from words with commas between: `stock`, `ours`, options as in TRITON_LINEAR, a Python's path."""
    python = ""
    options: list[str] = []
    kinds: set[str] = set()
    for word in filter(None, (part.strip() for part in said.split(","))):
        if word in (STOCK, OURS):
            kinds.add(word)
        elif "=" not in word and ("/" in word or (Path(word) / "bin" / "python").exists()):
            python = _python(letter, word)
        else:
            options.append(word)
    if STOCK in kinds and (OURS in kinds or options):
        fail(f"{letter}: stock Triton has no options of the plugin: '{said}'")
    if what.is_dir() and said:
        fail(f"{letter}: what Triton has left is not compiled again: '{said}'", str(what))
    plugin: Options | None = None
    if options or OURS in kinds:
        try:
            plugin = parse(",".join(options) or "1")
        except (ValueError, TypeError) as error:
            fail(f"{letter}: {error}")
    return Side(letter, what, plugin, python, said)


def _python(letter: str, said: str) -> str:
    """The interpreter that a path names: itself, or that of a virtual environment."""
    path = Path(said).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    if shutil.which(path) is None:
        fail(f"{letter}: no Python is there", str(path))
    return str(path.absolute())
