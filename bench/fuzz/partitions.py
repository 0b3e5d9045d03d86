"""Modules of conversions in warp-specialised regions, each run as a whole.

A module has a default region and a few partitions of 1 to 8 warps, each with its own conversions. Inline
assembly produces the operand of each conversion and takes its result, so no address depends on a layout. The
module is compiled to the LLVM dialect. All warps are run independently, with the barriers that Triton
generated from ours, and the shared memory that it allocated to each partition.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.fuzz.evaluate import mask_of
from bench.fuzz.pairs import as_pair, as_program, ends, registers_of_pair, title
from bench.fuzz.program import Program
from bench.fuzz.random_layouts import Pair, random_pair
from bench.fuzz.totals import Totals
from bench.fuzz.warps import WarpsOutcome, simulate_warps
from bench.whole_kernels import LOWERING, LoweredKernel, lower_kernel
from triton_linear.lowering.interpreter.assembly import GIVEN, SINK
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.errors import Diagnostic, ToolError

MOST_REGISTERS = 32
"""The maximum number of elements of a thread. Each warp is run separately, which takes long."""
MOST_BYTES = 48 << 10
"""The maximum size of a tensor, so that the scratch of all partitions fits."""
DEFAULT_WARPS = (4, 8)
PARTITION_WARPS = (1, 2, 4, 8)
MOST_PARTITIONS = 3
PAIRS_PER_REGION = (1, 2, 3)
REGISTERS_EACH = 24
"""The number of registers that a partition requests for each thread; Triton accepts it for all."""


def draw_partitions(rng: random.Random, target: Target, most: int, ctas: int = 1) -> list[Program]:
    """The conversions of a module, those of the default region first."""
    drawn: list[Program] = []
    for region in range(1 + rng.randint(1, MOST_PARTITIONS)):
        warps = rng.choice(PARTITION_WARPS if region else DEFAULT_WARPS)
        room = most if region else most - 1
        for _ in range(rng.choice(PAIRS_PER_REGION)):
            if len(drawn) < room:
                pair = _pair(rng, target, warps, ctas)
                drawn.append(as_program(pair, warps, target.name, region=region, ctas=ctas))
    return drawn


def _pair(rng: random.Random, target: Target, warps: int, ctas: int) -> Pair:
    while True:
        pair = random_pair(rng, target.lanes, warps, ctas)
        size = int(np.prod(pair.shape)) * element_type(pair.element).bits // 8
        # Any CTA may hold a whole tensor of a cluster.
        if registers_of_pair(pair) <= MOST_REGISTERS and size <= MOST_BYTES:
            return pair


def partitions_text(programs: Sequence[Program]) -> str:
    """The module of these conversions; the default region, or the only partition, may be empty."""
    return module_of_regions(programs, [_conversion(number, each) for number, each in enumerate(programs)])


def module_of_regions(programs: Sequence[Program], lines: Sequence[Sequence[str]]) -> str:
    """The module of these programs, each with the lines that it is, by region; the default region, or the only
    partition, may be empty."""
    by_region = {
        region: list(found)
        for region, found in itertools.groupby(zip(programs, lines, strict=True), lambda one: one[0].region)
    }
    own = by_region.pop(0, [])
    partitions = list(by_region.values()) or [[]]
    num_warps = own[0][0].warps if own else DEFAULT_WARPS[0]
    parts = [f"    ttg.warp_specialize(){_registers(len(partitions))}", "    default {"]
    parts += [f"      {line}" for _, written in own for line in written]
    parts += ["      ttg.warp_yield", "    }"]
    for index, members in enumerate(partitions):
        warps = members[0][0].warps if members else 1
        parts.append(f"    partition{index}() num_warps({warps}) {{")
        parts += [f"      {line}" for _, written in members for line in written]
        parts += ["      ttg.warp_return", "    }"]
    parts[-1] += " : () -> ()"
    inside = "\n".join(parts)
    return (
        f'module attributes {{"ttg.num-ctas" = {programs[0].ctas} : i32, "ttg.num-warps" = {num_warps} : i32, '
        f'ttg.target = "{programs[0].target}", "ttg.threads-per-warp" = 32 : i32}} {{\n'
        f"  tt.func public @convert() {{\n{inside}\n    tt.return\n  }}\n}}\n"
    )


def _registers(count: int) -> str:
    registers = ", ".join([str(REGISTERS_EACH)] * count)
    return f" attributes {{requestedRegisters = array<i32: {registers}>}}"


def _conversion(number: int, program: Program) -> list[str]:
    """The lines of one conversion, with the inline assembly before and after it."""
    n, destination = number, as_pair(program).destination
    types = f"{program.type(program.source)} -> {program.type(destination)}"
    moved = f'%y{n} = ttg.convert_layout %x{n} : {types} loc("pair {n}")'
    return [*given_lines(n, program), moved, *sink_lines(n, program, f"%y{n}", destination)]


def given_lines(number: int, program: Program) -> list[str]:
    """The lines that have inline assembly give the tensor `%x`, with the number behind it."""
    n, source = number, program.source
    bits = element_type(program.element).bits
    word, moved = (_type(program, f"i{width}", source) for width in (64, bits))
    lines = [
        f"%zero{n} = arith.constant dense<0> : {_type(program, 'i32', source)}",
        f"%word{n} = "
        + _assembly(f"{GIVEN}{n}", "=l,r", f"%zero{n}", f"{_type(program, 'i32', source)} -> {word}"),
    ]
    if bits < 64:
        lines.append(f"%bits{n} = arith.trunci %word{n} : {word} to {moved}")
    given = f"%{'bits' if bits < 64 else 'word'}{n}"
    return [*lines, _cast(f"%x{n}", given, moved, program.type(source), False)]


def sink_lines(number: int, program: Program, result: str, encoding: str) -> list[str]:
    """The lines that hand a result in this encoding over to inline assembly."""
    n, bits = number, element_type(program.element).bits
    back, wide = (_type(program, f"i{width}", encoding) for width in (bits, 64))
    lines = [_cast(f"%back{n}", result, program.type(encoding), back, True)]
    if bits < 64:
        lines.append(f"%wide{n} = arith.extui %back{n} : {back} to {wide}")
    end = f"%{'wide' if bits < 64 else 'back'}{n}"
    types = f"{wide} -> {_type(program, 'i32', encoding)}"
    return [*lines, f"%end{n} = " + _assembly(f"{SINK}{n}", "=r,l", end, types)]


def _type(program: Program, element: str, encoding: str) -> str:
    return replace(program, element=element).type(encoding)


def _assembly(text: str, constraints: str, given: str, types: str) -> str:
    rest = f'{{constraints = "{constraints}", packed_element = 1 : i32, pure = false}}'
    return f'tt.elementwise_inline_asm "{text}" {rest} {given} : {types}'


def _cast(name: str, value: str, source: str, result: str, back: bool) -> str:
    """A line that casts integers to elements; back: elements to integers."""
    if source == result:  # a bitcast to the same type is folded
        return f"{name} = tt.bitcast {value} : {source} -> {result}"
    pointer = "!tt.ptr" in (source if back else result)
    operation = ("tt.ptr_to_int" if back else "tt.int_to_ptr") if pointer else "tt.bitcast"
    return f"{name} = {operation} {value} : {source} -> {result}"


def examine_partitions(
    programs: Sequence[Program], lanes: int, name: str, options: PipelineOptions | None = LOWERING
) -> Totals:
    """Compile and run a module, with stock Triton if `options` is None. Raises ToolError if either fails."""
    totals = Totals(modules=1, conversions=len(programs))
    kernel = lower_kernel(partitions_text(programs), name, programs[0].target, options)
    if options is not None:
        _count(totals, programs, kernel)
    for cta in range(programs[0].ctas):
        _compare(kernel, programs, lanes, name, cta, totals)
    return totals


def _compare(
    kernel: LoweredKernel, programs: Sequence[Program], lanes: int, name: str, cta: int, totals: Totals
) -> None:
    """Run one CTA, and count what is wrong."""
    try:
        outcome, patterns = run_partitions(kernel, programs, lanes, cta)
    except SimulationError as error:
        raise ToolError(Diagnostic("error", f"cannot be run: {error}", name)) from error
    for number, program in enumerate(programs):
        values, undefined = outcome.sinks[str(number)]
        held = held_elements(ends(program)[1], lanes, program.warps, cta)
        wanted = patterns[number][:, held].swapaxes(0, 1)
        bits = mask_of(element_type(program.element).bits)
        if values.shape != wanted.shape:
            totals.wrong += 1
            totals.fail("registers", f"{title(program)}: {len(values)} registers, not {len(wanted)}", program)
        elif ((values ^ wanted) & bits).any() or (undefined & bits).any():
            totals.wrong += 1
            totals.fail("wrong", f"{name}, region {program.region}: {title(program)}", program)
    if outcome.races:
        totals.races += 1
        totals.fail("race", f"{name}: " + "; ".join(map(str, outcome.races[:2])), programs[0])


def _count(totals: Totals, programs: Sequence[Program], kernel: LoweredKernel) -> None:
    totals.kinds.update(conversion.kind for conversion in kernel.conversions)
    totals.folded = len(programs) - len(kernel.conversions)
    totals.kinds["folded"] += totals.folded
    totals.shared = sum(conversion.kind.endswith("-shared") for conversion in kernel.conversions)
    for conversion in kernel.conversions:
        if conversion.kind == "stock":
            totals.left += 1
            totals.fail("left", f"left to Triton: {conversion.detail}", programs[0])


def run_partitions(
    kernel: LoweredKernel, programs: Sequence[Program], lanes: int, cta: int = 0
) -> tuple[WarpsOutcome, list[Bits]]:
    """Run all warps of a CTA; return the outcome, and the bits of each conversion's elements in each trial."""
    sizes = [int(np.prod(program.shape)) for program in programs]
    patterns = [
        element_patterns(size, element_type(program.element).bits)
        for size, program in zip(sizes, programs, strict=True)
    ]
    trials = max(map(len, patterns))
    given: dict[str, list[Bits]] = {}
    for number, program in enumerate(programs):
        patterns[number] = np.resize(patterns[number], (trials, sizes[number]))
        held = held_elements(ends(program)[0], lanes, program.warps, cta)
        given[str(number)] = list(patterns[number][:, held].swapaxes(0, 1))
    return simulate_warps(kernel.text, kernel.name, given, kernel.target), patterns
