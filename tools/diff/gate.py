"""Conditions of `--fail-on`, by which continuous integration can fail: `registers > 8`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triton_linear.tools.diff.compare import Comparison, Pair
from triton_linear.tools.support.errors import fail

NAMES = ("registers", "spills", "shared", "occupancy", "width", "conversions", "clocks", "code")
_CONDITION = re.compile(rf"(?P<name>{'|'.join(NAMES)})(?: ?> ?(?P<bound>\d+))?")


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition that B is worse in `name` by more than `bound`."""

    text: str
    name: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a name and an optional bound, 0 by default. Fails on anything else."""
        match = _CONDITION.fullmatch(" ".join(text.split()))
        if match is None:
            fail(
                f"fail-on: '{text}' is no condition, as 'registers > 8'; what is compared is {', '.join(NAMES)}"
            )
        return cls(text, match["name"], int(match["bound"] or 0))

    def violations(self, comparison: Comparison) -> list[str]:
        """A message for each kernel that is worse by more than the bound, or whose figure is not known."""
        messages = []
        for pair in comparison.pairs:
            worse, text = self._worse(pair)
            if worse is None:
                messages.append(f"{pair.a.name}: {text} not known of both sides")
            elif worse > self.bound:
                messages.append(f"{pair.a.name}: {text}")
        return messages

    def _worse(self, pair: Pair) -> tuple[float | None, str]:
        match self.name:
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
                figure = pair.figure(self.name)
                if figure.worse is None:
                    return None, f"{self.name} is"
                return figure.worse, f"{self.name} {figure.a} in A, {figure.b} in B"


def _clocks(pair: Pair) -> tuple[int | None, str]:
    grown = [(b - a, a, b) for a, b in pair.loops if a is not None and b is not None]
    if not grown:
        sides = (pair.a, pair.b)
        none = all(side.resources.loops == () and side.report.target.startswith("cuda") for side in sides)
        return (0, "no loop") if none else (None, "clocks of loops are")
    worse, a, b = max(grown)
    return worse, f"a loop of {a} clocks in A, {b} in B"
