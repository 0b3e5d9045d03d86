"""The page of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..foreign import report as compiled
from ..foreign.report import cell, milliseconds, problem, surely_slower
from ..foreign.run import wrong
from ..harness.report import between, listed, measured_on, not_run, number, page, table
from ..harness.statistics import geometric_mean
from ..kernels import modes

Row = Mapping[str, Any]
MOST_KERNELS = 12
MEANING = (
    "Times are those of a CUDA graph of the step. Of its GPU time Triton's kernels take the share that a "
    "profiler sees with stock Triton; the rest is cuBLAS and PyTorch. Tokens a second: what the time of these "
    "layers would give for all of the model's, without its head and what GPUs send each other."
)


def share(row: Row, mode: str = modes.STOCK) -> float | None:
    """Of the step's GPU time that of Triton's kernels, by the profiler; None where it saw nothing.

    >>> share({"launches": {"norm": 2}, "profile": {"stock": {"norm": 1.0, "gemm": 3.0}}})
    0.25
    """
    spent = row.get("profile", {}).get(mode)
    if not spent:
        return None
    return float(sum(each for name, each in spent.items() if name in row["launches"]) / sum(spent.values()))


def tokens_a_second(step: Row, microseconds: float) -> float:
    """Of all layers, if each took as long as those of the step.

    >>> tokens_a_second({"tokens": 64, "layers": 2, "of_layers": 32}, 1000.0)
    4000.0
    """
    return float(step["tokens"] / (microseconds * 1e-6 * step["of_layers"] / step["layers"]))


def rows_of(report: Row) -> list[tuple[Row, Row]]:
    """The steps that were timed, each with what was measured."""
    found = [(case, row) for case in report["cases"] for row in case.get("measured", {}).get("kernels", ())]
    return [(case, row) for case, row in found if row.get("ratio")]


def _result(row: Row) -> str:
    text = str(row["result"])
    return text if text == "identical" else f"{text}, {row.get('why') or number(row.get('apart'), 5)} apart"


def steps_table(timed: Sequence[tuple[Row, Row]]) -> list[str]:
    """A row for each step."""
    rows = []
    kept = [row.get("beside", {}) for _, row in timed]
    shown = [mode for mode in (modes.CONTEST,) if all("ratio" in each.get(mode, {}) for each in kept)]
    for case, row in timed:
        step, stock, ratio = case["step"], row["microseconds"], row["ratio"]
        known = share(row)
        rows.append(
            (
                cell(case["case"]),
                f"{step['layers']} of {step['of_layers']}",
                sum(row["launches"].values()),
                number(stock, 1),
                number(stock / ratio[1], 1),
                between(ratio),
                *(between(row["beside"][mode]["ratio"]) for mode in shown),
                "" if known is None else f"{known:.0%}",
                f"{tokens_a_second(step, stock):,.0f}",
                f"{tokens_a_second(step, stock / ratio[1]):,.0f}",
                _result(row),
            )
        )
    heads = "step | layers | launches of Triton: | stock µs: | plugin µs: | stock / plugin: "
    heads += "".join(f"| stock / {mode}: " for mode in shown)
    return table(f"{heads}| Triton's share: | tokens/s, stock: | plugin: | result", rows)


def beside_table(timed: Sequence[tuple[Row, Row]]) -> list[str]:
    """A row for each other mode that was timed."""
    rows = []
    for mode in dict.fromkeys(mode for _, row in timed for mode in row["beside"]):
        there = [(row, row["beside"][mode]) for _, row in timed if "ratio" in row["beside"].get(mode, {})]
        ratios = [each["ratio"] for _, each in there]
        mean = number(geometric_mean(ratio[1] for ratio in ratios), 3)
        sums = milliseconds((row["microseconds"], each["ratio"]) for row, each in there)
        results = ", ".join(dict.fromkeys(str(each["result"]) for _, each in there))
        cells = (mean, surely_slower(ratios), *(number(each, 3) for each in sums), results)
        rows.append((mode, len(there), *cells))
    heads = "stock / mode | steps: | geometric mean: | surely below 0.98: | stock, ms: | mode, ms: | results"
    return ["", *table(heads, rows)] if rows else []


def kernels_table(row: Row) -> list[str]:
    """The kernels of a step that take longest with stock Triton."""
    stock, ours = row["profile"].get(modes.STOCK, {}), row["profile"].get(modes.OURS, {})
    rows = [
        (
            f"`{cell(name[:70])}`",
            row["launches"].get(name, ""),
            number(each, 1),
            number(ours.get(name), 1),
            number(each / ours[name]) if ours.get(name) else "",
        )
        for name, each in list(stock.items())[:MOST_KERNELS]
    ]
    return table("kernel | launches of Triton: | stock µs: | plugin µs: | stock / plugin:", rows)


def markdown(report: Row) -> str:
    """The page."""
    lines = [f"# {report['title']}", ""]
    if report.get("control"):
        lines += ["Stock Triton on both sides: what is wrong or breaks here is not the plugin's.", ""]
    where = measured_on(report) if report.get("device") else f"nothing launched, {report['date']}"
    lines.append(f"{where}, {report['seconds']:.0f} s. {MEANING}")
    timed = rows_of(report)
    if timed:
        ratios = [row["ratio"] for _, row in timed]
        sums = milliseconds((row["microseconds"], row["ratio"]) for _, row in timed)
        mean = number(geometric_mean(ratio[1] for ratio in ratios), 3)
        lines += ["", *steps_table(timed), ""]
        lines.append(
            f"Stock / plugin: {mean} in the mean; {surely_slower(ratios)} surely below 0.98; all once take "
            f"{sums[0]:.3f} ms with stock Triton and {sums[1]:.3f} ms with the plugin."
        )
        lines += beside_table(timed)
    lines += listed("Failures of the plugin:", wrong(report), ["", "No failure of the plugin."])
    lines += listed(
        "Steps that did not end well:",
        (f"{case['case']}: {cell(text)}" for case in report["cases"] if (text := problem(case))),
    )
    if not report.get("device"):
        found = compiled.rows_of(report["cases"])
        lines += [
            "",
            *compiled.summary({"all": found}),
            *compiled.reasons(found),
            "",
            *compiled.compiled_table(found),
        ]
    for case, row in timed:
        said = row.get("profile_error")
        shown = [f"No profile: {cell(said)}"] if said and not row["profile"] else kernels_table(row)
        lines += ["", f"## {case['case']}", "", *shown]
    return page(*lines, *not_run(report))
