"""Compile a program with our passes, run it in the interpreter, and compare every register.

Triton's own backend inserts the barriers and places the scratch, and all other users of shared memory are
Triton's code. The interpreter runs everything, so it also finds races between our code and Triton's.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bench.fuzz.encodings import layout_drawn
from bench.fuzz.evaluate import evaluate, inputs, mask_of
from bench.fuzz.pairs import NO_LOOSE_BYTES
from bench.fuzz.program import Program, all_steps
from bench.fuzz.totals import Totals
from bench.fuzz.write import SINK, write
from bench.whole_kernels import LoweredKernel, lower_kernel, registers_of
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.plans import STOCK, DecidedConversion, DecidedGather
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.compile import DEFAULTS
from triton_linear.tools.support.errors import Diagnostic, ToolError


def title(program: Program) -> str:
    """A description of a program."""
    steps = [type(step).__name__.lower() for step in all_steps(program.steps)]
    shape = "x".join(map(str, program.shape))
    clusters = f", {program.ctas} CTAs" if program.ctas > 1 else ""
    return f"{program.warps} warps{clusters}, {shape}x{program.element}: {', '.join(steps)}"


def examine_program(program: Program, name: str, options: PipelineOptions | None = DEFAULTS) -> Totals:
    """Compile and run a program, with stock Triton if `options` is None. Raises ToolError if either fails."""
    written = write(program)
    totals = Totals(modules=1, programs=1, conversions=written.conversions)
    target = f"{program.target}{NO_LOOSE_BYTES if program.ctas > 1 else ''}"
    kernel = lower_kernel(written.text, name, target, options)
    if options is not None:
        totals.kinds.update(conversion.kind for conversion in kernel.conversions)
        own = sum(not conversion.partials for conversion in kernel.conversions)
        totals.folded = max(0, written.conversions - own)
        totals.kinds["folded"] += totals.folded
        totals.kinds.update(gather.kind for gather in kernel.gathers)
        everything: list[DecidedConversion | DecidedGather] = [*kernel.conversions, *kernel.gathers]
        for decided in everything:
            if decided.kind == STOCK:
                totals.left += 1
                totals.fail("left", f"{title(program)}: left to Triton: {decided.detail}", program)
    totals.steps = Counter(type(step).__name__ for step in all_steps(program.steps))
    given = inputs(program)
    source = layout_drawn(program.source, program.shape, program.element)
    try:
        outcome = kernel.run(
            [list(_registers(given, source, kernel, program))], trials=len(given), ctas=program.ctas
        )
    except SimulationError as error:
        raise ToolError(Diagnostic("error", f"cannot be run: {error}", name)) from error
    values, undefined = outcome.sinks[SINK]
    result = layout_drawn(written.result, program.shape, program.element)
    expected = _registers(evaluate(program, given), result, kernel, program)
    bits = mask_of(element_type(program.element).bits)
    if values.shape != expected.shape:
        totals.wrong += 1
        totals.fail("registers", f"{title(program)}: {len(values)} registers, not {len(expected)}", program)
    elif (wrong := ((values ^ expected) & bits != 0) | (undefined & bits != 0)).any():
        totals.wrong += 1
        register, trial, thread = map(int, np.argwhere(wrong)[0])
        totals.fail(
            "wrong",
            f"{title(program)}: {int(wrong.any(axis=1).sum())} of {wrong.any(axis=1).size} registers wrong; "
            f"register {register} of thread {thread} holds {values[register, trial, thread]:#x}, "
            f"not {expected[register, trial, thread]:#x}",
            program,
        )
    if outcome.races:
        totals.races += 1
        totals.fail("race", f"{title(program)}: {'; '.join(map(str, outcome.races[:2]))}", program)
    return totals


def _registers(tensors: Bits, layout: LinearLayout, kernel: LoweredKernel, program: Program) -> Bits:
    """The contents of every register of every thread of every CTA."""
    return np.concatenate([registers_of(tensors, layout, kernel, cta) for cta in range(program.ctas)], axis=2)
