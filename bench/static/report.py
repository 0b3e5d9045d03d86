"""What a run counted, as tables: means, the losers, the model's constants, and every case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.conversions.report import geometric_mean

from .model import ratio

EQUAL = 0.995
Result = Mapping[str, Any]
_SHORT = {
    "ds_bpermute": "bperm",
    "ds_swizzle": "swz",
    "v_permlane": "permlane",
    "v_perm_b32": "perm",
    "s_barrier": "barrier",
    "s_waitcnt": "wait",
    "s_nop": "nop",
}


def gain(case: Result) -> float | None:
    """Modelled clocks of stock over ours; None where either has none."""
    stock, ours = case["stock"].get("clocks"), case["ours"].get("clocks")
    return None if stock is None or ours is None else ratio(stock, ours)


def worst_first(cases: Sequence[Result]) -> list[Result]:
    """By gain; cases without one come first."""
    return sorted(cases, key=lambda case: gain(case) or 0.0)


def of_target(each: Result) -> str:
    """A target in words."""
    gains = [gain(case) for case in each["cases"]]
    known = [value for value in gains if value is not None]
    mean = geometric_mean(known)
    less = sum(value < EQUAL for value in known)
    more = sum(value > 1 / EQUAL for value in known)
    text = "no case has both" if mean is None else f"geometric mean {mean:.3f}"
    left = f", {len(gains) - len(known)} without figures" if len(known) < len(gains) else ""
    return f"{each['target']}: {text}, {len(gains)} cases, {more} better, {less} worse{left}"


def counts(side: Result) -> str:
    """The instructions of a round trip: `read_b64 4, dpp 8`."""
    if "error" in side:
        return side["error"]
    kinds = {kind: count for kind, count in side["instructions"].items() if kind != "salu"}
    parts = [f"{_SHORT.get(kind, kind.removeprefix('ds_'))} {count:g}" for kind, count in kinds.items()]
    return ", ".join(parts) or "nothing"


def markdown(report: Result) -> str:
    """The whole report."""
    lines = [
        "# Conversions for AMD GPUs, counted",
        "",
        "No AMD GPU was at hand: these figures are compiled, interpreted and counted, not timed. Each case is a "
        "round trip A to B to A in a loop (`bench/static/kernels.py`), compiled to AMDGCN and hsaco by stock Triton "
        "and with the plugin, layouts not assigned. Instructions are those of the loop's body in the final "
        "AMDGCN, what the empty loop takes taken off. LDS wavefronts are those of one wave when what was emitted "
        "runs in the interpreter, which also checks every register and looks for races. Clocks are modelled from "
        "both, by the constants below.",
        "",
        f"Triton {report['triton']}, triton-linear {report['triton_linear']}, {report['date']}.",
        "",
    ]
    for each in report["targets"]:
        lines.append(f"- {of_target(each)}")
    lines += ["", "## The model", "", "| constant | clocks of a CU | source |", "| --- | ---: | --- |"]
    for constant in report["targets"][0]["constants"]:
        lines.append(f"| {constant['name']} | {constant['clocks']:g} | {constant['source']} |")
    lines += [
        "",
        "LDS and vector pipes work beside one another: together they take the cubic norm of both "
        "(`Costs.clocks` in `lowering/targets.py`); barriers and spills are added. Ratios are of clocks, at "
        "least one.",
    ]
    for each in report["targets"]:
        lines += ["", f"## {each['target']}", "", *_target(each)]
    return "\n".join(lines) + "\n"


def _target(each: Result) -> list[str]:
    groups: dict[str, list[Result]] = {}
    for case in each["cases"]:
        groups.setdefault(case["group"], []).append(case)
    lines = ["| group | cases | stock / ours | worse |", "| --- | ---: | ---: | ---: |"]
    for group, members in {"all": each["cases"], **groups}.items():
        known = [value for value in map(gain, members) if value is not None]
        mean = geometric_mean(known)
        worse = sum(value < EQUAL for value in known)
        lines.append(f"| {group} | {len(members)} | {'' if mean is None else f'{mean:.2f}'} | {worse} |")
    lines += [
        "",
        "| case | tensor | stock / ours | clocks ours | stock | wavefronts ours | stock | ours | stock | "
        "VGPRs ours, stock | LDS bytes ours, stock | plans |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | --- |",
    ]
    lines += [f"| {' | '.join(_row(case))} |" for case in worst_first(each["cases"])]
    lines += _findings(each)
    return lines


def _row(case: Result) -> list[str]:
    value = gain(case)
    sides = [case["ours"], case["stock"]]
    shown = "" if value is None else f"{value:.2f}"
    if value is not None and value < EQUAL:
        shown = f"**{shown} worse**"
    kinds = [plan.partition(":")[0] for plan in case["ours"].get("plans", ())]
    return [
        case["name"],
        f"{'x'.join(map(str, case['shape']))}, {case['bits']} bits, {case['warps']} warps",
        shown,
        *(f"{side['clocks']:.1f}" if "clocks" in side else "" for side in sides),
        *(_wavefronts(side) for side in sides),
        *(counts(side) for side in sides),
        *(", ".join(str(side.get(fact, "")) for side in sides) for fact in ("vgprs", "lds")),
        ", ".join(dict.fromkeys(kinds)),
    ]


def _wavefronts(side: Result) -> str:
    if "wavefronts" not in side:
        return ""
    return f"{'at least ' * ('wavefronts_at_least' in side)}{side['wavefronts']:g}"


def _findings(each: Result) -> list[str]:
    lines = []
    for method, whose in (("ours", "ours"), ("stock", "stock Triton's")):
        found = [
            f"- {case['name']}: {what}"
            for case in each["cases"]
            for what in ([case[method]["error"]] if "error" in case[method] else case[method]["wrong"])
        ]
        if found:
            lines += ["", f"What the interpreter or the compiler found of {whose}:", "", *found]
    return lines
