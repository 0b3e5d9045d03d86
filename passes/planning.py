"""What passes that plan conversions have in common: the GPU to plan for, and the bound on its scratch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.targets import Target, target
from triton_linear.passes import diagnostics


@dataclass(frozen=True)
class Planning:
    """The options of a pass that plans conversions."""

    name: ClassVar[str]

    target: str | None = field(default=None, metadata={"help": "GPU to plan for; the module's own by default"})
    scratch_limit: int | None = field(
        default=None,
        metadata={"help": "bytes of shared memory that a plan may use where it can do with less"},
    )

    def gpu(self, module: Operation, pass_: Any) -> Target | None:
        """The GPU to plan for; None where it is not known, once that is reported and the pass has failed."""
        try:
            return _target_of(module, self.target)
        except ValueError as error:
            diagnostics.error(module, f"{self.name}: {error}")
            pass_.signal_pass_failure()
            return None


def _target_of(module: Operation, name: str | None) -> Target:
    """The target called `name`, else the one the module was compiled for; ValueError where there is none."""
    if name is None:
        if "ttg.target" not in module.attributes:
            raise ValueError("module has no 'ttg.target' and the pass no 'target' option")
        name = module.attributes["ttg.target"].value
    return target(name)
