"""The section on whole kernels: a row per kernel beside the paper's, what is slower, counts, a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from bench.harness import report as pages
from bench.harness.plot import by_name, errorbars
from bench.harness.report import between, listed, page
from bench.harness.statistics import LOSS, geometric_mean
from bench.kernels import modes

from .kernel_case import cases
from .table import Part, Record

OURS, OVER_LEGACY, STOCK_OVER_LEGACY, NOISE = "stock/ours", "legacy/ours", "legacy/stock", "stock/again"
SHOWN = {OURS: ("o", "C0"), OVER_LEGACY: ("s", "C2"), STOCK_OVER_LEGACY: ("|", "0.4")}
"""The ratios in the table and the picture, with marker and colour."""
PARTS = {
    "only layouts": f"stock/{modes.ASSIGN}",
    "only lowerings": f"stock/{modes.LOWER}",
    "only registers": f"stock/{modes.BOUND}",
}
"""What the plugin's parts do alone."""
PAPER = {"mean": 1.07, "least": 0.96, "most": 1.40, "most of the first version": 1.57}
"""Of 265 cases of 21 kernels on a GH200: Triton before linear layouts over Triton with them."""
PAPER_COUNTS = {
    "gemm": (76, 18, 54),
    "bf16xint16_gemm": (22, 14, 32),
    "int4_gemm": (9, 3, 6),
    "template_attention": (2, 4, 2),
    "fp8_gemm": (4, 0, 16),
    "welford": (0, 0, 8),
    "gather_gemv": (0, 0, 8),
    "grouped_gemm": (0, 0, 4),
    "rope": (0, 0, 2),
    "embedding": (0, 0, 1),
}
"""Loads from shared memory, stores to it and conversions, over the paper's cases of a kernel."""
SLOWER_THAN_STOCK, SLOWER_THAN_LEGACY = LOSS, 0.96


def middle(record: Record, ratio: str) -> float | None:
    """The median of a ratio, None where it was not measured."""
    values = record.get("ratios", {}).get(ratio)
    return None if values is None else float(values[1])


def grouped(records: Mapping[str, Record]) -> dict[str, list[tuple[str, Record]]]:
    """The cases that were measured, with their keys, by kernel, in the order of the cases."""
    found: dict[str, list[tuple[str, Record]]] = {}
    for case in cases():
        record = records.get(case.key)
        if record is not None:
            found.setdefault(case.kernel, []).append((case.key, record))
    return found


def _known(records: Iterable[Record], ratio: str) -> list[float]:
    return [value for record in records if (value := middle(record, ratio)) is not None]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean = geometric_mean(values) or 0.0
    return f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else f"{mean:.3f}"


def table(records: Mapping[str, Record]) -> list[str]:
    """A row per kernel, one of all, and one of those that layouts can make a difference to."""
    rows: list[pages.Row] = []
    for name, found in grouped(records).items():
        mine = [record for _, record in found if "modes" in record]
        took = [
            time for record in mine if (time := record["modes"][modes.STOCK].get("microseconds")) is not None
        ]
        same = sum(record["modes"].get(modes.OURS, {}).get("result") == "identical" for record in mine)
        converts = {record["counts"]["convert"] for record in mine}
        cells = [
            name,
            str(len(mine)),
            f"{min(took):.0f} to {max(took):.0f}" if took else "failed",
            *(_spread(_known(mine, ratio)) for ratio in SHOWN),
            f"{min(converts)} to {max(converts)}" if len(converts) > 1 else "".join(map(str, converts)),
            f"{same} of {len(mine)}",
        ]
        rows.append(cells)
    every = [record for found in grouped(records).values() for _, record in found]
    converting = [record for record in every if record.get("counts", {}).get("convert")]
    for name, some in (("all", every), ("all that have a conversion", converting)):
        totals = [_spread(_known(some, ratio)) for ratio in SHOWN]
        rows.append(f"| {name} | {len(some)} | | {' | '.join(totals)} | | |")
    paper = f"{PAPER['mean']:.2f} ({PAPER['least']:.2f} to {PAPER['most']:.2f})"
    rows.append(f"| the paper, GH200 | 265 | | | | {paper} | | |")
    ratios = "".join(f"{ratio}: | " for ratio in SHOWN)
    return pages.table(f"kernel | sizes: | µs, stock: | {ratios}conversions of stock: | same bits:", rows)


def counts_table(records: Mapping[str, Record]) -> list[str]:
    """Operations of stock Triton's TTGIR, summed over the sizes, beside the paper's, summed over its own."""
    rows = []
    for name, found in grouped(records).items():
        mine = [record["counts"] for _, record in found if "counts" in record]
        total = "/".join(str(sum(each[kind] for each in mine)) for kind in ("load", "store", "convert"))
        paper = "/".join(map(str, PAPER_COUNTS[name])) if name in PAPER_COUNTS else ""
        rows.append((name, len(mine), total, paper))
    return pages.table("kernel | sizes: | local loads, stores, conversions: | the paper's:", rows)


def slower(records: Mapping[str, Record]) -> list[str]:
    """The cases that are slower than stock Triton or the legacy lowering by more than a little, each a line."""
    lines = []
    for ratio, least in ((OURS, SLOWER_THAN_STOCK), (OVER_LEGACY, SLOWER_THAN_LEGACY)):
        for key, record in records.items():
            value = middle(record, ratio)
            if value is not None and value < least:
                lines.append(f"{key}: {ratio} {between(record['ratios'][ratio])}{noise_of(record)}")
    return lines


def noise_of(record: Record) -> str:
    """What stock Triton beside itself gives, behind a ratio."""
    noise = record["ratios"].get(NOISE)
    return f"; {NOISE} {between(noise)}" if noise else ""


def wrong(records: Mapping[str, Record]) -> list[str]:
    """What failed, fell back, differs between runs, or is not what was to be computed, each a line."""
    lines = []
    for key, record in records.items():
        if "error" in record:
            lines.append(f"{key}: {record['error']}")
        for mode, known in record.get("modes", {}).items():
            if "error" in known:
                lines.append(f"{key}, {mode}: {known['error']}")
            if known.get("result") == "WRONG":
                why = known.get("why") or f"apart by {known['apart']:.2g}"
                lines.append(f"{key}, {mode}: not the results of stock Triton, {why}")
            if known.get("reference") == "WRONG":
                error, allowed = known["reference_apart"], record["tolerance"]
                lines.append(f"{key}, {mode}: {error:.2g} from the reference, where {allowed:.2g} is allowed")
            if known.get("deterministic") is False:
                lines.append(f"{key}, {mode}: two runs differ")
            lines += [f"{key}, {mode}: fell back, {each}" for each in known.get("fell_back", ())]
    return [line.replace("\n", " ")[:400] for line in lines]


def unavailable(records: Mapping[str, Record]) -> list[str]:
    """Why modes are missing."""
    known = [found for record in records.values() for found in record.get("modes", {}).values()]
    return sorted({found["unavailable"] for found in known if "unavailable" in found})


def report(records: Mapping[str, Record]) -> Part:
    """The section."""
    every = list(records.values())
    low, high = [], []
    for record in every:
        if noise := record.get("ratios", {}).get(NOISE):
            low.append(noise[0])
            high.append(noise[2])
    late, failed, missing = slower(records), wrong(records), unavailable(records)
    lines = [
        "Kernels of TritonBench's names, written for this project, each in one configuration. Times are of one "
        "call, out of CUDA graphs that take turns; a ratio is the median over the turns. `stock` is Triton as "
        "installed, `ours` the plugin, `legacy` stock Triton with its conversions lowered as before linear "
        "layouts: nothing else of the compiler is of then. Columns give the "
        "geometric mean over the sizes, and the least and the most. Every result of every mode is within a "
        "tolerance of a reference in float64, unless listed below.",
        "",
        *table(records),
        "",
        f"The paper's figure is of Triton before linear layouts over Triton with them; its first version has "
        f"up to {PAPER['most of the first version']:.2f}. Which mean it has it does not say.",
    ]
    both = [
        f"{ratio} {fmean(found):.3f} (geometric {geometric_mean(found):.3f})"
        for ratio in (OVER_LEGACY, OURS)
        if (found := _known(every, ratio))
    ]
    if both:
        lines.append(f"Arithmetic means over all cases: {', '.join(both)}.")
    if low:
        lines.append(
            f"Stock Triton a second time is {min(low):.3f} to {max(high):.3f} (ends of the intervals)."
        )
    alone = [f"{name} {_spread(found)}" for name, ratio in PARTS.items() if (found := _known(every, ratio))]
    if alone:
        lines.append(f"The plugin's parts alone, stock over each, over all cases: {'; '.join(alone)}.")
    lines += ["", f"Slower than {SLOWER_THAN_STOCK} of stock or {SLOWER_THAN_LEGACY} of legacy:", ""]
    lines += [f"- {line}" for line in late] or ["- none"]
    lines += [*listed("What went wrong:", failed), *listed("Modes left out:", missing)]
    not_run = [case.key for case in cases() if case.key not in records]
    if not_run and records:
        lines += ["", f"Not run: {', '.join(not_run)}."]
    lines += ["", "Operations in stock Triton's TTGIR, summed over the sizes:", "", *counts_table(records)]
    return Part(
        "Whole kernels",
        page(*lines),
        (*_short_of_the_paper(every), *late, *failed),
        lambda axis: figure(records, axis),
    )


def _short_of_the_paper(records: Sequence[Record]) -> list[str]:
    values = _known(records, OVER_LEGACY)
    means = {"mean": fmean(values) if values else None, "geometric mean": geometric_mean(values)}
    lines = [
        f"{OVER_LEGACY} is {mean:.3f} in the {name}, the paper has {PAPER['mean']:.2f} in one it does not name"
        for name, mean in means.items()
        if mean is not None and mean < PAPER["mean"]
    ]
    if values and max(values) < PAPER["most"]:
        lines.append(f"{OVER_LEGACY} is {max(values):.3f} at most, where the paper has {PAPER['most']:.2f}")
    return lines


def figure(records: Mapping[str, Record], axis: Any) -> None:
    """Draw the geometric mean of each kernel's ratios, with the least and the most as its bar."""
    kernels = grouped(records)
    for step, (ratio, (marker, colour)) in enumerate(SHOWN.items()):
        points = []
        for place, found in enumerate(kernels.values()):
            if values := _known([record for _, record in found], ratio):
                spread = (min(values), geometric_mean(values) or 0.0, max(values))
                points.append((place + 0.2 * (step - 1), spread))
        if points:
            errorbars(axis, points, marker, colour, ratio.replace("/", " / "))
    axis.axvspan(PAPER["least"], PAPER["most"], color="C1", alpha=0.1, label="the paper's range")
    axis.axvline(PAPER["mean"], color="C1", linewidth=0.8, label="the paper's mean")
    by_name(axis, list(kernels), fontsize=7)
