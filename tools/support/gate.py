"""Conditions of `--fail-on`, by which continuous integration can fail: `registers > 8`."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass

from triton_linear.tools.support.errors import Diagnostic, fail

_COMPARE = {">=": operator.ge, "==": operator.eq, ">": operator.gt}
_CONDITION = re.compile(r"(?P<name>.*?)(?: ?(?P<compare>>=|==|>) ?(?P<bound>\d+))?")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of what is counted under a name with a bound."""

    text: str
    name: str
    compare: str
    bound: int

    @classmethod
    def parse(cls, text: str, names: Collection[str], known: str) -> Condition:
        """Parse a name and a comparison, `> 0` if there is none. Fails, with the names that are `known`, on
        anything else."""
        match = _CONDITION.fullmatch(" ".join(text.split()))
        if match is None or match["name"] not in names:
            fail(f"fail-on: '{text}' is no condition, as {known}")
        return cls(text, match["name"], match["compare"] or ">", int(match["bound"] or 0))

    def holds(self, value: float) -> bool:
        """Whether it holds of a value."""
        return bool(_COMPARE[self.compare](value, self.bound))

    def say(self, what: str) -> None:
        """Print that it holds."""
        print(Diagnostic("error", f"fail-on: {self.text}: {what}"), file=sys.stderr)
