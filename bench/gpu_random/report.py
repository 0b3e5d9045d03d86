"""Reports of random conversions on a GPU: what each outcome is called, and the pages for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any

from ..harness.report import listed, measured_on, page, table

SLOWER = 0.97
"""Ratios below are listed by themselves."""
IDENTICAL = "identical"
VERIFIED = "verified"
NO_STOCK = "right, where stock Triton fails"
NEITHER = "compiled by neither"
STOCK_WRONG = "right, where stock Triton is wrong"
STOCK_CRASHES = "right, where stock Triton's kernel crashes"
DECIDED = "decided ratio"
"""The key of stock Triton's time over that of what tuning would choose."""
FINE = (IDENTICAL, VERIFIED, NO_STOCK, STOCK_WRONG, STOCK_CRASHES)


def ratios(
    records: Sequence[dict[str, Any]],
    title: str = "Stock Triton's time over the plugin's:",
    key: str = "ratio",
) -> list[str]:
    """What was gained, by sizes of clusters and altogether."""
    groups: dict[str, list[float]] = {}
    for record in records:
        if key in record:
            size = re.search(r"\d+ CTAs", record["name"])
            for group in ("all", size[0] if size else ""):
                groups.setdefault(group, []).append(record[key])
    if not groups:
        return []
    rows = (
        (group, len(found), f"{geometric_mean(found):.3f}", f"{min(found):.3f}", f"{max(found):.3f}")
        for group, found in sorted(groups.items())
    )
    slower = [f"{r['name']}: {r[key]:.3f}" for r in records if r.get(key, 1) < SLOWER]
    return [
        "",
        title,
        "",
        *table("clusters | conversions: | geometric mean: | least: | most:", rows),
        *listed(f"Below {SLOWER}:", slower),
    ]


def markdown(report: dict[str, Any]) -> str:
    """The report for people."""
    records, seconds = report["records"], report["seconds"]
    outcomes = Counter(record["outcome"] for record in records)
    groups: dict[str, list[bool]] = {}
    for record in records:
        plans = ", ".join(sorted(set(record["plans"]))) or "none"
        groups.setdefault(plans, []).append(record["outcome"] in FINE)
    reasons = Counter(record["stock"] for record in records if "stock" in record)
    wrong = [record["name"] for record in records if record["outcome"] in (STOCK_WRONG, STOCK_CRASHES)]
    failed = [record for record in records if record["outcome"] not in FINE]
    return page(
        f"{measured_on(report)}, seed {report['seed']}: of {len(records)} random conversions "
        + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        + f". {seconds['compile']:.0f} s to compile, {seconds['run']:.0f} s to run.",
        "",
        "Identical: every register of every thread holds the same bits as with stock Triton, and those that",
        "the layouts say, for patterns of bits that tell every element from the others.",
        "",
        *table(
            "plans | conversions: | fine:",
            ((plans, len(fine), sum(fine)) for plans, fine in sorted(groups.items())),
        ),
        *ratios(records),
        *ratios(records, "Stock Triton's time over that of what tuning would choose:", DECIDED),
        *listed(
            "How stock Triton failed to compile:",
            (f"{count}: `{reason}`" for reason, count in reasons.most_common()),
        ),
        *listed("Where stock Triton's registers are not what the layouts say, or its kernel crashes:", wrong),
        *listed("Failed:", (f"{r['name']}: {r['outcome']} {r.get('error', '')[:300]}" for r in failed)),
    )
