"""What is found by running the code of a conversion."""

from __future__ import annotations

from dataclasses import dataclass

from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.passes.framework.plans import DecidedConversion
from triton_linear.tools.support.words import Figures, findings


@dataclass(frozen=True)
class Checked:
    """A conversion whose code was run.

    head: its place and types. plan: how it is lowered. verdict: None if no code was run, for the reason in
    `plan`. proved: whether its plan is.
    """

    of: DecidedConversion
    head: str
    plan: str
    verdict: Verdict | None
    proved: bool = False

    @property
    def ok(self) -> bool:
        """True if the code is right and the plan is proved, or there is no code to run."""
        return self.verdict is None or (self.verdict.ok and self.proved)

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.head}: {self.plan}"
        proof = "proved" if self.proved else "not proved"
        return f"{self.head}: {self.plan}; {Figures.of(self.verdict)}; {findings(self.verdict)}, plan {proof}"
