"""What a pass is, and what a run hands to each of its passes."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Protocol

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.records import dataclass
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.verifiers import Verifier


class Pass(Protocol):
    """A frozen dataclass whose fields are the options, called with the module and its place in a run."""

    name: ClassVar[str]
    summary: ClassVar[str]
    requires: ClassVar[tuple[Verifier, ...]]
    ensures: ClassVar[tuple[Verifier, ...]]

    def __call__(self, op: Operation, pass_: PassRun) -> None: ...


@dataclass
class PassRun:
    """One pass at work: MLIR's pass object behind it, whether it has failed, and the plans of the whole run."""

    external: Any
    plans: Plans = field(default_factory=Plans)
    failed: bool = False

    def signal_pass_failure(self) -> None:
        """Let the run end with this pass. What is wrong has been reported as an error."""
        self.failed = True
        self.external.signal_pass_failure()
