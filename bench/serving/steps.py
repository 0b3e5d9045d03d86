"""Times steps of models that servers make, with stock Triton and with the plugin, and compares their results.

    python -m bench.serving.steps [--output DIR] [--only REGEX] [--budget SECONDS] [--jobs N] [--beside MODES]
    python -m bench.serving.steps --compile-only

A step is a layer (`steps_cases.py` says of which models), with random weights of their real shapes, as a CUDA
graph. The options are those of `python -m bench.serving`; results go to serving-steps.json and .md. Each step
has a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..foreign import run
from ..foreign.suite import Suite
from . import steps_measure, steps_report
from .inputs import Inputs
from .packages import PACKAGES
from .standins import enter
from .steps_cases import steps

STEPS = Suite("serving.steps", "Steps of models", PACKAGES, enter, steps, Inputs)


class Run(run.Run):
    """A run of steps."""

    patience = 240.0
    measure = staticmethod(steps_measure.run)
    page = staticmethod(steps_report.markdown)

    def measured(self, child: Any, case: str) -> dict[str, Any]:
        """What the GPU says of a step, in a process that ends with it."""
        try:
            return super().measured(child, case)
        finally:
            child.close()

    def save(self) -> None:
        """Write what there is; each record says what its step is of."""
        known = {step.name: step for step in steps()}
        for record in self.report["cases"]:
            step = known[record["case"]]
            record["step"] = {"tokens": step.tokens, "layers": step.layers, "of_layers": step.of_layers}
        super().save()


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    return run.main(STEPS, argv, Run)


if __name__ == "__main__":
    sys.exit(main())
