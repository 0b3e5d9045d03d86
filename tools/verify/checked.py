"""What is found by running the code of a conversion or of an access to tensor memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.tools.support.words import Figures, findings

What = TypeVar("What")


@dataclass(frozen=True)
class Checked(Generic[What]):
    """Something whose code was run.

    head: its place and types. plan: how it is lowered. verdict: None if no code was run, for the reason in
    `plan`. proved: whether its plan is, None if it has no plan of this package.
    """

    of: What
    head: str
    plan: str
    verdict: Verdict | None
    proved: bool | None = None

    @property
    def ok(self) -> bool:
        """True if the code is right and the plan is proved, or there is no code to run."""
        return self.verdict is None or (self.verdict.ok and self.proved is not False)

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.head}: {self.plan}"
        if self.proved is None:
            return f"{self.head}: {self.plan}; {findings(self.verdict)}"
        proof = "proved" if self.proved else "not proved"
        return f"{self.head}: {self.plan}; {Figures.of(self.verdict)}; {findings(self.verdict)}, plan {proof}"
