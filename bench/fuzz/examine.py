"""Compile a program with our passes, run it in the interpreter, and compare every register.

Triton's own backend inserts the barriers and places the scratch, and all other users of shared memory are
Triton's code. The interpreter runs everything, so it also finds races between our code and Triton's.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bench.fuzz.encodings import layout_drawn
from bench.fuzz.evaluate import evaluate, inputs, mask_of
from bench.fuzz.program import Program, all_steps
from bench.fuzz.totals import Totals
from bench.fuzz.write import SINK, write
from bench.whole_kernels import lower_kernel, registers_of
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.plans import STOCK
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.compile import DEFAULTS
from triton_linear.tools.support.errors import Diagnostic, ToolError


def title(program: Program) -> str:
    """A description of a program."""
    steps = [type(step).__name__.lower() for step in all_steps(program.steps)]
    shape = "x".join(map(str, program.shape))
    return f"{program.warps} warps, {shape}x{program.element}: {', '.join(steps)}"


def examine_program(program: Program, name: str, options: PipelineOptions | None = DEFAULTS) -> Totals:
    """Compile and run a program, with stock Triton if `options` is None. Raises ToolError if either fails."""
    written = write(program)
    totals = Totals(modules=1, programs=1, conversions=written.conversions)
    kernel = lower_kernel(written.text, name, program.target, options)
    if options is not None:
        totals.kinds.update(conversion.kind for conversion in kernel.conversions)
        own = sum(not conversion.partials for conversion in kernel.conversions)
        totals.folded = max(0, written.conversions - own)
        totals.kinds["folded"] += totals.folded
        for decided in kernel.conversions:
            if decided.kind == STOCK:
                totals.left += 1
                totals.fail("left", f"{title(program)}: left to Triton: {decided.detail}", program)
    totals.steps = Counter(type(step).__name__ for step in all_steps(program.steps))
    given = inputs(program)
    source = layout_drawn(program.source, program.shape, program.element)
    try:
        outcome = kernel.run([list(registers_of(given, source, kernel, 0))], trials=len(given))
    except SimulationError as error:
        raise ToolError(Diagnostic("error", f"cannot be run: {error}", name)) from error
    values, undefined = outcome.sinks[SINK]
    result = layout_drawn(written.result, program.shape, program.element)
    expected = registers_of(evaluate(program, given), result, kernel, 0)
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
