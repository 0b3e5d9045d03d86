"""`triton-linear decisions`: list the decisions of `tune`, move them between machines, and forget some."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear.decisions import Decision, DecisionError, DecisionFile, as_line, default_file
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.tools.support.console import show
from triton_linear.tools.support.errors import fail


def run(chosen: argparse.Namespace) -> int:
    """Run the command; the exit status is 0."""
    file = DecisionFile(chosen.file or default_file())
    try:
        {"list": _list, "import": _import, "forget": _forget}[chosen.action](file, chosen)
        return 0
    except DecisionError as error:
        fail(str(error))


def _list(file: DecisionFile, chosen: argparse.Namespace) -> None:
    known = file.read()
    if chosen.json:
        sys.stdout.writelines(map(as_line, known))
        return
    table = Table(title=Text(str(file.path)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name in (
        "kernel",
        "variant",
        "stock / variant",
        "GPU",
        "target",
        "Triton",
        "ptxas",
        "measured",
        "here",
    ):
        table.add_column(name, overflow="fold")
    for each in known:
        about = each.circumstances
        here = about.triton == installed() and about.package == CODE_VERSION
        cells = (
            f"{each.name} {about.kernel[:8]}",
            each.variant,
            f"{each.ratio:.3f} ({each.low:.3f} to {each.high:.3f})",
            about.gpu,
            about.target,
            about.triton,
            about.ptxas,
            each.measured,
            "followed" if here else "other versions",
        )
        table.add_row(*map(Text, cells))  # a name may look like rich's markup
    show(table)


def _import(file: DecisionFile, chosen: argparse.Namespace) -> None:
    for path in chosen.exported:
        if not path.exists():
            fail("cannot open: No such file or directory", str(path))
    imported = [decision for path in chosen.exported for decision in DecisionFile(path).read()]
    print(f"{put_later(file, imported)} of {len(imported)} decisions added to {file.path}")


def put_later(file: DecisionFile, imported: Iterable[Decision]) -> int:
    """Add the decisions whose circumstances are new to a file, or that were measured later than those in it;
    return how many."""
    known = {each.circumstances: each for each in file.read()}
    merged = dict(known)
    for each in imported:
        previous = merged.get(each.circumstances)
        if previous is None or previous.measured < each.measured:
            merged[each.circumstances] = each
    added = [each for about, each in merged.items() if known.get(about) != each]
    if added:
        file.put(added)
    return len(added)


def _forget(file: DecisionFile, chosen: argparse.Namespace) -> None:
    wanted = [each.circumstances for each in file.read() if fnmatch.fnmatchcase(each.name, chosen.pattern)]
    count = file.remove(wanted) if wanted else 0
    print(f"{count} decisions removed from {file.path}")
