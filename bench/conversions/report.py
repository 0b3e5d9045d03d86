"""What a run found, in words: the table with the losers first, means by group, and the model's ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.target.targets import TARGETS

from ..harness import report as pages
from ..harness.report import listed, number, page, sizes
from ..harness.statistics import geometric_mean, spearman

MODES = ("throughput", "latency")
LIKELY_WARPS = TARGETS["cuda:90"].policy.likely_warps
Result = Mapping[str, Any]


def clocks(result: Result, method: str, mode: str) -> float | None:
    """Clocks of a round trip less the empty loop; None where the method was not timed."""
    timed = result["methods"].get(method, {}).get(mode)
    return None if timed is None else max(0.0, float(timed["clocks"]))


def ratio(result: Result, above: str, below: str, mode: str) -> float | None:
    """How many times longer `above` takes than `below`; two that take under a clock are equal."""
    over, under = clocks(result, above, mode), clocks(result, below, mode)
    if over is None or under is None:
        return None
    return max(over, 1.0) / max(under, 1.0)


def over_bound(result: Result, method: str = "ours") -> float | None:
    """Throughput over the physical bound; None where nothing must move."""
    took, least = clocks(result, method, "throughput"), result["bound"]["clocks"]
    return None if took is None or least == 0 else took / least


def predicted(result: Result, method: str = "ours") -> float | None:
    """The model's clocks of a round trip of one CTA; None where a conversion was left to Triton."""
    sides = result["methods"].get(method, {}).get("conversions") or []
    each = [side["clocks"] for side in sides]
    return None if not each or None in each else float(math.fsum(each)) * int(result["warps"])


def ranking(results: Sequence[Result]) -> tuple[int, float]:
    """How many cases have a prediction, and its rank correlation with the throughput measured."""
    pairs = [(predicted(result), clocks(result, "ours", "throughput")) for result in results]
    known = [(p, m) for p, m in pairs if p is not None and m is not None]
    return len(known), spearman([p for p, _ in known], [m for _, m in known])


def expected(result: Result, method: str) -> float | None:
    """What plans are chosen by, `Cost.expected`, of the clocks measured."""
    throughput, latency = (clocks(result, method, mode) for mode in MODES)
    if throughput is None or latency is None:
        return None
    warps = int(result["warps"])
    return Cost(throughput / warps, latency).expected(max(LIKELY_WARPS, warps))


def forced_losses(
    results: Sequence[Result], measure: Callable[[Result, str], float | None], margin: float = 1.05
) -> tuple[int, list[tuple[str, str, float]]]:
    """How many cases had plans forced, and those (case, method, ours over it) where one beat the choice by
    `measure` of a case and a method."""
    count, lost = 0, []
    for result in results:
        ours = measure(result, "ours")
        forced = [(name, measure(result, name)) for name in result["methods"] if name.startswith("forced:")]
        known = [(ours / value, name) for name, value in forced if value and ours]
        count += bool(known)
        if known and max(known)[0] > margin:
            lost.append((result["name"], max(known)[1], max(known)[0]))
    return count, lost


def worst_first(results: Sequence[Result]) -> list[Result]:
    """Sorted by stock over ours, the smaller of the two modes; cases without both come first."""

    def key(result: Result) -> float:
        ratios = [ratio(result, "stock", "ours", mode) for mode in MODES]
        known = [value for value in ratios if value is not None]
        return min(known) if len(known) == len(MODES) else 0.0

    return sorted(results, key=key)


def _plans(result: Result, method: str = "ours") -> str:
    sides = result["methods"].get(method, {}).get("conversions") or []
    return ", ".join(dict.fromkeys(side["kind"] for side in sides))


def problems(result: Result) -> list[str]:
    """What went wrong with a case, a line per method."""
    found = []
    for method, facts in result["methods"].items():
        if facts.get("error"):
            found.append(f"{method}: {facts['error']}")
        if facts.get("right") is False:
            found.append(f"{method}: a round trip does not give back what went in")
        found += [
            f"{method}: {verdict}" for verdict in facts.get("verified", ()) if verdict not in ("ok", "no code")
        ]
    return found


def summary(report: Mapping[str, Any]) -> list[str]:
    """Means over all cases, by group and by kind, and the model's ranking."""
    results, rows = report["cases"], []
    groups: dict[str, list[Result]] = {"all": list(results)}
    for result in results:
        groups.setdefault(result["group"], []).append(result)
    for result in results:
        for kind in result.get("kinds", ()):
            groups.setdefault(kind, []).append(result)
    for group, members in groups.items():
        cells = [
            number(geometric_mean(ratio(r, method, "ours", mode) for r in members))
            for method in ("stock", "legacy")
            for mode in MODES
        ]
        bounds = [value for value in map(over_bound, members) if value is not None]
        cells.append(number(float(np.median(bounds))) if bounds else "")
        rows.append((group, len(members), *cells))
    heads = "group | cases: | stock / ours, throughput: | latency: | legacy / ours, throughput: | latency: "
    lines = pages.table(f"{heads}| ours / bound:", rows)
    lines += ["", "Means are geometric; of the times over the bound it is the median.", ""]
    for mode in MODES:
        known = [(r["name"], ratio(r, "stock", "ours", mode)) for r in results]
        below = [(name, value) for name, value in known if value is not None and value < 0.97]
        lines.append(f"- {mode}: {len(below)} cases below 0.97 of stock")
    counted, correlation = ranking(results)
    if not math.isnan(correlation):
        lines.append(
            f"- rank correlation of predicted and measured throughput: {correlation:.3f} ({counted} cases)"
        )
    measures = (
        (expected, f"the time of {LIKELY_WARPS} warps, which plans are chosen by"),
        (lambda result, method: clocks(result, method, "throughput"), "throughput alone"),
    )
    for measure, by in measures:
        forced, lost = forced_losses(results, measure)
        if forced:
            share = f"{(forced - len(lost)) / forced:.0%} of {forced} cases"
            lines.append(f"- by {by}, the chosen plan is within 5 % of the best forced one in {share}")
            lines += [f"  - {name}: {method} is {value:.2f} times faster" for name, method, value in lost]
    return lines


def table(results: Sequence[Result]) -> list[str]:
    """Every case, losers first."""
    rows = []
    for r in worst_first(results):
        bits = f"{sizes(r['shape'])}, {r['bits']} bits, {r['warps']} warps"
        methods = r["methods"]

        def both(fact: str, methods: Mapping[str, Any] = methods) -> str:
            return ", ".join(str(methods.get(m, {}).get(fact, "")) for m in ("ours", "stock"))

        cells = [
            r["name"],
            bits,
            _plans(r),
            number(r["bound"]["clocks"], 1),
            *(number(clocks(r, m, "throughput"), 1) for m in ("ours", "stock", "legacy")),
            number(ratio(r, "stock", "ours", "throughput")),
            number(ratio(r, "legacy", "ours", "throughput")),
            number(over_bound(r)),
            *(number(clocks(r, m, "latency"), 0) for m in ("ours", "stock", "legacy")),
            number(ratio(r, "stock", "ours", "latency")),
            both("shared"),
            both("registers"),
            both("spilled_bytes"),
        ]
        rows.append(cells)
    heads = (
        "case | tensor | plans | bound clk: | ours clk: | stock: | legacy: | stock / ours: | legacy / ours: | "
        "ours / bound: | latency ours: | stock: | legacy: | stock / ours: | shared bytes ours, stock: | "
        "registers ours, stock: | spilled bytes ours, stock:"
    )
    return pages.table(heads, rows)


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    results = report["cases"]
    lines = [
        "# Layout conversions",
        "",
        f"{report['device']}, {report['clock_mhz']:.0f} MHz under load, Triton {report['triton']}, "
        f"triton-linear {report['triton_linear']}, {report['date']}. {len(results)} cases.",
        "",
        "Clocks are those of one multiprocessor for a round trip A to B to A of one CTA, the empty loop taken "
        "off: throughput with as many CTAs as are resident, latency with one. The bound is the least that the "
        "hardware needs (`bench/conversions/bounds.py`).",
        "",
        *summary(report),
        "",
        *table(results),
    ]
    wrong = [f"{r['name']}: {problem[:300]}" for r in results for problem in problems(r)]
    return page(*lines, *listed("What went wrong:", wrong))
