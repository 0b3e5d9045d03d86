"""The section on reductions: what is right by kind of layout, and instructions beside the paper's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness.report import number, page, table
from bench.paper.reductions_kernel import ARGMAX, SUM, Case
from bench.paper.table import Part, Record, not_run

BLOCKED, MMA, MMA_INPUT = "blocked", "mma", "mma input"
SLICE_BLOCKED, SLICE_MMA, SLICE_INPUT = "slice of blocked", "slice of mma", "slice of mma input"
LINEAR = "custom linear"
PAPER: Mapping[str, Mapping[str, Any]] = {
    BLOCKED: {"legacy": "20/20", "linear": "20/20", "instructions": (5888, 1388)},
    MMA: {"legacy": "20/20", "linear": "20/20", "instructions": (5914, 3517)},
    MMA_INPUT: {"legacy": "0/10", "linear": "10/10", "instructions": None},
    SLICE_BLOCKED: {"legacy": "20/20", "linear": "20/20", "instructions": (6703, 4687)},
    SLICE_MMA: {"legacy": "0/10", "linear": "10/10", "instructions": None},
    SLICE_INPUT: {"legacy": "0/10", "linear": "10/10", "instructions": None},
    LINEAR: {"legacy": "0/10", "linear": "10/10", "instructions": None},
}
"""The paper's table: reductions that are right, and shared-memory instructions, in the legacy system and in the
linear one. Which layouts and operations these are is not stated; the figures compare in proportion only."""
OURS, STOCK, OLD = "ours", "stock", "3.0.0"
SYSTEMS = (OLD, STOCK, OURS)
RECORD = Path(__file__).parents[1] / "results" / "reductions-3.0.0.json"


def old() -> Mapping[str, Any]:
    """What `reductions_old` recorded."""
    found: Mapping[str, Any] = json.loads(RECORD.read_text())
    return found


def merged(records: Mapping[str, Record]) -> dict[str, Record]:
    """The records that are no error, each with what Triton 3.0.0 made of the case."""
    before = old()["cases"]
    return {key: {**record, OLD: before[key]} for key, record in records.items() if "error" not in record}


def totals(records: Sequence[Record]) -> dict[str, Any]:
    """Of some cases: for each system how many compile, are right, and barriers; and instructions of the cases
    that `all` systems compile, of which there are `common`. A system that compiles none is left out of that.

    >>> made, none = {"instructions": 3, "barriers": 1, "right": True}, {"error": "no such layout"}
    >>> totals([{"ours": made, "stock": made, "3.0.0": none}])["instructions"]
    {'stock': 3, 'ours': 3}
    """
    able = [name for name in SYSTEMS if any("error" not in record[name] for record in records)]
    common = [record for record in records if all("error" not in record[name] for name in able)]
    return {
        "cases": len(records),
        "common": len(common),
        "compiled": {name: sum("error" not in record[name] for record in records) for name in SYSTEMS},
        "right": {name: sum(bool(record[name].get("right")) for record in records) for name in SYSTEMS},
        "instructions": {name: sum(record[name]["instructions"] for record in common) for name in able},
        "barriers": {name: sum(record[name]["barriers"] for record in common) for name in able},
    }


def report(declared: Sequence[Case], records: Mapping[str, Record]) -> Part:
    """Three tables. A shortfall: a result that is not right, and what is saved in a smaller proportion than the
    paper's, or not at all."""
    known = merged(records)

    def chosen(kind: str, operations: Iterable[str] = (SUM, ARGMAX), alone: bool | None = None) -> list[Record]:
        return [
            known[case.key]
            for case in declared
            if case.key in known
            and case.kind == kind
            and case.operation in operations
            and alone in (None, case.alone)
        ]

    kinds = [
        (
            kind,
            (found := totals(chosen(kind)))["cases"],
            *(found["right"][name] for name in (OURS, STOCK)),
            found["compiled"][OLD],
            paper["legacy"],
            paper["linear"],
        )
        for kind, paper in PAPER.items()
    ]
    lines = [
        "A tensor of f32 of 128x16, 128x128, 32x128, 32x32 and 16x16 is summed, or its maximum and where that "
        "is are found, along either axis by four warps. Results are the interpreter's; Triton 3.0.0 is "
        "compiled for cuda:90 and not run. The paper does not name the layouts and operations that it counts.",
        "",
        *table(
            "layouts | cases: | right: ours: | stock: | 3.0.0 compiles: | paper: legacy: | paper: linear:",
            kinds,
        ),
    ]
    for alone, title in ((True, "The reduction by itself"), (False, "Between two conversions")):
        lines += [
            "",
            f"{title}: shared-memory instructions in the PTX of the cases that all three compile, or that "
            "stock and ours do where 3.0.0 compiles none; what ours saves; barriers.",
            "",
            *table(
                "layouts | operation | cases: | 3.0.0: | stock: | ours: | 3.0.0 / ours: | stock / ours: "
                "| barriers: stock: | ours:",
                (
                    _row(kind, operation, totals(chosen(kind, (operation,), alone)))
                    for kind in PAPER
                    for operation in (SUM, ARGMAX)
                ),
            ),
        ]
    proportions = []
    shortfalls = _wrong(records)
    for kind, paper in PAPER.items():
        if paper["instructions"] is None:
            continue
        before, after = paper["instructions"]
        saved = [_ratio(totals(chosen(kind, alone=alone)), OLD) for alone in (True, False)]
        proportions.append((kind, f"{before} / {after}", number(before / after), *map(number, saved)))
        for each, how in zip(saved, ("by itself", "between conversions"), strict=True):
            if each is not None and each < before / after:
                shortfalls.append(
                    f"{kind}, {how}: 3.0.0 has {each:.2f} times our instructions, the paper's legacy system "
                    f"{before / after:.2f} times those of its linear layouts"
                )
    shortfalls += [*_more(known), *not_run(declared, records)]
    lines += [
        "",
        "Sums and argmax together beside the paper, in proportion (instructions before / with linear layouts):",
        "",
        *table(
            "layouts | paper: | ratio: | by itself: 3.0.0 / ours: | between conversions: 3.0.0 / ours:",
            proportions,
        ),
    ]
    return Part("Reductions", page(*lines), shortfalls)


def _row(kind: str, operation: str, found: Mapping[str, Any]) -> list[str]:
    counts, barriers = found["instructions"], found["barriers"]
    cells = [kind, operation, str(found["common"])]
    cells += [str(counts.get(name, "none compiles" if found["cases"] else "")) for name in SYSTEMS]
    cells += [number(_ratio(found, name)) for name in (OLD, STOCK)]
    return [*cells, *(str(barriers.get(name, "")) for name in (STOCK, OURS))]


def _ratio(found: Mapping[str, Any], other: str) -> float | None:
    """The instructions of another system over ours."""
    counts = found["instructions"]
    return counts[other] / counts[OURS] if other in counts and counts.get(OURS) else None


def _wrong(records: Mapping[str, Record]) -> list[str]:
    """Cases of which ours, or all, failed; and those that are not right."""
    lines = []
    for key, record in records.items():
        ours = record if "error" in record else record[OURS]
        if "error" in ours:
            lines.append(f"{key}: {ours['error']}".replace("\n", " ")[:300])
        elif not ours["right"]:
            lines.append(f"{key}: the result is not right")
    return lines


def _more(records: Mapping[str, Record]) -> list[str]:
    """The cases that have more instructions than with stock Triton, in one line."""
    more = [
        (record[OURS]["instructions"] - record[STOCK]["instructions"], key)
        for key, record in records.items()
        if "error" not in record[OURS] and "error" not in record[STOCK]
    ]
    worse = [each for each in more if each[0] > 0]
    if not worse:
        return []
    most, key = max(worse)
    return [
        f"{len(worse)} of {len(records)} cases have more shared-memory instructions than with stock Triton, "
        f"{key} {most} more"
    ]
