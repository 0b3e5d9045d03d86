"""Run a script whose launches compile for a GPU that need not be installed, and launch nothing.

    python -m triton_linear.tools.support.script TARGET SCRIPT [ARGUMENT ...]

Of autotuned kernels, every configuration is compiled. If the script has a function `compile_specs(target)`, as
the examples do, the kernels that it returns are compiled too.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from triton_linear.examples.spec import gpu_target


class FakeDriver:
    """The part of a Triton driver that `warmup` uses."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        """The GPU for which kernels are compiled."""
        return self.target

    def get_current_device(self) -> int:
        """The number of the GPU."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The stream of a launch."""
        return 0


def main(name: str, script: str, arguments: list[str]) -> None:
    """Run the script, then compile the kernels that its `compile_specs` returns."""
    gpu = gpu_target(name)
    driver._active = FakeDriver(gpu)
    run = JITFunction.run

    def compiled(function: Any, *arguments: Any, **options: Any) -> Any:
        return run(function, *arguments, **{**options, "warmup": True})

    def every(tuner: Any, *arguments: Any, **options: Any) -> Any:
        options.pop("warmup", None)
        return tuner.warmup(*arguments, **options)

    JITFunction.run = compiled
    Autotuner.run = every
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    specs = runpy.run_path(script, run_name="__main__").get("compile_specs")
    for spec in specs(gpu) if callable(specs) else ():
        triton.compile(spec.source(), target=gpu, options=dict(spec.options))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
