"""The command line. An option that several benches have is spelt here once, and means the same in each.

options = Parser("tiles", __doc__).output().only().turns(15).budget()
options.add_argument("--own", help="what only this bench has")
options.parse_args(argv)
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .results import of_release


class Parser(argparse.ArgumentParser):
    """A bench's parser; each of its own methods adds an option and gives the parser back."""

    def __init__(self, bench: str, doc: str | None, whole: bool = False) -> None:
        text = doc or ""
        super().__init__(
            prog=f"python -m bench.{bench}",
            description=text if whole else text.partition("\n")[0],
            formatter_class=argparse.RawDescriptionHelpFormatter if whole else argparse.HelpFormatter,
        )

    def _add(self, *names: str, **how: Any) -> Parser:
        self.add_argument(*names, **how)
        return self

    def output(self, folder: Path | None = None) -> Parser:
        """`folder`: None is that of the Triton that is installed."""
        where = of_release() if folder is None else folder
        return self._add("--output", type=Path, default=where, help="where results go (default %(default)s)")

    def only(self, what: str = "cases", default: str | None = "") -> Parser:
        return self._add("--only", metavar="REGEX", default=default, help=f"the {what} whose names match")

    def turns(self, count: int, what: str = "of each way of a case") -> Parser:
        return self._add("--turns", type=int, default=count, help=f"{what} (default {count})")

    def budget(self) -> Parser:
        return self._add("--budget", type=float, metavar="SECONDS", help="begin no case after so long")

    def dry(self, otherwise: str | None = None) -> Parser:
        """`otherwise`: the target where none is named."""
        many = {} if otherwise is None else {"nargs": "?", "const": otherwise}
        return self._add("--dry", metavar="TARGET", help="compile for TARGET, launch nothing", **many)

    def join(self) -> Parser:
        return self._add("--join", type=Path, nargs="+", metavar="JSON", help="one report of several")

    def list(self) -> Parser:
        return self._add("--list", action="store_true", help="print the cases and stop")

    def workers(self, name: str = "--workers", count: int | None = None) -> Parser:
        count = count or os.cpu_count() or 1
        return self._add(name, type=int, default=count, help="processes that compile")

    def modules(self, many: str) -> Parser:
        return self._add("paths", nargs=many, type=Path, metavar="FOLDER_OR_FILE")


def some_of(known: Sequence[str], always: Sequence[str] = ()) -> Callable[[str], tuple[str, ...]]:
    """A type for `add_argument`: names with commas between them, in the order in which they are known.

    >>> some_of(("a", "b", "c"), always="a")("c")
    ('a', 'c')
    """

    def chosen(text: str) -> tuple[str, ...]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(known)}")
        return tuple(name for name in known if name in (*always, *names))

    return chosen
