"""Modules of whole programs in warp-specialised regions, which all passes have worked on.

Each region has a program of its own (`draw`), between inline assembly that hands over the registers of a tensor
and takes those of the result. So layouts are assigned in each region, and what the other passes do there is
done. The module goes the whole road to the LLVM dialect, and all warps are run, as for `partitions`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.fuzz.draw import draw_program
from bench.fuzz.encodings import layout_drawn
from bench.fuzz.evaluate import evaluate, inputs, mask_of
from bench.fuzz.examine import title
from bench.fuzz.partitions import (
    DEFAULT_WARPS,
    MOST_PARTITIONS,
    PARTITION_WARPS,
    given_lines,
    module_of_regions,
    sink_lines,
)
from bench.fuzz.program import Program, all_steps
from bench.fuzz.totals import Totals
from bench.fuzz.warps import simulate_warps
from bench.fuzz.write import ProgramValue, ProgramWriter
from bench.whole_kernels import lower_kernel
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.verify import held_elements
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.compile import DEFAULTS
from triton_linear.tools.support.errors import Diagnostic, ToolError


def draw_regions(rng: random.Random, target_name: str) -> list[Program]:
    """A program for each region of a module, that of the default region first."""
    count = 1 + rng.randint(1, MOST_PARTITIONS)
    widths = [PARTITION_WARPS if region else DEFAULT_WARPS for region in range(count)]
    drawn = (draw_program(rng, target_name, each) for each in widths)
    return [replace(program, region=region) for region, program in enumerate(drawn)]


def regions_text(programs: Sequence[Program]) -> str:
    """The module of these programs; the default region, or the only partition, may be empty."""
    return module_of_regions(programs, [_written(number, each)[0] for number, each in enumerate(programs)])


def _written(number: int, program: Program) -> tuple[list[str], str, int]:
    """The lines of a program, the encoding of its result, and how many conversions are in it."""
    writer = ProgramWriter(f"v{number}_")
    given = ProgramValue(f"%x{number}", program.shape, program.element, program.source)
    result = writer.steps(program.steps, given, None)
    lines = [*writer.top, *given_lines(number, program), *writer.lines]
    return (
        [*lines, *sink_lines(number, program, result.name, result.encoding)],
        result.encoding,
        writer.conversions,
    )


def conversions_of(programs: Sequence[Program]) -> int:
    """How many conversions are in a module."""
    return sum(_written(number, each)[2] for number, each in enumerate(programs))


def examine_regions(
    programs: Sequence[Program], lanes: int, name: str, options: PipelineOptions | None = DEFAULTS
) -> Totals:
    """Compile and run a module; ToolError goes through. Without `options` it is compiled as by stock Triton."""
    totals = Totals(modules=1, programs=len(programs), conversions=conversions_of(programs))
    kernel = lower_kernel(regions_text(programs), name, programs[0].target, options)
    for conversion in kernel.conversions if options is not None else ():
        totals.kinds[conversion.kind] += 1
        if conversion.kind == "stock":
            totals.left += 1
            totals.fail("left", f"{name}: left to Triton: {conversion.detail}", programs[0])
    totals.steps.update(type(step).__name__ for program in programs for step in all_steps(program.steps))
    given: dict[str, list[Bits]] = {}
    wanted: list[Bits] = []
    trials = max(len(inputs(program)) for program in programs)
    for number, program in enumerate(programs):
        tensors = np.resize(inputs(program), (trials, *program.shape))
        source, result = (
            layout_drawn(encoding, program.shape, program.element)
            for encoding in (program.source, _written(number, program)[1])
        )
        held = [held_elements(layout, lanes, program.warps, 0) for layout in (source, result)]
        given[str(number)] = list(_in_order(tensors)[:, held[0]].swapaxes(0, 1))
        wanted.append(_in_order(evaluate(program, tensors))[:, held[1]].swapaxes(0, 1))
    try:
        outcome = simulate_warps(kernel.text, kernel.name, given, kernel.target)
    except SimulationError as error:
        raise ToolError(Diagnostic("error", f"cannot be run: {error}", name)) from error
    for number, program in enumerate(programs):
        values, undefined = outcome.sinks[str(number)]
        bits = mask_of(element_type(program.element).bits)
        if values.shape != wanted[number].shape:
            totals.wrong += 1
            message = f"{len(values)} registers, not {len(wanted[number])}"
            totals.fail("registers", f"{title(program)}: {message}", program)
        elif ((values ^ wanted[number]) & bits).any() or (undefined & bits).any():
            totals.wrong += 1
            totals.fail("wrong", f"{name}, region {program.region}: {title(program)}", program)
    if outcome.races:
        totals.races += 1
        totals.fail("race", f"{name}: " + "; ".join(map(str, outcome.races[:2])), programs[0])
    return totals


def _in_order(tensors: Bits) -> Bits:
    """[trial, *coordinates] as [trial, element], dimension 0 in the element number's lowest bits."""
    backwards: Bits = tensors.transpose(0, *range(tensors.ndim - 1, 0, -1))
    return backwards.reshape(len(tensors), -1)
