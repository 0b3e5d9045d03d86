"""What a run counted, as tables: means, the same with other constants, and every case, losers first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton_linear.lowering.target.targets import target as target_called

from ..harness import report as pages
from ..harness.report import listed, number, page, sizes
from ..harness.statistics import geometric_mean
from .job import OURS, STOCK
from .model import Model, ratio, variations

EQUAL = 0.995
"""Ratios closer to 1 are equal."""
Result = Mapping[str, Any]
_SHORT = {
    "ds_bpermute": "bpermute",
    "ds_swizzle": "swizzle",
    "v_permlane": "permlane swap",
    "v_perm_b32": "perm",
    "valu": "other vector",
    "s_barrier": "barrier",
    "s_waitcnt": "wait",
    "s_nop": "nop",
}


@dataclass(frozen=True)
class Counted:
    """The cases of a target, and their modelled clocks stock over ours (None: one has none)."""

    target: str
    cases: Sequence[Result]
    gains: Sequence[float | None]

    @property
    def known(self) -> list[float]:
        """The gains that there are."""
        return [gain for gain in self.gains if gain is not None]

    @property
    def worse(self) -> int:
        """Cases in which stock takes less."""
        return sum(gain < EQUAL for gain in self.known)

    @property
    def mean(self) -> str:
        """The geometric mean; empty where no case has a gain."""
        return number(geometric_mean(self.known))

    def worst_first(self) -> list[tuple[float | None, Result]]:
        """By gain; cases that have none come first."""
        return sorted(zip(self.gains, self.cases, strict=True), key=lambda pair: pair[0] or 0.0)

    def of_group(self, group: str) -> Counted:
        """The cases of one group."""
        pairs = [pair for pair in zip(self.cases, self.gains, strict=True) if pair[0]["group"] == group]
        return Counted(self.target, [case for case, _ in pairs], [gain for _, gain in pairs])


def counted(each: Result, model: Model | None = None, wavefronts: str = "wavefronts") -> Counted:
    """A target of a result, by the model of its run or by another, that may take other wavefronts."""
    model = model or Model(target_called(each["target"]).costs)
    return Counted(each["target"], each["cases"], [_gain(case, model, wavefronts) for case in each["cases"]])


def _gain(case: Result, model: Model, wavefronts: str) -> float | None:
    clocks = []
    for side in (case[STOCK], case[OURS]):
        if "clocks" not in side:
            return None
        clocks.append(model.clocks(side["instructions"], side[wavefronts], side["nop_states"]))
    return ratio(*clocks)


def of_target(found: Counted) -> str:
    """A target in words."""
    better = sum(gain > 1 / EQUAL for gain in found.known)
    missing = len(found.gains) - len(found.known)
    left = f", {missing} without figures" if missing else ""
    mean = f"geometric mean of stock / ours {found.mean}" if found.known else "no figures"
    return f"{found.target}: {mean}, {len(found.cases)} cases, {better} better, {found.worse} worse{left}"


def problems(each: Result, method: str) -> list[str]:
    """What the compiler or the interpreter found, a line for each."""
    return [
        f"{case['name']}: {problem}"
        for case in each["cases"]
        for problem in ([case[method]["error"]] if "error" in case[method] else case[method]["problems"])
    ]


def counts(side: Result) -> str:
    """The instructions of a round trip: `read_b64 4, dpp 8`."""
    if "error" in side:
        return str(side["error"])
    kinds = {kind: count for kind, count in side["instructions"].items() if kind != "salu"}
    parts = [f"{_SHORT.get(kind, kind.removeprefix('ds_'))} {count:g}" for kind, count in kinds.items()]
    return ", ".join(parts) or "nothing"


def markdown(report: Result) -> str:
    """The whole report."""
    targets = [counted(each) for each in report["targets"]]
    lines = [
        "# Conversions for AMD GPUs, counted",
        "",
        "There was no AMD GPU: these figures are compiled, interpreted and counted, not timed. Each case is "
        "a round trip A to B to A in a loop (`bench/static/kernels.py`), compiled to AMDGCN and hsaco by stock "
        "Triton and with the plugin, which assigns no layouts here, so that both convert the same. "
        "Instructions are those of the loop's body in the final AMDGCN, less those of the empty loop. LDS "
        "wavefronts are those of one wave when the emitted code runs in the interpreter, which also checks "
        "every register and looks for races. Clocks are modelled from both.",
        "",
        f"Triton {report['triton']}, triton-linear {report['triton_linear']}, {report['date']}.",
        "",
        *(f"- {of_target(found)}" for found in targets),
        "",
        "## The model",
        "",
        *_constants(report["targets"]),
        "",
        "LDS and vector pipes work at a time, together they take the cubic norm of both (`Costs.clocks` in "
        "`lowering/target/targets.py`); barriers are added. A ratio is one of clocks, at least one each. With "
        "other constants for what is known least, the geometric means and the cases worse than stock are:",
        "",
        *_variations(report["targets"]),
    ]
    for each, found in zip(report["targets"], targets, strict=True):
        lines += ["", f"## {found.target}", "", *_target(each, found)]
    return page(*lines)


def _variations(targets: Sequence[Result]) -> list[str]:
    """Means and losers of each target, with other constants."""
    rows = {
        name: [counted(each, variations(target_called(each["target"]))[name]) for each in targets]
        for name in variations(target_called(targets[0]["target"]))
    }
    rows["no bank conflicts"] = [counted(each, wavefronts="without_conflicts") for each in targets]
    heads = "".join(f" | {each['target']}:" for each in targets)
    return pages.table(
        f"constants{heads}",
        ((name, *(f"{each.mean}, {each.worse} worse" for each in found)) for name, found in rows.items()),
    )


def _constants(targets: Sequence[Result]) -> list[str]:
    """The constants of the model, in clocks of a CU, by target."""
    heads = "".join(f"{each['target']}: | " for each in targets)
    return pages.table(
        f"clocks of a CU | {heads}source",
        (
            (same[0]["name"], *(f"{constant['clocks']:g}" for constant in same), same[0]["source"])
            for same in zip(*(each["constants"] for each in targets), strict=True)
        ),
    )


def _target(each: Result, found: Counted) -> list[str]:
    groups = {case["group"]: found.of_group(case["group"]) for case in found.cases}
    means = [
        (name, len(members.cases), members.mean, members.worse)
        for name, members in {"all": found, **groups}.items()
    ]
    return [
        *pages.table("group | cases: | stock / ours: | worse:", means),
        "",
        "Ours and stock's, in this order; setup is vector instructions before the loop. The worst first.",
        "",
        *pages.table(
            "case | tensor | stock / ours: | clocks: | wavefronts: | instructions of ours | of stock | setup: "
            "| VGPRs: | LDS bytes: | plans",
            (_row(gain, case) for gain, case in found.worst_first()),
        ),
        *listed("What went wrong with our code:", problems(each, OURS)),
        *listed("What went wrong with that of stock Triton:", problems(each, STOCK)),
    ]


def _row(gain: float | None, case: Result) -> list[str]:
    sides = (case[OURS], case[STOCK])
    worse = gain is not None and gain < EQUAL
    kinds = (plan.partition(":")[0] for plan in case[OURS].get("plans", ()))
    return [
        case["name"],
        f"{sizes(case['shape'])}, {case['bits']} bits, {case['warps']} warps",
        f"**{number(gain)} worse**" if worse else number(gain),
        ", ".join(number(side.get("clocks"), 1) for side in sides),
        ", ".join(f"{side['wavefronts']:g}" if "wavefronts" in side else "" for side in sides),
        *(counts(side) for side in sides),
        *(", ".join(str(side.get(fact, "")) for side in sides) for fact in ("setup", "vgprs", "lds")),
        ", ".join(dict.fromkeys(kinds)),
    ]
