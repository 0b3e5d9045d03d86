"""What `bench.models` found, in words: a row a case, then its kernels that gain or lose most.

Kernels whose configurations differ between the two processes are named too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..harness import report as pages
from ..harness.report import between, measured_on, named, number, one_line, page
from ..harness.statistics import GAIN, LOSS, geometric_mean
from .tuners import EQUAL, FREE, PLUGIN, STOCK

Record = Mapping[str, Any]
WAYS = (FREE, EQUAL)
SHARE = 0.01
"""Kernels that take less of a step are not named."""
MOST = 6
"""So many kernels of a kind are named for each case."""


def is_measured(record: Record) -> bool:
    """Whether a case has times."""
    return "step" in record


def middle(summary: Mapping[str, Any], way: str) -> float | None:
    """The median of a ratio; None where there is none."""
    found = summary["ratio"].get(way)
    return None if found is None else float(found[1])


def share(record: Record, kernel: Record) -> float:
    """Of stock Triton's step."""
    return float(kernel["microseconds"][STOCK] / (record["step"]["microseconds"][STOCK] or 1.0))


def reconfigured(record: Record) -> list[Record]:
    """The kernels that the two processes run in different configurations."""
    return [each for each in record["kernels"] if each["configs"][STOCK] != each["configs"][FREE]]


def wrong(report: Mapping[str, Any]) -> list[str]:
    """Everything that the plugin did wrong in a run, or that kept a case from being measured."""
    found = []
    for record in report["cases"]:
        name = record["name"]
        found += [
            f"{name}: {side}: {one_line(each['error'])}" for side, each in record.get("errors", {}).items()
        ]
        for way, each in record.get("results", {}).items():
            if each.get("verdict") == "WRONG":
                found.append(f"{name}: {way}: results apart by {each['apart']:.2g} in {each['where']}")
        for kernel, error in compiles(record).get("errors", {}).items():
            found.append(f"{name}: {kernel}: {one_line(error)}")
    return found


def reason(failed: Mapping[str, str]) -> str:
    """Why something failed, in a line, and where if that says little."""
    said = one_line(failed["error"].partition("Set TORCHDYNAMO_VERBOSE")[0])
    places = [
        line.strip() for line in failed.get("traceback", "").splitlines() if line.strip().startswith("File ")
    ]
    return f"{said} ({places[-1]})" if places else said


def compiles(record: Record) -> Mapping[str, Any]:
    """What the plugin reports of its compiles of a case."""
    known: Mapping[str, Any] = record.get("prepared", {}).get(PLUGIN, {}).get("compiles", {})
    return known


def case_line(record: Record) -> str:
    """A case in a line, for who waits."""
    if not is_measured(record):
        reasons = [f"{side}: {reason(each)}" for side, each in record.get("errors", {}).items()]
        return f"{record['name']}: FAILED, {'; '.join(reasons)}"
    ratios = [f"{what} {number(middle(record[what], way), 3)}" for what in ("step", "triton") for way in WAYS]
    return f"{record['name']}: {', '.join(ratios)}, {result(record)}"


def result(record: Record) -> str:
    """The verdicts on a case's results."""
    found = {way: each["verdict"] for way, each in record["results"].items() if "verdict" in each}
    words = set(found.values())
    text = next(iter(words)) if len(words) == 1 else ", ".join(f"{way} {word}" for way, word in found.items())
    return text + (", not finite" if record["results"][STOCK]["not_finite"] else "")


def overview(records: Sequence[Record], not_run: Iterable[str]) -> list[str]:
    """A row a case."""
    rows: list[Any] = []
    for record in records:
        if not is_measured(record):
            rows.append([record["name"], "failed", *[""] * 7, ""])
            continue
        step, triton = record["step"], record["triton"]
        rows.append(
            [
                record["name"],
                f"{step['microseconds'][STOCK]:.0f}",
                f"{100 * triton['microseconds'][STOCK] / (step['microseconds'][STOCK] or 1.0):.0f} %",
                *(between(step["ratio"].get(way)) for way in WAYS),
                *(between(triton["ratio"].get(way)) for way in WAYS),
                number(middle(record["rest"], FREE), 3),
                f"{len(reconfigured(record))} of {len(record['kernels'])}",
                result(record),
            ]
        )
    rows += [[name, "not measured", *[""] * 7, ""] for name in not_run]
    heads = (
        "case | step µs: | of Triton's: | step, free: | step, equal: | Triton's, free: | Triton's, equal: | "
        "the rest: | configured otherwise: | results"
    )
    return pages.table(heads, rows)


def totals(records: Sequence[Record]) -> list[str]:
    """Means over the cases, and what all of them take together."""
    lines = []
    for what, words in (("step", "whole steps"), ("triton", "Inductor's kernels")):
        for way in WAYS:
            known = [(each["name"], middle(each[what], way)) for each in records]
            sums = [sum(each[what]["microseconds"][side] for each in records) / 1e3 for side in (STOCK, way)]
            lines.append(
                f"- {words}, {way}: geometric mean {number(geometric_mean(v for _, v in known), 3)}, "
                f"{sums[0]:.1f} ms become {sums[1]:.1f}; below {LOSS}: {named(pages.losers(known))}; "
                f"above {GAIN}: {named(pages.winners(known))}"
            )
    same = [
        middle(k, EQUAL)
        for each in records
        for k in each["kernels"]
        if k["same_code"][EQUAL] and _long(each, k)
    ]
    if same:
        ends = [value for value in same if value]
        lines.append(
            f"- Control: {len(same)} kernels with the same code in the same configuration, geometric mean "
            f"{number(geometric_mean(same), 3)}, {min(ends):.3f} to {max(ends):.3f}"
        )
    return lines


def _long(record: Record, kernel: Record) -> bool:
    return share(record, kernel) >= SHARE


def kernel_row(record: Record, kernel: Record) -> list[str]:
    """A kernel in a table."""
    configs = kernel["configs"]
    facts = kernel["facts"]
    return [
        f"`{kernel['name']}`",
        f"{kernel['microseconds'][STOCK]:.1f}",
        f"{100 * share(record, kernel):.1f} %",
        *(between(kernel["ratio"].get(way)) for way in WAYS),
        configs[STOCK],
        "" if configs[FREE] == configs[STOCK] else configs[FREE],
        " / ".join(f"{facts[way][0]}, {facts[way][1]}" for way in (STOCK, FREE, EQUAL)),
    ]


def kernel_table(record: Record, rows: Iterable[Record]) -> list[str]:
    """Kernels in a table."""
    heads = (
        "kernel | µs: | of the step: | free: | equal: | configuration of stock | of the plugin, if another | "
        "registers, spilled: stock / free / equal"
    )
    return pages.table(heads, [kernel_row(record, each) for each in rows])


def extremes(record: Record) -> list[Record]:
    """The kernels that lose most time and those that gain most, in either way."""
    known = [each for each in record["kernels"] if _long(record, each)]

    def worst(kernel: Record) -> float:
        return min((value for way in WAYS if (value := middle(kernel, way))), default=1.0)

    def best(kernel: Record) -> float:
        return max((value for way in WAYS if (value := middle(kernel, way))), default=1.0)

    slow = sorted((each for each in known if worst(each) < LOSS), key=worst)[:MOST]
    fast = sorted((each for each in known if best(each) > GAIN and each not in slow), key=best)[-MOST:]
    return slow + fast


def all_losers(records: Sequence[Record]) -> list[str]:
    """The kernels of all cases that lose in equal configurations, by the time that they lose."""
    found = []
    for record in records:
        for kernel in record["kernels"]:
            value = middle(kernel, EQUAL)
            if value is not None and value < LOSS and _long(record, kernel):
                times = kernel["microseconds"]
                found.append(
                    (
                        times[EQUAL] - times[STOCK],
                        record["name"],
                        kernel["name"],
                        value,
                        kernel["configs"][STOCK],
                    )
                )
    rows = [
        [f"`{kernel}`", case, f"{lost:.1f}", f"{value:.3f}", config]
        for lost, case, kernel, value, config in sorted(found, reverse=True)[:30]
    ]
    if not rows:
        return [
            "",
            f"No kernel of {100 * SHARE:.0f} % of a step or more is below {LOSS} in equal configurations.",
        ]
    title = f"Kernels of {100 * SHARE:.0f} % of a step or more that are below {LOSS} in equal configurations:"
    return ["", title, "", *pages.table("kernel | case | µs lost: | equal: | configuration", rows)]


def section(record: Record) -> list[str]:
    """What there is to say of one case."""
    lines = ["", f"## {record['name']}", ""]
    if not is_measured(record):
        lines += [f"- {side} failed: {reason(each)}" for side, each in record["errors"].items()]
        return lines
    prepared = record["prepared"]
    lines.append(
        f"{record['after']}, {pages.sizes(record['shape'])}; {prepared[STOCK]['graphs']} graphs, "
        f"{len(record['kernels'])} kernels; {record['rounds']} rounds of {record['steps']} steps. "
        + ", ".join(f"{side}: {_facts(prepared[side])}" for side in (STOCK, PLUGIN))
        + f". Results: {_apart(record['results'])}. {outcomes(record)}"
    )
    unmatched = [f"{name} ({side})" for side, names in record["unmatched"].items() for name in names]
    if unmatched:
        lines += ["", f"Kernels of one process alone: {', '.join(unmatched)}."]
    told = extremes(record)
    if told:
        lines += ["", "Slowest and fastest:", "", *kernel_table(record, told)]
    other = [each for each in reconfigured(record) if each not in told and _long(record, each)]
    if other:
        lines += ["", "Configured otherwise:", "", *kernel_table(record, other)]
    failed = [f"`{each['name']}`: {one_line(each['error'])}" for each in record["kernels"] if "error" in each]
    lines += pages.listed("Not in stock Triton's configuration:", failed)
    return lines


def _facts(prepared: Record) -> str:
    seconds = prepared["seconds"]
    return (
        f"compiled in {seconds['compile']} s, a step takes {prepared['milliseconds']} ms with launches, "
        f"{prepared['gigabytes']} GiB"
    )


def _apart(found: Record) -> str:
    parts = []
    for way, each in found.items():
        who = "stock again" if way == STOCK else f"{way} {each['verdict']}"
        parts.append(
            f"{who}, {each['different']} of {each['tensors']} tensors apart by up to {each['apart']:.2g}"
        )
    return "; ".join(parts)


def outcomes(record: Record) -> str:
    """What became of the plugin's compiles."""
    known = compiles(record).get("outcomes", {})
    return f"The plugin's compiles: {pages.counted(known)}." if known else ""


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    records = [each for each in report["cases"] if is_measured(each)]
    lines = [
        "# Models through torch.compile",
        "",
        f"{measured_on(report)}, transformers {report.get('transformers')}, plugin `{report.get('plugin')}`, "
        f"{report['seconds']:.0f} s.",
        "",
        "GPU time by kernel name, from the profiler, of steps in two processes that take turns: stock "
        "Triton, and the plugin. Ratios are stock Triton's time over the plugin's, the median over rounds "
        "with its 95 % interval; above 1 the plugin is faster. **free**: each process runs the "
        "configurations that its autotuner chose. **equal**: the plugin's kernels run in those that stock "
        "Triton's process chose. A step is all that the GPU does, in training forward, loss and backward; "
        "the rest are kernels that Triton does not compile, the same in both: Inductor pads no matrix product, "
        "for it may decide otherwise in each process. Results are compared tensor "
        "by tensor: identical bits; varies, as stock Triton's own do from step to step; within tolerance, "
        "the norm of the difference over that of the tensor.",
        "",
        *(totals(records) if records else []),
        "",
        *overview(report["cases"], report["not_run"]),
        *(all_losers(records) if records else []),
    ]
    for record in report["cases"]:
        lines += section(record)
    bad = wrong(report)
    lines += pages.listed("## Failures", map(one_line, bad))
    return page(*lines)
