"""The section on gathers: a table for each element, the best and the worst, what falls short, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.harness.plot import ticks
from bench.harness.report import between, page, table
from bench.kernels import modes

from .kernels_report import OURS, OVER_LEGACY, STOCK_OVER_LEGACY, noise_of, wrong
from .table import Part, Record

PAPER = 14.20
"""Linear layouts over legacy Triton at best, in the paper's figure; it falls with k after [512, 32]."""
OF_THE_ORDER = 5.0
"""A best of ours below this is short of the paper's by more than another GPU explains."""
_COLOURS = ("C0", "C1", "C2")


def kind(record: Record) -> str:
    """What became of the gather with the plugin: inside the lane, by shuffles, through shared memory, Triton's.

    >>> kind({"modes": {"ours": {"gathers": [["gather", "gather: inside the lane, 1 select, 0 permutes"]]}}})
    'lane'
    >>> kind({"modes": {"ours": {"gathers": [["triton", "the model prefers it"]]}}})
    "Triton's"
    """
    ours = record["modes"].get(modes.OURS, {})
    if ours.get("fell_back"):
        return "fell back"
    kinds = {"gather-shared": "shared", "triton": "Triton's"}
    found = []
    for lowering, detail in ours.get("gathers", ()):
        by_lanes = "lane" if "inside the lane" in detail else "shuffles"
        found.append(by_lanes if lowering == "gather" else kinds.get(lowering, lowering))
    return ", ".join(found)


def report(keys: Sequence[str], records: Mapping[str, Record]) -> Part:
    """The section; `keys` are those of all cases, in order."""
    known = {key: records[key] for key in keys if key in records and "modes" in records[key]}
    lines = [
        "Gathers along the rows of a tile of [512, k] of each program. Times are of one call, out of CUDA "
        "graphs that take turns; ratios are medians over the turns with their 95 % interval. `once`: load, "
        "gather, store; `chain`: as many gathers, each of what the one before gave. `stock` is Triton as "
        "installed, `legacy` gathers and conversions as Triton lowered them before linear layouts. `gather`: "
        "what the plugin makes of it.",
    ]
    for element in dict.fromkeys(record["element"] for record in known.values()):
        lines += [
            "",
            f"{element}:",
            "",
            *table(
                f"k: | gathers | stock µs: | {OURS}: | {OVER_LEGACY}: | {STOCK_OVER_LEGACY}: | gather "
                "| registers: stock, ours, legacy | shared bytes | same bits",
                (_row(record) for record in known.values() if record["element"] == element),
            ),
        ]
    lines.append("")
    for ratio in (OURS, OVER_LEGACY):
        values = _values(known, ratio)
        if values:
            (worst, at), (best, top) = min(values), max(values)
            lines.append(f"{ratio}: {best:.2f} at best ({top}), {worst:.2f} at worst ({at}).")
    lines.append(f"The paper has up to {PAPER:.2f} over legacy Triton, and less with each k after [512, 32].")
    shortfalls = [*_slower(known), *_short_of_the_paper(known), *_not_as_they_should(records)]
    if missing := len(keys) - len(records):
        shortfalls.append(f"{missing} of {len(keys)} cases have not run")
    return Part("Gathers", page(*lines), shortfalls, lambda axes: _figure(list(known.values()), axes))


def _row(record: Record) -> list[str]:
    found = record["modes"]
    made = [found.get(mode, {}).get("kernels", [{}])[0] for mode in (modes.STOCK, modes.OURS, modes.BASELINE)]
    took = found[modes.STOCK].get("microseconds")
    return [
        str(record["columns"]),
        "once" if record["times"] == 1 else f"chain of {record['times']}",
        "" if took is None else f"{took:.1f}",
        *(_shown(record, ratio) for ratio in (OURS, OVER_LEGACY, STOCK_OVER_LEGACY)),
        kind(record),
        ", ".join(str(each.get("registers", "")) for each in made),
        ", ".join(str(each.get("shared", "")) for each in made),
        "yes" if not _differing(record) else "NO",
    ]


def _shown(record: Record, ratio: str) -> str:
    if ratio not in record["ratios"]:
        return "no baseline" if record.get("fell_back") and ratio != OURS else ""
    return between(record["ratios"][ratio], 2)


def _values(records: Mapping[str, Record], ratio: str) -> list[tuple[float, str]]:
    return [(record["ratios"][ratio][1], key) for key, record in records.items() if ratio in record["ratios"]]


def _differing(record: Record) -> list[str]:
    """The modes whose results are not those of stock Triton, bit for bit."""
    found = record["modes"]
    return [mode for mode in found if found[mode].get("result", "identical") != "identical"]


def _slower(records: Mapping[str, Record]) -> list[str]:
    """The cases that are slower than stock Triton beyond their interval."""
    lines = []
    for key, record in records.items():
        ratio = record["ratios"].get(OURS)
        if ratio and ratio[2] < 1.0:
            lines.append(f"{key}: {OURS} {between(ratio)}, {kind(record)}{noise_of(record)}")
    return lines


def _short_of_the_paper(records: Mapping[str, Record]) -> list[str]:
    values = _values(records, OVER_LEGACY)
    if not values or max(values)[0] >= OF_THE_ORDER:
        return []
    best, key = max(values)
    return [f"{OVER_LEGACY} is {best:.2f} at best ({key}), where the paper has {PAPER:.2f}"]


def _not_as_they_should(records: Mapping[str, Record]) -> list[str]:
    """What failed, fell back, or has other results; and where the legacy mode is no baseline."""
    lines = wrong(records)
    for key, record in records.items():
        found = record.get("modes", {})
        lines += (
            [f"{key}, {mode}: not the bits of stock Triton" for mode in _differing(record)] if found else []
        )
        if record.get("fell_back"):
            lines.append(f"{key}: {modes.BASELINE} is no baseline: {record['fell_back'][0]}"[:300])
    return lines


def _figure(records: Sequence[Record], axes: Any) -> None:
    """Ratios over k: solid over legacy, dotted over stock; a circle for a chain, a cross for one gather."""
    elements = list(dict.fromkeys(record["element"] for record in records))
    for element, colour in zip(elements, _COLOURS, strict=False):
        for once in (False, True):
            for ratio, style in ((OVER_LEGACY, "-"), (OURS, ":")):
                points = [
                    (record["columns"], record["ratios"][ratio][1])
                    for record in records
                    if record["element"] == element
                    and (record["times"] == 1) == once
                    and ratio in record["ratios"]
                ]
                if points:
                    label = f"{element} {'once' if once else 'chain'}, {ratio}"
                    axes.plot(*zip(*points, strict=True), style, marker="x" if once else "o", color=colour,
                              markersize=4, linewidth=0.9, label=label)  # fmt: skip
    axes.axhline(PAPER, color="0.6", linewidth=0.8, label="the paper's best")
    axes.axhline(1, color="0.3", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks(axes, axes.get_ylim(), "y")
    axes.set_xlabel("k")
    axes.set_ylabel("times as fast")
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=5, ncols=2)
