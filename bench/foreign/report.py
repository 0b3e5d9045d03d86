"""What is written of a run: figures per kernel, and the tables of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..harness.report import between, listed, not_run, number, page, spread, table
from ..harness.statistics import GAIN, LOSS, geometric_mean
from ..kernels import modes

GOOD = ("identical", "within tolerance", "varies")
SAME_BITS = ("identical", "varies")
"""What results may be that have to have stock Triton's bits."""
Row = Mapping[str, Any]


def rows_of(cases: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for each specialisation of a kernel, whichever case compiled it; each knows its first case.

    Of rows with one key that count which the plugin reported on: where another process had compiled the kernel,
    there is no report.
    """
    rows: dict[str, dict[str, Any]] = {}
    for case in cases:
        for row in case["kernels"]:
            key = row.get("key", row["kernel"])
            known = rows.get(key)
            if known is None:
                rows[key] = {"case": case["case"], **row}
            elif known.get("ours", {}).get("cached") and not row.get("ours", {}).get("cached"):
                rows[key] = {**known, **row}
    return list(rows.values())


def failures(rows: Iterable[Row]) -> list[str]:
    """What the plugin did wrong: it failed, or a result is wrong, or its kernel does not run."""
    found = []
    for row in rows:
        if "error" in row.get("ours", {}):
            found.append(f"{row['kernel']}: {row['ours']['error']}")
        measured = row.get("measured", {})
        if measured.get("error"):
            found.append(f"{row['kernel']}: on the GPU: {measured['error']}")
        elif "result" in measured and measured["result"] not in GOOD:
            found.append(f"{row['kernel']}: {measured['result']} {measured.get('why', measured.get('apart'))}")
        for mode, each in measured.get("beside", {}).items():
            if each["result"] not in (SAME_BITS if mode == modes.EXACT else GOOD):
                found.append(f"{row['kernel']}: {mode}: {each['result']} {each.get('why', each.get('apart'))}")
    return found


def crashes(cases: Iterable[Row]) -> list[str]:
    """Cases that broke their process, compiling or on the GPU, and do not with stock Triton alone."""
    steps = [(case["case"], step) for case in cases for step in (case, case.get("measured", {}))]
    return [f"{name}: {step['error']}" for name, step in steps if step.get("alone") == "works"]


def problem(case: Row) -> str | None:
    """What kept a case from ending well, at compiling or on the GPU."""
    measured = case.get("measured", {})
    once = measured.get("once")
    said = f"broke its process once, and not when it ran again: {once}" if once else None
    return case.get("error") or measured.get("error") or measured.get("stopped") or said


def attach(rows: list[dict[str, Any]], cases: Iterable[Row]) -> None:
    """Put what the GPU said beside what compiling said; what was only compiled there is a row of its own."""
    by_key = {row.get("key"): row for row in rows}
    for case in cases:
        for each in case.get("measured", {}).get("kernels", ()):
            if each["key"] not in by_key:
                by_key[each["key"]] = {"case": case["case"], "kernel": each["kernel"], "key": each["key"]}
                rows.append(by_key[each["key"]])
            by_key[each["key"]].setdefault("measured", dict(each))


def compile_ratio(row: Row) -> float | None:
    """Seconds to compile with the plugin over those without; None where a cache had it."""
    ours = row.get("ours", {})
    if "stock" not in row or "error" in ours or ours.get("cached") or not row["stock"].get("seconds"):
        return None
    return float(ours["seconds"] / row["stock"]["seconds"])


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts over kernels."""
    compiled = [row for row in rows if "stock" in row]
    good = [row for row in compiled if "error" not in row["ours"]]
    ratios = sorted(ratio for row in good if (ratio := compile_ratio(row)) is not None)
    counted = [row for row in good if compile_ratio(row) is not None]
    stock = sum(row["stock"]["seconds"] for row in counted)
    return {
        "kernels": len({row["kernel"] for row in compiled}),
        "specialisations": len(compiled),
        "with_conversions": sum(bool(row["ours"].get("seen")) for row in good),
        **{name: sum(row["ours"].get(name, 0) for row in good) for name in ("seen", "ours", "noop", "folded")},
        "left": sum(sum(row["ours"].get("left", {}).values()) for row in good),
        "stock_errors": sum("stock_error" in row for row in rows),
        "failures": len(failures(rows)),
        "compile_ratio": sum(row["ours"]["seconds"] for row in counted) / stock if stock else None,
        "compile_median": ratios[len(ratios) // 2] if ratios else None,
    }


def short(row: Row) -> str:
    """The name of a kernel without its modules."""
    return f"`{row['kernel'].rpartition('.')[2]}`"


def cell(text: object) -> str:
    """Text that fits into a table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def fate(row: Row) -> str:
    """Cells: seen, ours, no-op, folded, left."""
    ours = row.get("ours", {})
    if "error" in ours:
        return "| FAILED | | | | "
    counts = [ours.get(name, 0) for name in ("seen", "ours", "noop", "folded")]
    left = sum(ours.get("left", {}).values())
    return "| " + " | ".join(map(str, (*counts, left))) + " "


def reasons(rows: Sequence[Row]) -> list[str]:
    """Why conversions were left to Triton, the most frequent first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.get("ours", {}).get("left", {}))
    found = [(cell(reason), count) for reason, count in counts.most_common()]
    return ["", *table("left to Triton because | conversions:", found)] if found else []


def summary(found: Mapping[str, Sequence[Row]]) -> list[str]:
    """A row of counts for each target."""
    rows = []
    for target, members in found.items():
        t = totals(members)
        counts = ("kernels", "specialisations", "with_conversions", "seen", "ours", "noop", "folded", "left")
        more = (t[name] for name in (*counts, "failures", "stock_errors"))
        rows.append((target, *more, number(t["compile_ratio"]), number(t["compile_median"])))
    return table(
        "target | kernels: | specialisations: | with conversions: | seen: | ours: | no-op: | folded: | left: "
        "| failures: | stock fails: | compile time, all: | median:",
        rows,
    )


MEANING = (
    "A specialisation is a kernel with types, constants and a configuration; of kernels that tune themselves "
    "one configuration, the same for both. Conversions are those that the plugin saw: `ours` run its code, "
    "`no-op` move nothing, `folded` are gone, `left` are lowered by Triton. Compile time: with the plugin over "
    "without."
)


def packages_table(report: Row) -> list[str]:
    """A row for each package: its version, cases, kernels, and what kept cases from running."""
    rows = []
    for package in report["packages"]:
        records = [case for case in report["cases"] if case["package"] == package["name"]]
        names = {row["kernel"] for case in records for row in case["kernels"] if "stock" in row}
        cases = {case["case"] for case in records}
        found = [(case["case"].partition(": ")[2], problem(case)) for case in records]
        bad = dict.fromkeys(f"{name} ({text[:150]})" for name, text in found if text)
        rows.append((package["name"], package["version"], len(cases), len(names), cell("; ".join(bad))))
    return ["", *table("package | version | cases: | kernels: | cases that did not end well", rows)]


def markdown(report: Row) -> str:
    """The page of a run."""
    lines = [f"# {report.get('title', 'Kernels of other packages')}", ""]
    if report.get("control"):
        lines += ["Stock Triton on both sides: what is wrong or breaks here is not the plugin's.", ""]
    where = report.get("device") or "nothing launched"
    lines.append(
        f"{where}, Triton {report['triton']}, torch {report['torch']}, triton-linear "
        f"{report['triton_linear']}, {report['date']}, {report['seconds']:.0f} s. {MEANING}"
    )
    found = {
        target: rows_of([c for c in report["cases"] if c["target"] == target]) for target in report["targets"]
    }
    for rows in found.values():
        if report.get("device"):
            attach(rows, report["cases"])
    wrong = [f"{target}: {text}" for target, rows in found.items() for text in failures(rows)]
    wrong += crashes(report["cases"])
    lines += ["", *summary(found), *listed("Failures of the plugin:", wrong, ["", "No failure of the plugin."])]
    lines += packages_table(report)
    for target, rows in found.items():
        if rows:
            lines += ["", f"## {target}", *reasons(rows), ""]
            lines += measured_table(rows) if report.get("device") else compiled_table(rows)
    return page(*lines, *not_run(report))


def compiled_table(rows: Sequence[Row]) -> list[str]:
    """Every kernel that has conversions, and those that do not compile."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["case"], row["kernel"])):
        if "stock" not in row:
            lines.append(
                f"| {short(row)} | {cell(row['case'])} | stock Triton fails: {cell(row['stock_error'][:120])} |"
            )
        elif row["ours"].get("seen") or "error" in row["ours"]:
            lines.append(
                f"| {short(row)} | {cell(row['case'])} {fate(row)}| {row['stock']['shared']} "
                f"| {row['ours'].get('shared', '')} | {number(compile_ratio(row))} |"
            )
    shown = [row for row in rows if "stock" not in row or row["ours"].get("seen") or "error" in row["ours"]]
    heads = "kernel | case | seen: | ours: | no-op: | folded: | left: | shared bytes, stock: | ours: "
    return [*table(f"{heads}| compile time:", lines), "", f"{len(rows) - len(shown)} more have no conversion."]


def milliseconds(timed: Iterable[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    """Of stock Triton and of the other side, in sum, from microseconds of stock Triton and ratios.

    >>> milliseconds([(3000.0, (1.4, 1.5, 1.6)), (1000.0, (0.9, 1.0, 1.1))])
    (4.0, 3.0)
    """
    pairs = [(stock, stock / ratio[1]) for stock, ratio in timed]
    return sum(stock for stock, _ in pairs) / 1e3, sum(other for _, other in pairs) / 1e3


def surely_slower(ratios: Iterable[Sequence[float]]) -> int:
    """How many are slower than stock Triton beyond noise: all of the interval is."""
    return sum(ratio[2] < LOSS for ratio in ratios)


def _beside(timed: Sequence[Row]) -> list[str]:
    """The other modes that were measured, over the kernels with conversions."""
    known = [row["measured"] for row in timed if row.get("ours", {}).get("seen")]
    names = dict.fromkeys(mode for row in known for mode in row.get("beside", ()))
    if not names:
        return []
    cells = []
    for mode in names:
        there = [row for row in known if "ratio" in row.get("beside", {}).get(mode, {})]
        ratios = [row["beside"][mode]["ratio"] for row in there]
        stock, other = milliseconds(
            (row["microseconds"], ratio) for row, ratio in zip(there, ratios, strict=True)
        )
        wrong = sum(row["beside"][mode]["result"] == "WRONG" for row in there)
        sums = number(stock, 3), number(other, 3)
        cells.append(
            (mode, len(there), *spread([each[1] for each in ratios]), surely_slower(ratios), *sums, wrong)
        )
    heads = "stock / mode | kernels: | geometric mean: | least: | most: | below 0.98: | above 1.02: "
    heads += "| surely below 0.98: | stock, ms: | mode, ms: | wrong:"
    said = []
    for mode in names:
        results = Counter(
            row["measured"]["beside"][mode]["result"]
            for row in timed
            if mode in row["measured"].get("beside", ())
        )
        counts = ", ".join(f"{count} {name}" for name, count in sorted(results.items()))
        said.append(f"Results of {mode}, over all launches: {counts}.")
    return ["", *table(heads, cells), "", *said]


def measured_table(rows: Sequence[Row]) -> list[str]:
    """Every kernel that was measured, the fastest first, losers last; and counts."""
    timed = [row for row in rows if row.get("measured", {}).get("ratio")]
    ratios = [row["measured"]["ratio"][1] for row in timed]
    results = Counter(row["measured"]["result"] for row in timed)
    lines = [
        f"{len(timed)} measured; results: " + ", ".join(f"{n} {name}" for name, n in sorted(results.items()))
    ]
    if ratios:
        changed = [row["measured"]["ratio"][1] for row in timed if row.get("ours", {}).get("seen")]
        means = f"{number(geometric_mean(ratios))} in the mean, {number(geometric_mean(changed))} of those with"
        beyond = f"{sum(r > GAIN for r in ratios)} above {GAIN}, {sum(r < LOSS for r in ratios)} below {LOSS}"
        surely = surely_slower(row["measured"]["ratio"] for row in timed)
        stock, ours = milliseconds((row["measured"]["microseconds"], row["measured"]["ratio"]) for row in timed)
        sums = f"all once take {stock:.3f} ms with stock Triton and {ours:.3f} ms with the plugin"
        lines.append(f"Stock / ours: {means} conversions; {beyond}, {surely} of these surely; {sums}.")
    lines += _beside(timed)
    found = []
    for row in sorted(timed, key=lambda row: -row["measured"]["ratio"][1]):
        measured = row["measured"]
        registers = f"{measured['facts']['stock']['registers']}, {measured['facts']['ours']['registers']}"
        found.append(
            f"| {short(row)} | {cell(row['case'])} {fate(row)}| {measured['microseconds']:.1f} "
            f"| {between(measured['ratio'])} | {registers} | {number(compile_ratio(row))} "
            f"| {measured['result']} |"
        )
    heads = "kernel | case | seen: | ours: | no-op: | folded: | left: | stock µs: | stock / ours: | registers: "
    return [*lines, "", *table(f"{heads}| compile time: | results", found)]
