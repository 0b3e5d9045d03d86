"""Modules of independent conversions between random layouts, each checked separately.

A TTGIR module has sixteen conversions, one for each pair of layouts. It is compiled to the LLVM dialect
(every N-th module further, to PTX or hsaco), and the code of each conversion is run in the interpreter. The
results are compared with the layouts as they were drawn, so this also checks the layouts that the passes
derive from the encodings.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.fuzz.encodings import layout_drawn
from bench.fuzz.program import Convert, Program
from bench.fuzz.random_layouts import Pair, module_text, random_pair
from bench.fuzz.totals import Totals
from triton_linear.dialect.linear_layout import BLOCK, REGISTER, LinearLayout
from triton_linear.lowering.interpreter.verify import Verdict, held_elements
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.framework.plans import DecidedConversion
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.compile import LOWERING, Compilation, compile_text
from triton_linear.tools.verify.command import run_stubs

PAIRS_PER_MODULE = 16
MOST_REGISTERS = 128
"""The maximum number of elements of a thread in modules that are assembled: LLVM takes minutes
to spill more."""
ASSEMBLED = {"nvidia": "ptx", "amd": "hsaco"}
"""The last stage of modules that are assembled. PTX is not assembled further, because ptxas is a separate
process."""


def drawn_layout(pair: Pair, encoding: str) -> LinearLayout:
    """The layout of one of the pair's encodings."""
    return layout_drawn(encoding, pair.shape, pair.element)


def moves_nothing(source: LinearLayout, destination: LinearLayout, lanes: int, warps: int) -> bool:
    """Whether every thread already holds the elements of the destination, in the same order if copies are
    ignored.

    This is checked by enumerating threads and registers, not with basis vectors.
    """
    ctas = source.in_dim_size(BLOCK) if source.has_in_dim(BLOCK) else 1
    return all(_moves_nothing_in(cta, source, destination, lanes, warps) for cta in range(ctas))


def _moves_nothing_in(
    cta: int, source: LinearLayout, destination: LinearLayout, lanes: int, warps: int
) -> bool:
    held = [held_elements(layout, lanes, warps, cta) for layout in (source, destination)]
    distinct = [list(dict.fromkeys(rows[:, 0].tolist())) for rows in held]
    if distinct[0] != distinct[1]:
        return False
    # A layout is affine in the thread, so equal offsets of register 0 make all registers equal.
    return bool((held[0][0] == held[1][0]).all())


def _record(
    totals: Totals, single: Program, found: DecidedConversion, verdict: Verdict | None, compilation: Compilation
) -> None:
    """Add the result of one conversion to the totals."""
    totals.conversions += 1
    lanes, warps = compilation.target.lanes, compilation.num_warps
    source, destination = ends(single)
    what = title(single)
    if found.stub is None:
        totals.kinds[found.kind] += 1
        if found.kind == "noop":
            if not moves_nothing(source, destination, lanes, warps):
                totals.wrong += 1
                totals.fail("no-op", f"{what}: taken for a no-op", single)
        else:
            totals.left += 1
            totals.fail("left", f"{what}: left to Triton: {found.detail}", single)
        return
    stub = compilation.stubs[found.stub]
    totals.kinds[stub.plan.kind] += 1
    if (stub.source, stub.destination) != (source, destination):
        totals.wrong += 1
        message = f"{what}: lowered for layouts {stub.source} -> {stub.destination}"
        totals.fail("layouts", message, single)
        return
    assert verdict is not None
    totals.wrong += bool(verdict.wrong)
    totals.races += bool(verdict.races)
    if not verdict.ok:
        details = "; ".join(map(str, (*verdict.examples[:2], *verdict.races[:2])))
        kind = "wrong" if verdict.wrong else "race"
        totals.fail(kind, f"{what}: {stub.plan.summary()}: {details}", single)
    if stub.plan.kind in ("cta-shared", "warp-shared"):
        totals.shared += 1
        for access in verdict.counts.accesses:
            least = least_wavefronts(access.kind, access.width, compilation.target, verdict.counts.warps)
            if access.wavefronts > least:
                totals.excess += 1
                message = (
                    f"{what}: a {access.kind} of {access.width} bytes takes {access.wavefronts} wavefronts, "
                    f"the minimum is {least}"
                )
                totals.fail("wavefronts", message, single)


def least_wavefronts(kind: str, width: int, target: Target, warps: int) -> int:
    """The minimum number of wavefronts for an access by all `warps`: one for each phase of lanes of a warp."""
    return warps * (target.lanes // target.service(kind, width).count)


def title(single: Program) -> str:
    """A description of a conversion."""
    clusters = f", {single.ctas} CTAs" if single.ctas > 1 else ""
    return f"{single.warps} warps{clusters}: {single.type(single.source)} -> {_destination(single)}"


def _destination(single: Program) -> str:
    (step,) = single.steps
    assert isinstance(step, Convert)
    return step.encoding


def ends(single: Program) -> tuple[LinearLayout, LinearLayout]:
    """The layouts of a program of one conversion."""
    return (
        layout_drawn(single.source, single.shape, single.element),
        layout_drawn(_destination(single), single.shape, single.element),
    )


def as_program(pair: Pair, warps: int, target: str, *, region: int = 0, ctas: int = 1) -> Program:
    """The program whose only step is the conversion; `region`: its region in a warp-specialised module."""
    steps = (Convert(pair.destination),)
    return Program(target, warps, pair.shape, pair.element, pair.source, steps, region, ctas)


def as_pair(single: Program) -> Pair:
    """The conversion of a program that has no other step."""
    return Pair(single.shape, single.element, single.source, _destination(single), "one conversion")


def is_single(program: Program) -> bool:
    """Whether a program is one conversion."""
    return len(program.steps) == 1 and isinstance(program.steps[0], Convert)


def draw_pairs(
    rng: random.Random, target: Target, count: int, assembled: bool, ctas: int = 1
) -> tuple[int, list[Pair]]:
    """The number of warps and the pairs of a module, in clusters of `ctas` CTAs."""
    warps = rng.choice((1, 2, 4, 8))
    drawn: list[Pair] = []
    while len(drawn) < count:
        pair = random_pair(rng, target.lanes, warps, ctas)
        if registers_of_pair(pair) <= (MOST_REGISTERS if assembled else limits.MOST_REGISTERS):
            drawn.append(pair)
    return warps, drawn


def registers_of_pair(pair: Pair) -> int:
    """The number of elements of a thread, in the layout that has more."""
    return max(drawn_layout(pair, side).in_dim_size(REGISTER) for side in (pair.source, pair.destination))


def examine_pairs(singles: Sequence[Program], lanes: int, assembled: bool, name: str) -> Totals:
    """Verify programs of one conversion each, in one module. Raises ToolError if the module cannot be compiled.

    Requires: they have the same target, number of warps and number of CTAs.
    """
    totals = Totals(modules=1)
    first = singles[0]
    text = pairs_text(singles, lanes, assembled)
    stage = last_stage(first.target, assembled)
    compilation = compile_text(text, name, first.target, stage, LOWERING)  # the pairs stay as drawn
    if assembled and all(kernel.lowered.stages[stage] for kernel in compilation.kernels):
        totals.assembled += 1
        totals.assembled_conversions += len(singles)
    verdicts = run_stubs(compilation)
    left = {_number(found): found for found in compilation.conversions}
    for number, single in enumerate(singles):
        found = left.get(number)
        if found is None:
            _record_folded(totals, single, compilation)
        else:
            _record(totals, single, found, verdicts.get(found.stub or ""), compilation)
    return totals


def last_stage(target: str, assembled: bool) -> str:
    """The last stage to which a module for a target is compiled.

    >>> last_stage("hip:gfx90a", assembled=True), last_stage("cuda:90", assembled=False)
    ('hsaco', 'llvm')
    """
    return ASSEMBLED[vendor_of(target)] if assembled else "llvm"


def pairs_text(singles: Sequence[Program], lanes: int, assembled: bool) -> str:
    """The module of programs of one conversion each."""
    first = singles[0]
    pairs = [as_pair(s) for s in singles]
    return module_text(pairs, first.warps, lanes, first.target, assembled, first.ctas)


def _number(found: DecidedConversion) -> int:
    """The number of the pair that a conversion came from, which is in its location."""
    return int(found.location.partition('"pair ')[2].partition('"')[0])


def _record_folded(totals: Totals, single: Program, compilation: Compilation) -> None:
    """Add the result of a conversion that was folded, which must be one between equal layouts."""
    totals.conversions += 1
    totals.folded += 1
    totals.kinds["folded"] += 1
    if not moves_nothing(*ends(single), compilation.target.lanes, compilation.num_warps):
        totals.wrong += 1
        totals.fail("folded", f"{title(single)}: folded away", single)
