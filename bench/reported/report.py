"""The page of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..harness.report import between, listed, measured_on, not_run, one_line, page, table
from ..harness.statistics import LOSS
from ..kernels import modes
from .cases import CASES

WON = 1.10
"""Stock Triton's time over ours from which a case is won."""


def ratio(record: Mapping[str, Any]) -> float:
    """Stock Triton's time over ours; not a number where a case failed."""
    facts = record.get("ways", {}).get(modes.OURS, {})
    return float(facts["ratio"][1]) if "ratio" in facts else float("nan")


def verdict(record: Mapping[str, Any]) -> str:
    """What became of a case."""
    if "error" in record:
        return "failed"
    if any(facts["result"] == "WRONG" for facts in record["ways"].values()):
        return "WRONG"
    value = ratio(record)
    return "won" if value >= WON else "lost" if value < LOSS else "equal"


def markdown(report: Mapping[str, Any]) -> str:
    """A table of all cases, then what is counted in each kernel."""
    records = report["cases"]
    cases = {case.name: case for case in CASES}
    verdicts = [verdict(record) for record in records]
    good = [record for record in records if "ways" in record]
    return page(
        "# What users of Triton complained about",
        "",
        f"{measured_on(report)}. Stock Triton's time over ours, medians with their 95 % interval, of "
        f"{len(records)} kernels: {verdicts.count('won')} won ({WON} or more), {verdicts.count('lost')} lost. "
        "`docs/reported.md` says what each is.",
        "",
        *table(
            "case | thread | stock µs: | stock / ours: | verdict | results | stock compiles s: | ours s:",
            (
                (
                    record["name"],
                    f"[{cases[record['name']].number}]({cases[record['name']].thread})",
                    f"{record['ways'][modes.STOCK]['microseconds']:.1f}",
                    between(record["ways"][modes.OURS]["ratio"]),
                    verdict(record),
                    record["ways"][modes.OURS]["result"],
                    record["ways"][modes.STOCK]["seconds"],
                    record["ways"][modes.OURS]["seconds"],
                )
                for record in good
            ),
        ),
        "",
        *table("case | counted | by way", _counted(good, cases)),
        *listed(
            "Failed:",
            (f"{record['name']}: {one_line(record['error'])}" for record in records if "error" in record),
        ),
        *not_run(report),
    )


def _counted(records: list[Any], cases: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for record in records:
        for kind in cases[record["name"]].shown:
            yield (
                record["name"],
                kind,
                ", ".join(f"{way} {_sum(facts, kind)}" for way, facts in record["ways"].items()),
            )


def _sum(facts: Mapping[str, Any], kind: str) -> int:
    return sum(counts[kind] or 0 for counts in facts["counts"])
