"""Whole kernels by release of Triton: what each stock release gained over the oldest, and the plugin over each.

    python -m bench.kernels.releases [--output FOLDER]

Reads the kernels.json of every release in bench/results, and writes releases.md. Times of different releases
are of different runs, each on the GPU alone, so a ratio between releases is less sure than one within a run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..harness import report as pages
from ..harness.options import Parser
from ..harness.report import named, number, page
from ..harness.results import RESULTS, replaced
from ..harness.statistics import geometric_mean
from . import modes
from .report import facts, middle

Report = Mapping[str, Any]


def reports(folder: Path) -> dict[str, Report]:
    """The reports of all releases, the oldest first."""
    found = (json.loads(path.read_text()) for path in folder.glob("*/kernels.json"))
    return {each["triton"]: each for each in sorted(found, key=lambda each: _numbers(each["triton"]))}


def _numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def gains(found: Mapping[str, Report]) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """For each kernel and release: the time of the oldest stock release over that of this, and stock / ours.

    >>> def made(took, ratio):
    ...     stock, ours = {"microseconds": took}, {"ratio": (ratio, ratio, ratio)}
    ...     return {"cases": [{"name": "k", "modes": {"stock": stock, "ours": ours}}]}
    >>> gains({"3.6.0": made(6.0, 1.5), "3.9.0": made(4.0, 1.25)})
    {'k': {'3.6.0': (1.0, 1.5), '3.9.0': (1.5, 1.25)}}
    """
    took: dict[str, float] = {}
    rows: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for number_, (release, report) in enumerate(found.items()):
        for record in report["cases"]:
            name, now = record["name"], facts(record, modes.STOCK).get("microseconds")
            if number_ == 0 and now is not None:
                took[name] = now
            stock = took[name] / now if now and name in took else None
            rows.setdefault(name, {})[release] = (stock, middle(record, modes.OURS))
    return rows


def markdown(found: Mapping[str, Report]) -> str:
    """The page."""
    releases = list(found)
    oldest, rows = releases[0], gains(found)
    later = releases[1:]
    heads = ["kernel", *(f"stock {oldest} / stock {each}:" for each in later)]
    heads += [f"stock / ours, {each}:" for each in releases]

    def cells(name: str) -> list[str]:
        known = rows[name]
        stock = [number(known.get(each, (None, None))[0], 3) for each in later]
        return [name, *stock, *(number(known.get(each, (None, None))[1], 3) for each in releases)]

    def mean(release: str, which: int) -> str:
        # Of those that every release has: means of different kernels say nothing side by side.
        return number(geometric_mean(rows[name][release][which] for name in shared), 3)

    shared = [
        name for name, known in rows.items() if all(known.get(each, (None, None))[1] for each in releases)
    ]
    total = ["geometric mean of those in all", *(mean(each, 0) for each in later)]
    total += [mean(each, 1) for each in releases]
    lost = []
    for each in releases:
        ratios = ((name, known.get(each, (None, None))[1]) for name, known in rows.items())
        lost.append(f"{each}: {named(pages.losers(ratios))}")
    about = [f"{each['device']}, Triton {release}, {each['date']}" for release, each in found.items()]
    return page(
        "# Whole kernels by release",
        "",
        "; ".join(about) + f". {len(shared)} kernels were measured with every release.",
        "",
        "What Triton itself gained since the oldest release, from runs of their own; and the plugin over stock "
        "Triton of the same release, side by side in one run.",
        "",
        *pages.table(" | ".join(heads), [total, *(cells(name) for name in sorted(rows))]),
        *pages.listed("Slower than 0.98 of stock with the plugin:", lost),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write and print it."""
    options = Parser("kernels.releases", __doc__).output(RESULTS).parse_args(argv)
    text = markdown(reports(RESULTS))
    replaced(options.output / "releases.md", text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
