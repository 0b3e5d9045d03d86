"""What conditions of `diff --fail-on` compare: `registers > 8`."""

from __future__ import annotations

from triton_linear.tools.diff.compare import Pair

NAMES = ("registers", "spills", "shared", "occupancy", "width", "conversions", "clocks", "code")
KNOWN = f"'registers > 8'; what is compared is {', '.join(NAMES)}"


def worse(name: str, pair: Pair) -> tuple[float | None, str]:
    """By how much B is worse, None if it is not known, and what is."""
    match name:
        case "width":
            return len(pair.narrower), f"narrower in B: {', '.join(pair.narrower)}"
        case "code":
            return int(not pair.same_code), "the code differs"
        case "clocks":
            return _clocks(pair)
        case "spills":
            known = [one for one in pair.figures if one.name in ("spilled", "stack")]
            worst = max(known, key=lambda one: one.worse or 0)
            if any(one.worse is None for one in known):
                return None, "spills are"
            return worst.worse, f"{worst.name} {worst.a} in A, {worst.b} in B"
        case _:
            figure = pair.figure(name)
            if figure.worse is None:
                return None, f"{name} is"
            return figure.worse, f"{name} {figure.a} in A, {figure.b} in B"


def _clocks(pair: Pair) -> tuple[float | None, str]:
    known = [one for one in pair.loops if one.worse is not None]
    if not known:
        sides = (pair.a, pair.b)
        none = all(side.resources.loops == () and side.report.target.startswith("cuda") for side in sides)
        return (0, "no loop") if none else (None, "clocks of loops are")
    worst = max(known, key=lambda one: (one.worse or 0, one.a, one.b))
    return worst.worse, f"a loop of {worst.a} clocks in A, {worst.b} in B"
