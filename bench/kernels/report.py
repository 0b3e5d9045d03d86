"""What a run found, in words: totals, losers and winners by name, the table, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..harness import report as pages
from ..harness.report import between, counted, listed, measured_on, named, not_run, number, page, spread
from ..harness.statistics import geometric_mean
from . import modes

Record = Mapping[str, Any]


def facts(record: Record, mode: str) -> Mapping[str, Any]:
    """What is known of a case in one mode; empty where it was not measured."""
    found: Mapping[str, Any] = record["modes"].get(mode, {})
    return found


def ratio(record: Record, mode: str, kind: str = "warm") -> Sequence[float] | None:
    """(low, median, high) of stock's time over that of `mode`, warm or cold."""
    found = facts(record, mode)
    if kind == "cold":
        found = found.get("cold", {})
    values: Sequence[float] | None = found.get("ratio")
    return values


def middle(record: Record, mode: str, kind: str = "warm") -> float | None:
    """The median of `ratio`."""
    values = ratio(record, mode, kind)
    return None if values is None else values[1]


def in_order(records: Sequence[Record]) -> list[Record]:
    """Failures first, then what gains most."""

    def key(record: Record) -> tuple[bool, float]:
        failed = any("error" in found for found in record["modes"].values())
        return not failed, -(middle(record, modes.OURS) or 0.0)

    return sorted(records, key=key)


def problems(record: Record) -> list[str]:
    """What went wrong with a case, a line each."""
    found = []
    if "together" in record:
        found.append(f"not all modes in one process: {record['together']}")
    for mode, known in record["modes"].items():
        if "error" in known:
            found.append(f"{mode}: {known['error']}")
        if known.get("result") == "WRONG":
            apart = known.get("why") or f"apart by {known['apart']:.2g}"
            found.append(f"{mode}: wrong results, {apart}")
        if known.get("deterministic") is False:
            found.append(f"{mode}: two runs differ")
        found += [f"{mode}: fell back to stock Triton: {line}" for line in known.get("fell_back", ())]
    return found


def losers(records: Sequence[Record], mode: str = modes.OURS) -> list[tuple[str, float]]:
    """(name, stock over `mode`) of those below 0.98, worst first."""
    return pages.losers((record["name"], middle(record, mode)) for record in records)


def winners(records: Sequence[Record], mode: str = modes.OURS) -> list[tuple[str, float]]:
    """(name, stock over `mode`) of those above 1.02, best first."""
    return pages.winners((record["name"], middle(record, mode)) for record in records)


def measured_modes(report: Mapping[str, Any]) -> list[str]:
    """The modes beside stock that some case was measured in, in the order of the table."""
    order = (
        modes.OURS,
        modes.LAYOUTS,
        modes.LOWER,
        modes.ASSIGN,
        modes.DECIDED,
        *modes.VARIED,
        *modes.WITHOUT,
        modes.BOUND,
        modes.BASELINE,
        modes.UNPINNED,
        modes.AGAIN,
    )
    return [mode for mode in order if any(middle(record, mode) for record in report["cases"])]


def total_line(record: Record) -> str:
    """A case in one line, for the progress."""
    parts = [record["name"]]
    took = facts(record, modes.STOCK).get("microseconds")
    if took is not None:
        parts.append(f"{took:.1f} us")
    for mode in (modes.OURS, modes.LAYOUTS, modes.LOWER, modes.ASSIGN, modes.BASELINE):
        value = middle(record, mode)
        if value is not None:
            parts.append(f"{mode} {value:.3f}")
    result = facts(record, modes.OURS).get("result")
    parts += [result] if result else []
    parts += problems(record)[:2]
    return ", ".join(part[:300] for part in parts)


def totals(report: Mapping[str, Any]) -> list[str]:
    """Means and counts of each mode, and the names of losers and winners."""
    records, rows = report["cases"], []
    for mode in measured_modes(report):
        known = [value for value in (middle(record, mode) for record in records) if value is not None]
        cold = geometric_mean(middle(record, mode, "cold") for record in records)
        mean, *others = spread(known)
        rows.append((mode, len(known), mean, number(cold, 3), *others))
    heads = "mode | cases: | stock / mode, geometric mean: | cold: | least: | most: | below 0.98: | above 1.02:"
    lines = pages.table(heads, rows)
    lines += ["", "`again` is stock a second time: the noise.", ""]
    lines.append(f"- slower than 0.98 of stock with the plugin: {named(losers(records))}")
    for record in records:
        if ratios := record.get("elsewhere"):
            listed = ", ".join(f"{value:.3f}" for value in ratios)
            lines.append(f"- {record['name']} again, its inputs elsewhere in memory each time: {listed}")
    lines.append(f"- faster than 1.02: {named(winners(records))}")
    return lines


def of_passes(report: Mapping[str, Any]) -> list[str]:
    """What each pass gains: the time without it over the time with all, of the cases where it matters."""
    rows = []
    for mode, name in modes.WITHOUT.items():
        known = [
            (record["name"], ours / without)
            for record in report["cases"]
            if (ours := middle(record, modes.OURS)) and (without := middle(record, mode))
        ]
        if known:
            best = named(pages.winners(known)[:3])
            rows.append((f"`{name}`", len(known), *spread([gain for _, gain in known]), best))
    if not rows:
        return []
    heads = "pass | cases: | without it / with all: | least: | most: | below 0.98: | above 1.02: | most for"
    return ["", "What each pass gains:", "", *pages.table(heads, rows)]


def _ratio_cell(record: Record, mode: str) -> str:
    known = facts(record, mode)
    return between(known.get("ratio"), otherwise="failed" if "error" in known else "")


def _conversions(record: Record) -> str:
    stock = sum(kernel["conversions"] for kernel in facts(record, modes.STOCK).get("kernels", ()))
    kinds = facts(record, modes.OURS).get("conversions", {})
    return f"{stock}: {counted(kinds)}" if kinds else str(stock)


def _result(record: Record) -> str:
    known = facts(record, modes.OURS)
    if known.get("result") == "within tolerance":
        return f"within tolerance, {known['apart']:.1g}"
    return str(known.get("result", ""))


def table(report: Mapping[str, Any]) -> list[str]:
    """Every case."""
    shown = [mode for mode in measured_modes(report) if mode != modes.AGAIN and mode not in modes.WITHOUT]
    ratios = " | ".join(f"stock / {mode}:" for mode in shown)
    rows = []
    for record in in_order(report["cases"]):
        took = facts(record, modes.STOCK).get("microseconds")
        cells = [
            record["name"],
            number(took, 1, "failed"),
            *(_ratio_cell(record, mode) for mode in shown),
            number(middle(record, modes.OURS, "cold"), 3),
            _conversions(record),
            _result(record),
        ]
        rows.append(cells)
    between_ = f" | {ratios}" if ratios else ""
    return pages.table(f"kernel | µs:{between_} | cold: | conversions | result", rows)


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    configurations = "those chosen with stock Triton" if report["pinned"] else "chosen anew in each mode"
    lines = [
        "# Whole kernels",
        "",
        f"{measured_on(report)}. {len(report['cases'])} cases in {report['seconds']:.0f} s.",
        "",
        "Times are of one call, out of CUDA graphs that take turns, with stock Triton; ratios are stock's time "
        "over that of a mode, medians over the turns with their 95 % interval. Inputs lie as the replay before "
        "left them, results in three places in turn, the same for all modes; `cold` is stock / ours after the "
        f"L2 cache was overwritten. Inductor's configurations are {configurations}. `layouts`: "
        "the plugin without bounds on registers; `lower`: that without assigning layouts; `assign`: that "
        "without lowering; `bound`: the bounds on registers alone, for stock Triton's kernels. Conversions: "
        "how many stock Triton's TTGIR has, then what became of them.",
        "",
        *totals(report),
        *of_passes(report),
        "",
        *table(report),
    ]
    wrong = [f"{r['name']}: {problem[:500]}" for r in report["cases"] for problem in problems(r)]
    known = [found for record in report["cases"] for found in record["modes"].values()]
    missing = sorted({found["unavailable"] for found in known if "unavailable" in found})
    lines += listed("What went wrong:", (line.replace("\n", " ") for line in wrong))
    lines += listed("Modes left out:", missing)
    return page(*lines, *not_run(report))
