"""Lower whole kernels by Triton, and run them on a simulated CTA.

    kernel = lower_kernel(text, "chain.ttgir", "cuda:90")
    outcome = kernel.run([registers_of(x, layout, kernel), 3])
    values, undefined = outcome.sinks["result"]

Such a kernel takes tensors and numbers as arguments, `tt.func public @kernel(%x: tensor<...>, %n: i32)`, and
passes its results to `sink` lines, so that it needs no global memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import InsertionPoint, Module, Operation, operations
from triton_linear.lowering.interpreter.function import STEP_LIMIT, Argument, FunctionOutcome, simulate_function
from triton_linear.lowering.interpreter.memory import Bits
from triton_linear.lowering.interpreter.verify import held_elements
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.attempts import concerning
from triton_linear.passes.framework.plans import DecidedConversion
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import (
    DEFAULTS,
    LOWERING,
    check_one_kernel,
    kernels,
    prepared_module,
    read_module,
    set_target,
    to_triton,
)
from triton_linear.tools.verify.stock import sink

__all__ = ["LOWERING", "LoweredKernel", "lower_kernel", "registers_of", "sink"]


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel in the LLVM dialect, after Triton's backend.

    `embedded` is the TTGIR given to the backend; `conversions` are the decisions of this package's passes.
    """

    text: str
    name: str
    target: Target
    num_warps: int
    embedded: str
    conversions: tuple[DecidedConversion, ...] = ()

    def run(
        self, arguments: Sequence[Argument], *, trials: int = 1, step_limit: int = STEP_LIMIT
    ) -> FunctionOutcome:
        """Run the kernel on these arguments; see `simulate_function`."""
        return simulate_function(
            self.text,
            self.name,
            arguments,
            self.target,
            self.num_warps,
            trials=trials,
            step_limit=step_limit,
        )


def lower_kernel(
    text: str, filename: str, target_name: str | None, options: PipelineOptions | None = DEFAULTS
) -> LoweredKernel:
    """Lower a TTGIR module of one kernel to the LLVM dialect, with the pipeline, or by stock Triton if
    `options` is None.

    Raises ToolError with the diagnostics if a pass or Triton fails.
    """
    module = read_module(text, bridge.upstream_context(), filename)
    target = set_target(module, target_name)
    check_one_kernel(module, "llvm")
    warps = module.operation.attributes["ttg.num-warps"].value
    stock = _text_with_ranks(module, target) if options is None else bridge.triton_text(module)
    prepared = prepared_module(module, target, options and concerning(options, module))
    if options is not None:
        _text_with_ranks(module, target)
    for attempt in prepared.attempts() if options is not None else ():
        lowered = lower(to_triton(attempt.text), target.name, "llvm")
        if (lowered.metadata.get("shared") or 0) <= attempt.room:
            decided = prepared.conversions(attempt)
            return LoweredKernel(lowered.text("llvm"), kernels(module)[0], target, warps, attempt.text, decided)
    lowered = lower(to_triton(stock), target.name, "llvm")
    return LoweredKernel(lowered.text("llvm"), kernels(module)[0], target, warps, stock)


def _text_with_ranks(module: Module, target: Target) -> str:
    """The text of a module, changed so that AMD's axis analysis knows the ranks of its arguments."""
    if target.vendor == "amd":
        _convert_arguments(module)
    return bridge.triton_text(module)


def _convert_arguments(module: Module) -> None:
    """Insert a no-op conversion after each argument that is a tensor.

    AMD's axis analysis takes the rank of an argument from its struct, and fails in a loop that joins it with a
    tensor of the right rank. For the result of a conversion it uses the tensor's type.
    """
    for function in operations(module.operation):
        if function.name != "tt.func" or not len(function.regions[0].blocks):
            continue
        block = function.regions[0].blocks[0]
        first = block.operations[0]
        for argument in block.arguments:
            if not str(argument.type).startswith("tensor<"):
                continue
            conversion = Operation.create(
                "ttg.convert_layout",
                results=[argument.type],
                operands=[argument],
                loc=function.location,
                ip=InsertionPoint(first),
            )
            argument.replace_all_uses_except(conversion.results[0], conversion)


def registers_of(tensors: Bits, layout: LinearLayout, kernel: LoweredKernel, block: int = 0) -> Bits:
    """The contents of all registers of all threads for tensors of bit patterns, of shape (trials, *tensor).

    Ensures: the result has the shape of arguments and sinks, (registers, trials, threads).
    """
    elements = held_elements(layout, kernel.target.lanes, kernel.num_warps, block)
    flat = tensors.transpose(0, *reversed(range(1, tensors.ndim))).reshape(len(tensors), -1)
    return np.ascontiguousarray(flat[:, elements].swapaxes(0, 1))
