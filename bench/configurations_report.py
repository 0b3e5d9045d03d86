"""What `bench.configurations` found, in words: means, losers and winners, and a table a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .harness import report as pages
from .harness.report import between, measured_on, named, not_run, number, one_line, page
from .harness.statistics import GAIN, LOSS, geometric_mean, interval
from .harness.turns import summary
from .kernels import modes

COMPARED = (modes.OURS,)
SPILLS = 16  # Inductor's `spill_threshold`.


def ratio(entry: Mapping[str, Any], mode: str) -> Sequence[float] | None:
    """(low, median, high) of stock's time over that of `mode`, in one configuration."""
    values: Sequence[float] | None = entry[mode]["summary"].get(mode, {}).get("ratio")
    return values


def error(entry: Mapping[str, Any], mode: str) -> str | None:
    """Why a configuration has no time in `mode`, or what is wrong there."""
    known = entry[mode]
    for at, why in known.get("errors", {}).items():
        return f"{at}: {why}"
    if "error" in known:
        return f"{mode}, or stock beside it: {known['error']}"
    if known.get("result") == "WRONG":
        return f"{mode}: wrong results, {known.get('why') or 'apart by {:.2g}'.format(known['apart'])}"
    return f"{mode}: fell back: {known['fell_back'][0]}" if known.get("fell_back") else None


def at_fault(entry: Mapping[str, Any]) -> bool:
    """Whether the plugin failed where stock Triton did not."""
    why = error(entry, modes.OURS)
    return why is not None and not why.startswith(f"{modes.STOCK}:")


def best(entries: Sequence[Mapping[str, Any]], mode: str) -> dict[str, Any] | None:
    """The fastest configuration with stock Triton and in `mode`: what who chooses by time has of each.

    Gives their names, microseconds, and the first time over the second turn by turn, as an interval; None
    where there is none that is right.
    """
    sides = {}
    for side in (modes.STOCK, mode):
        known = [
            (entry["config"], entry[mode]["times"][side])
            for entry in entries
            if side in entry[mode].get("times", {})
            and (side == modes.STOCK or error(entry, mode) is None)
            and (entry[mode]["facts"][side]["spilled"] or 0) <= SPILLS
        ]
        if not known:
            return None
        sides[side] = min(known, key=lambda found: interval(found[1])[1])
    turns = {side: times for side, (_, times) in sides.items()}
    found = summary(turns, 1)
    return {
        "configs": {side: config for side, (config, _) in sides.items()},
        "microseconds": {side: known["microseconds"] for side, known in found.items()},
        "ratio": found[mode]["ratio"],
    }


def best_line(entries: Sequence[Mapping[str, Any]]) -> str:
    """The best with stock Triton over the best in each mode."""
    parts = []
    for mode in COMPARED:
        found = best(entries, mode)
        if found is None:
            parts.append(f"best of {mode}: none")
            continue
        stock, other = (
            f"{found['microseconds'][side]:.2f} µs ({found['configs'][side]})" for side in (modes.STOCK, mode)
        )
        parts.append(f"best stock / best {mode} = {between(found['ratio'])}: {stock} / {other}")
    return "; ".join(parts)


def _tried(kernel: Mapping[str, Any]) -> list[Any]:
    return [entry for entry in kernel["configs"] if not entry["added"]]


def table(kernel: Mapping[str, Any]) -> list[str]:
    """A row a configuration, the fastest with stock Triton first, what failed last."""
    rows = []

    def took(entry: Mapping[str, Any]) -> float | None:
        known = [entry[mode]["summary"].get(modes.STOCK, {}).get("microseconds") for mode in COMPARED]
        return next((value for value in known if value is not None), None)

    for entry in sorted(kernel["configs"], key=lambda entry: took(entry) or float("inf")):
        marks = [word for word in ("chosen", "added") if entry[word]]
        time_ = took(entry)
        result = entry[modes.OURS].get("result", "")
        if result == "within tolerance":
            result += f", {entry[modes.OURS]['apart']:.1g}"
        cells = [
            entry["config"] + "".join(f", **{mark}**" for mark in marks),
            number(time_, 2, "failed"),
            *(between(ratio(entry, mode), otherwise="failed") for mode in COMPARED),
            result,
        ]
        rows.append(cells)
    return pages.table("configuration | stock µs: | stock / ours: | result of ours", rows)


def totals(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Means, and who wins and loses, of single configurations and of the best of each kernel."""
    single, bests = [], []
    for record in records:
        for place, kernel in enumerate(record["kernels"]):
            name = f"{record['name']}/{place}"
            known = [(f"{name} {e['config']}", ratio(e, modes.OURS)) for e in kernel["configs"]]
            single += [(where, values[1]) for where, values in known if values]
            found = best(_tried(kernel), modes.OURS)
            bests += [(name, found["ratio"][1])] if found else []
    return [
        f"- {what}: {len(known)}, geometric mean {geometric_mean(v for _, v in known) or 0:.3f}; "
        f"below {LOSS}: {named(pages.losers(known))}; above {GAIN}: {named(reversed(pages.winners(known)))}"
        for what, known in (
            ("stock / ours in the same configuration", single),
            ("best of stock / best of ours, among those that Inductor tried, a kernel", bests),
        )
    ]


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    lines = [
        "# Configurations of Inductor's kernels",
        "",
        f"{measured_on(report)}. {report['turns']} turns, {report['seconds']:.0f} s.",
        "",
        "Microseconds are of one call of the whole function, one of its kernels in the configuration of the "
        "row and the others as chosen, out of CUDA graphs of all rows that take turns; ratios are medians over "
        "the turns with their 95 % interval. **chosen**: by Inductor with stock Triton; **added**: not tried "
        "by it. The best over the best is what one who chooses by time has with each; its interval leaves out "
        f"that the same turns chose them, and kernels that spill more than {SPILLS} registers are passed over, "
        "as Inductor does.",
        "",
        *totals(report["cases"]),
    ]
    for record in report["cases"]:
        lines += ["", f"## {record['name']}"]
        if "error" in record:
            lines += ["", f"Failed: {one_line(record['error'])}"]
        for place, kernel in enumerate(record["kernels"]):
            tried = _tried(kernel)
            lines += ["", f"Kernel {place}, `{kernel['name']}`: {best_line(tried)}.", ""]
            if len(tried) < len(kernel["configs"]):
                lines += [f"With those added: {best_line(kernel['configs'])}.", ""]
            lines += table(kernel)
            wrong = [(e["config"], error(e, mode)) for e in kernel["configs"] for mode in COMPARED]
            told = dict.fromkeys(f"- {config}: {one_line(why)}" for config, why in wrong if why)
            lines += ["", *told] if told else []
    lines += not_run(report)
    if report["unfit"]:
        lines += ["", f"To no kernel here could be added: {', '.join(report['unfit'])}."]
    return page(*lines)
