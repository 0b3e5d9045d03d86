"""`triton-linear fuzz`: verify conversions between random layouts, through Triton's real backend.

Every pair of layouts is a conversion in a TTGIR module, sixteen to a module. The module goes the whole road
to the LLVM dialect (every N-th to assembly as well), and the code of each conversion is run in the interpreter,
against the layouts as they were drawn: those the passes derived from the encodings must be the same.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.lowering.element import element_type
from triton_linear.lowering.targets import target as target_called
from triton_linear.lowering.verify import Verdict, held_elements
from triton_linear.tools.compile import STAGES, Compilation, Site, compile_text
from triton_linear.tools.errors import ToolError, fail
from triton_linear.tools.random_layouts import Pair, module_text, random_pairs
from triton_linear.tools.verify import run_stubs

PAIRS_PER_MODULE = 16
# Assembly takes one kernel per module with all its arguments, so fewer pairs make one.
PAIRS_PER_ASSEMBLY = 4


@dataclass
class Totals:
    """What a run found."""

    conversions: int = 0
    folded: int = 0
    left: int = 0
    wrong: int = 0
    races: int = 0
    wide: int = 0
    excess: int = 0
    assembled: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all is as it must be."""
        return not (self.wrong or self.races or self.excess or self.left or self.failures)

    def __str__(self) -> str:
        return (
            f"{self.conversions} conversions, {self.wrong} wrong, {self.races} races; "
            f"{self.wide} CTA-scope conversions of 32-bit elements, {self.excess} accesses above the minimum "
            "of wavefronts"
        )


def drawn_layout(pair: Pair, encoding: str) -> LinearLayout:
    """The layout that an encoding of the pair stands for; one drawn as bases is taken from these."""
    if not encoding.startswith("#ttg.linear"):
        return encodings.layout_of(encoding, pair.shape, element_type(pair.element).bits)
    names = (REGISTER, LANE, WARP, BLOCK)
    bases = [(name, json.loads(re.findall(rf"{name} = (\[[^a-z]*\])", encoding)[0])) for name in names]
    return LinearLayout.from_bases(bases, dim_names(len(pair.shape)), pair.shape)


def moves_nothing(source: LinearLayout, destination: LinearLayout, lanes: int, warps: int) -> bool:
    """Whether every thread already has what the destination wants, in the same registers but for copies.

    Checked by enumerating threads and registers, not on the basis vectors.
    """
    held = [held_elements(layout, lanes, warps, 0) for layout in (source, destination)]
    distinct = [list(dict.fromkeys(rows[:, 0].tolist())) for rows in held]
    if distinct[0] != distinct[1]:
        return False
    # A layout is affine in the thread, so equal offsets of register 0 make all registers equal.
    return bool((held[0][0] == held[1][0]).all())


def _record(totals: Totals, pair: Pair, site: Site, verdict: Verdict | None, compilation: Compilation) -> None:
    """Judge one pair."""
    totals.conversions += 1
    lanes, warps = compilation.target.lanes, compilation.num_warps
    source, destination = drawn_layout(pair, pair.source), drawn_layout(pair, pair.destination)
    what = f"{warps} warps, {pair.family}: {pair.type(pair.source)} -> {pair.destination}"
    if site.stub is None:
        totals.kinds[site.converted.kind] += 1
        if site.converted.kind == "noop":
            if not moves_nothing(source, destination, lanes, warps):
                totals.wrong += 1
                totals.failures.append(f"{what}: taken for a no-op")
        else:
            totals.left += 1
            totals.failures.append(f"{what}: left to Triton: {site.converted.detail}")
        return
    stub = compilation.stubs[site.stub]
    totals.kinds[stub.plan.kind] += 1
    if (stub.source, stub.destination) != (source, destination):
        totals.wrong += 1
        totals.failures.append(f"{what}: lowered for layouts {stub.source} -> {stub.destination}")
        return
    assert verdict is not None
    totals.wrong += bool(verdict.wrong)
    totals.races += bool(verdict.races)
    if not verdict.ok:
        details = "; ".join(map(str, (*verdict.examples[:2], *verdict.races[:2])))
        totals.failures.append(f"{what}: {stub.plan.summary()}: {details}")
    if stub.plan.kind == "cta-shared" and stub.element.bits == 32:
        totals.wide += 1
        for access in verdict.counts.accesses:
            least = least_wavefronts(access.width, compilation)
            if access.wavefronts > least:
                totals.excess += 1
                totals.failures.append(
                    f"{what}: a {access.kind} of {access.width} bytes takes {access.wavefronts} wavefronts, "
                    f"the minimum is {least}"
                )


def least_wavefronts(width: int, compilation: Compilation) -> int:
    """The lemma's minimum for an access of all warps: each phase of lanes is one wavefront."""
    target = compilation.target
    return compilation.num_warps * (target.lanes // target.lanes_per_phase(width))


def _modules(seed: int, count: int, lanes: int, assembly: int) -> Iterator[tuple[int, list[Pair], bool]]:
    """(warps, pairs, whether to take it to assembly) of every module; pairs come out in a fixed order."""
    index = 0
    for warps, pairs in random_pairs(seed, count, lanes):
        start = 0
        while start < len(pairs):
            index += 1
            assembled = assembly > 0 and index % assembly == 0
            end = start + (PAIRS_PER_ASSEMBLY if assembled else PAIRS_PER_MODULE)
            yield warps, pairs[start:end], assembled
            start = end


def fuzz(
    target_name: str,
    count: int,
    seed: int,
    assembly: int,
    save: Path | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> Totals:
    """Verify `count` random pairs; `advance` is told how many are done after each module, `save` gets them."""
    try:
        target = target_called(target_name)
    except ValueError as error:
        fail(str(error))
    totals = Totals()
    for index, (warps, pairs, assembled) in enumerate(_modules(seed, count, target.lanes, assembly)):
        stage = STAGES[target.vendor][2 if assembled else 0]
        text = module_text(pairs, warps, target.lanes, target.name, stored=assembled)
        name = f"{target.name.replace(':', '-')}-{seed}-{index:03}.ttgir"
        if save is not None:
            (save / name).write_text(text)
        try:
            compilation = compile_text(text, name, target.name, stage)
            verdicts = run_stubs(compilation)
        except ToolError as error:
            totals.failures.append(f"{name}, {len(pairs)} pairs: {error}")
            totals.wrong += len(pairs)
            totals.conversions += len(pairs)
            continue
        totals.assembled += assembled
        left = {_number(site): site for site in compilation.sites}
        for number, pair in enumerate(pairs):
            site = left.get(number)
            if site is None:
                _record_folded(totals, pair, compilation)
            else:
                _record(totals, pair, site, verdicts.get(site.stub or ""), compilation)
        advance(len(pairs))
    return totals


def _number(site: Site) -> int:
    """Which pair a conversion came from, from its location."""
    return int(site.converted.location.partition('"pair ')[2].partition('"')[0])


def _record_folded(totals: Totals, pair: Pair, compilation: Compilation) -> None:
    """A pair whose conversion is gone must be one between equal layouts."""
    totals.conversions += 1
    totals.folded += 1
    totals.kinds["folded"] += 1
    source, destination = drawn_layout(pair, pair.source), drawn_layout(pair, pair.destination)
    if not moves_nothing(source, destination, compilation.target.lanes, compilation.num_warps):
        totals.wrong += 1
        totals.failures.append(f"{pair.type(pair.source)} -> {pair.destination}: folded away")


def main(target: str, count: int, seed: int, assembly: int, save: Path | None) -> int:
    """Fuzz with a progress bar, print what failed and the totals; the exit status is 0 if nothing did."""
    from rich.console import Console
    from rich.progress import Progress

    if count < 0:
        fail(f"count: {count} is negative")
    if save is not None:
        try:
            save.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(f"cannot write modules there: {error.strerror}", str(save))
    console = Console(file=sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{target}, seed {seed}", total=count)
        totals = fuzz(target, count, seed, assembly, save, lambda done: progress.advance(task, done))
    for failure in totals.failures[:20]:
        print(failure)
    if len(totals.failures) > 20:
        print(f"... and {len(totals.failures) - 20} more")
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(totals.kinds.items()))
    print(f"{target}, seed {seed}: {kinds}; {totals.assembled} modules assembled")
    print(totals)
    return 0 if totals.ok else 1
