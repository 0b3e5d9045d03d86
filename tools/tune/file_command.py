"""`triton-linear decisions`: list the decisions of `tune`, move them between machines, and forget some."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from triton_linear.decisions import (
    Circumstances,
    Decision,
    DecisionError,
    DecisionFile,
    as_line,
    default_file,
    of_line,
)
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.tools.support.errors import fail


def run(chosen: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    file = DecisionFile(chosen.file or default_file())
    actions: Mapping[str, Callable[[DecisionFile, argparse.Namespace], int]] = {
        "list": _list,
        "import": _import,
        "forget": _forget,
    }
    try:
        return actions[chosen.action](file, chosen)
    except DecisionError as error:
        fail(str(error))


def _known(file: DecisionFile) -> list[Decision]:
    return file.read() if file.path.exists() else []


def _list(file: DecisionFile, chosen: argparse.Namespace) -> int:
    known = _known(file)
    if chosen.json:
        sys.stdout.writelines(f"{as_line(each)}\n" for each in known)
        return 0
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from triton_linear.tools.support.console import opened, show

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
    show(opened(), table)
    return 0


def _import(file: DecisionFile, chosen: argparse.Namespace) -> int:
    imported = [decision for path in chosen.exported for decision in _exported(path)]
    known = {each.circumstances: each for each in _known(file)}
    added = list(later(known, imported))
    if added:
        file.put(added)
    print(f"{len(added)} of {len(imported)} decisions added to {file.path}")
    return 0


def later(known: Mapping[Circumstances, Decision], imported: Iterable[Decision]) -> Iterable[Decision]:
    """The imported decisions whose circumstances are new, or that were measured later than the known ones."""
    merged = dict(known)
    for each in imported:
        previous = merged.get(each.circumstances)
        if previous is None or previous.measured < each.measured:
            merged[each.circumstances] = each
    return [each for circumstances, each in merged.items() if known.get(circumstances) != each]


def _exported(path: Path) -> Iterable[Decision]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        fail(f"cannot open: {error.strerror}", str(path))
    except UnicodeDecodeError:
        fail("holds no decisions", str(path))
    for number, line in enumerate(lines, 1):
        try:
            yield of_line(line)
        except ValueError:
            fail("holds no decision", str(path), number, 1)


def _forget(file: DecisionFile, chosen: argparse.Namespace) -> int:
    wanted = [each.circumstances for each in _known(file) if fnmatch.fnmatchcase(each.name, chosen.pattern)]
    count = file.remove(wanted) if wanted else 0
    print(f"{count} decisions removed from {file.path}")
    return 0
