"""Conditions on a comparison, for a continuous integration to fail on: `registers > 8`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triton_linear.tools.diff.compare import Comparison, Pair
from triton_linear.tools.support.errors import fail

NAMES = ("registers", "spills", "shared", "occupancy", "width", "conversions", "clocks", "code")
_CONDITION = re.compile(rf"(?P<name>{'|'.join(NAMES)})(?: ?> ?(?P<bound>\d+))?")


@dataclass(frozen=True, slots=True)
class Condition:
    """B is worse in `name` by more than `bound`."""

    text: str
    name: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> Condition:
        """A name, and by how much B may be worse: 0 where nothing is said. Fails on anything else."""
        found = _CONDITION.fullmatch(" ".join(text.split()))
        if found is None:
            fail(
                f"fail-on: '{text}' is no condition, as 'registers > 8'; what is compared is {', '.join(NAMES)}"
            )
        return cls(text, found["name"], int(found["bound"] or 0))

    def broken(self, comparison: Comparison) -> list[str]:
        """What is worse than that, in words; a figure that is not known is, too."""
        found = []
        for pair in comparison.pairs:
            worse, said = self._worse(pair)
            if worse is None:
                found.append(f"{pair.name}: {said} not known of both sides")
            elif worse > self.bound:
                found.append(f"{pair.name}: {said}")
        return found

    def _worse(self, pair: Pair) -> tuple[int | None, str]:
        match self.name:
            case "width":
                return len(pair.narrower), f"narrower in B: {', '.join(pair.narrower)}"
            case "code":
                return int(pair.began is not None), f"code differs from {pair.began} on"
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
    grown = [(b.clocks - a.clocks, a, b) for a, b in pair.loops if a is not None and b is not None]
    if not grown:
        none = all(side.resources.loops == () for side in pair.facts)
        known = all(made.binary is not None and "ptx" in made.texts for made in pair.made)
        return (0, "no loop") if none and known else (None, "clocks of loops are")
    worse, a, b = max(grown, key=lambda one: one[0])
    return worse, f"a loop of {a.clocks} clocks in A, {b.clocks} in B"
