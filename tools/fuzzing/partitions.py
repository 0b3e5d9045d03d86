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

import numpy as np

from triton_linear.dialect.linear_layout import BLOCK, LinearLayout
from triton_linear.lowering.interpreter.assembly import GIVEN, SINK
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.interpreter.warps import WarpsOutcome, simulate_warps
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.conversion import conversion as conversion_between
from triton_linear.lowering.planners.shared import beside_ranks
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.fuzzing.evaluate import mask_of
from triton_linear.tools.fuzzing.pairs import as_pair, as_program, drawn_layout, ends, registers_of_pair, title
from triton_linear.tools.fuzzing.program import Program
from triton_linear.tools.fuzzing.random_layouts import Pair, random_pair
from triton_linear.tools.fuzzing.totals import Totals
from triton_linear.tools.support.errors import Diagnostic, ToolError
from triton_linear.tools.support.functions import LOWERING, LoweredKernel, lower_kernel

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
    """The conversions of a module, those of the default region first. In clusters none loads from another
    CTA, but some depend on the CTA's rank.
    """
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
        pair = random_pair(rng, target.lanes, warps, target.name, ctas)
        size = int(np.prod(pair.shape)) * element_type(pair.element).bits // 8
        if registers_of_pair(pair) > MOST_REGISTERS or size > MOST_BYTES:
            continue
        source, destination = (drawn_layout(pair, side) for side in (pair.source, pair.destination))
        if (
            _block(source) == _block(destination)
            or beside_ranks(conversion_between(source, destination)) is not None
        ):
            return pair


def _block(layout: LinearLayout) -> tuple[tuple[int, ...], ...]:
    """The basis vectors of the CTA's rank."""
    return dict(layout.bases).get(BLOCK, ())


def partitions_text(programs: Sequence[Program]) -> str:
    """The module of these conversions; the default region, or the only partition, may be empty."""
    numbered = list(enumerate(programs))
    by_region = {
        region: list(members) for region, members in itertools.groupby(numbered, lambda pair: pair[1].region)
    }
    own = by_region.pop(0, [])
    partitions = list(by_region.values()) or [[]]
    num_warps = own[0][1].warps if own else DEFAULT_WARPS[0]
    parts = [f"    ttg.warp_specialize(){_registers(len(partitions))}", "    default {"]
    parts += [f"      {line}" for number, program in own for line in _conversion(number, program)]
    parts += ["      ttg.warp_yield", "    }"]
    for index, members in enumerate(partitions):
        warps = members[0][1].warps if members else 1
        parts.append(f"    partition{index}() num_warps({warps}) {{")
        parts += [f"      {line}" for number, program in members for line in _conversion(number, program)]
        parts += ["      ttg.warp_return", "    }"]
    parts[-1] += " : () -> ()"
    lines = "\n".join(parts)
    return (
        f'module attributes {{"ttg.num-ctas" = {programs[0].ctas} : i32, "ttg.num-warps" = {num_warps} : i32, '
        f'ttg.target = "{programs[0].target}", "ttg.threads-per-warp" = 32 : i32}} {{\n'
        f"  tt.func public @convert() {{\n{lines}\n    tt.return\n  }}\n}}\n"
    )


def _registers(count: int) -> str:
    registers = ", ".join([str(REGISTERS_EACH)] * count)
    return f" attributes {{requestedRegisters = array<i32: {registers}>}}"


def _conversion(number: int, program: Program) -> list[str]:
    """The lines of one conversion, with the inline assembly before and after it."""
    pair = as_pair(program)
    bits = element_type(pair.element).bits
    n, source, destination = number, pair.source, pair.destination

    def of(element: str, encoding: str) -> str:
        return Pair(pair.shape, element, source, destination, "").type(encoding)

    def asm(text: str, constraints: str, given: str, result: str) -> str:
        rest = f'{{constraints = "{constraints}", packed_element = 1 : i32, pure = false}}'
        return f'tt.elementwise_inline_asm "{text}" {rest} %{given} : {result}'

    word, moved, back = of("i64", source), of(f"i{bits}", source), of(f"i{bits}", destination)
    narrow = bits < 64
    lines = [
        f"%zero{n} = arith.constant dense<0> : {of('i32', source)}",
        f"%word{n} = " + asm(f"{GIVEN}{n}", "=l,r", f"zero{n}", f"{of('i32', source)} -> {word}"),
    ]
    if narrow:
        lines.append(f"%bits{n} = arith.trunci %word{n} : {word} to {moved}")
    lines.append(_cast(f"%x{n}", f"%{'bits' if narrow else 'word'}{n}", moved, of(pair.element, source), False))
    types = f"{of(pair.element, source)} -> {of(pair.element, destination)}"
    lines.append(f'%y{n} = ttg.convert_layout %x{n} : {types} loc("pair {n}")')
    lines.append(_cast(f"%back{n}", f"%y{n}", of(pair.element, destination), back, True))
    wide = of("i64", destination)
    if narrow:
        lines.append(f"%wide{n} = arith.extui %back{n} : {back} to {wide}")
    end = f"{'wide' if narrow else 'back'}{n}"
    return [*lines, f"%end{n} = " + asm(f"{SINK}{n}", "=r,l", end, f"{wide} -> {of('i32', destination)}")]


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
    # The bytes of these programs are loose, but their conversions must not be left to Triton.
    gpu = f"{programs[0].target}{{leaves_loose_bytes=0}}"
    kernel = lower_kernel(partitions_text(programs), name, gpu, options)
    if options is not None:
        _count(totals, programs, kernel)
    for cta in range(programs[0].ctas):  # no CTA loads from another, so each can be run alone
        _examine_cta(totals, kernel, programs, lanes, name, cta)
    return totals


def _examine_cta(
    totals: Totals, kernel: LoweredKernel, programs: Sequence[Program], lanes: int, name: str, cta: int
) -> None:
    try:
        outcome, patterns = run_partitions(kernel, programs, lanes, cta)
    except SimulationError as error:
        raise ToolError(Diagnostic("error", f"cannot be run: {error}", name)) from error
    for number, program in enumerate(programs):
        values, undefined = outcome.sinks[str(number)]
        wanted = patterns[number][:, held_elements(ends(program)[1], lanes, program.warps, cta)].swapaxes(0, 1)
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
    totals.shared = sum(conversion.kind in ("cta-shared", "warp-shared") for conversion in kernel.conversions)
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
    return simulate_warps(kernel.text, kernel.name, given, kernel.target, cta=cta), patterns
