"""Counts of every case by release of Triton, and a picture of each; no GPU is needed.

    OTHER -m bench.reported.releases [--only REGEX]  # with a Python that has Triton, and nothing else
    python -m bench.reported.releases --draw docs/img

The first adds what the Triton of that Python makes of each case to bench/results/reported-counts.json, and what
the plugin does where it can run. `--draw` makes the pictures of docs/reported.md from that file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..harness import plot
from ..harness.cases import chosen, say
from ..harness.child import empty_cache
from ..harness.results import RESULTS, replaced
from .case import Reported
from .cases import CASES

COUNTS = RESULTS / "reported-counts.json"
_COLOURS = {"stock": "0.65", "ours": "tab:blue"}


def counted(case: Reported, with_plugin: bool) -> dict[str, Any]:
    """Counts of a case by way: stock Triton's and ours."""
    from . import dry

    found: dict[str, Any] = {"stock": dry.stock(case)}
    if with_plugin:
        found["ours"] = dry.ours(case)
    return found


def add(path: Path, only: str = "") -> None:
    """Count some cases with the Triton that is here, and write that beside what other releases made."""
    import triton

    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    with empty_cache():
        for case in chosen("reported", CASES, only):
            say(f"{triton.__version__}: {case.name}")
            known.setdefault(case.name, {})[triton.__version__] = counted(case, find_spec("mlir") is not None)
    ordered = {case.name: dict(sorted(known[case.name].items())) for case in CASES if case.name in known}
    replaced(path, json.dumps(ordered, indent=1) + "\n")


def bars(counts: Mapping[str, Any], kind: str) -> list[tuple[str, str, int]]:
    """The bars of a kind: their names, the way that each is of, and how many.

    >>> bars({"3.9.0": {"stock": {"barriers": 2}, "ours": {"barriers": 0}}}, "barriers")
    [('3.9.0', 'stock', 2), ('3.9.0', 'ours', 0)]
    """
    return [(release, way, found[kind] or 0) for release, ways in counts.items() for way, found in ways.items()]


def draw(path: Path, folder: Path) -> None:
    """A picture for each case: the kinds that its complaint is about, each release beside the others."""
    import matplotlib

    known = json.loads(path.read_text())
    for case in CASES:
        shown = case.shown[:3]
        size, name = (2.4 * len(shown), 1.7), folder / f"reported-{case.name}.svg"
        # Text stays text, and names are made from the content: a file is small, and the same each time.
        how: dict[str, Any] = {"squeeze": False, "saved": {"metadata": {"Date": None}}}
        with (
            matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": case.name}),
            plot.picture(name, size, columns=len(shown), **how) as (_, axes),
        ):
            for axis, kind in zip(axes[0], shown, strict=True):
                found = bars(known[case.name], kind)
                places = range(len(found))
                colours = [_COLOURS[way] for _, way, _ in found]
                drawn = axis.bar(places, [count for *_, count in found], color=colours)
                axis.bar_label(drawn, fontsize=6)
                labels = [release if way == "stock" else way for release, way, _ in found]
                axis.set_xticks(places, labels, fontsize=6, rotation=45)
                axis.tick_params(axis="y", labelsize=6)
                axis.set_title(kind, fontsize=8)
                axis.margins(y=0.15)


def main(argv: Sequence[str] | None = None) -> int:
    """Count, or draw; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m bench.reported.releases", description=__doc__)
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="draw what was counted, count nothing")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose names match")
    options = parser.parse_args(argv)
    if options.draw is None:
        add(COUNTS, options.only)
    elif not COUNTS.exists():
        raise SystemExit(f"reported: there is no {COUNTS}")
    else:
        draw(COUNTS, options.draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
