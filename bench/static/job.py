"""Cases by method: compiled, counted, interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.conversions.build import directions
from bench.conversions.cases import Case
from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import Verdict, verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import NOOP as MOVES_NOTHING
from triton_linear.lowering.planners import select as selection
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.verify.stock import check_conversion

from ..harness.report import sizes
from .amdgcn import Loop
from .cases import case_called
from .compiled import compile_case
from .model import Model, vector_instructions

STOCK, OURS = "stock", "ours"
NOOP = "no-op"


@dataclass(frozen=True)
class Job:
    """A case of a target by stock Triton or ours; `empty` is the loop without conversions."""

    target: str
    case: str
    method: str
    empty: Loop


@dataclass(frozen=True)
class _Run:
    """One direction in the interpreter: what it is, and what was found; `verdict` is None if it did not run."""

    what: str
    verdict: Verdict | None
    problem: str = ""


def batch(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """What each job found, or why it failed."""
    found = []
    for job in jobs:
        try:
            found.append(work(job))
        except Exception as error:
            found.append({"error": f"{type(error).__name__}: {error}"})
    return found


def work(job: Job) -> dict[str, Any]:
    """What a round trip of the case takes.

    `clocks`, `wavefronts` and what those were `without_conflicts` of banks are missing where the interpreter
    does not know what was emitted.
    """
    target = target_called(job.target)
    case = case_called(job.target, job.case)
    kernel = compile_case(case, job.target, ours=job.method == OURS)
    loop = kernel.loop.less(job.empty)
    run = _ours if job.method == OURS else _stock
    runs = [run(case, source, destination, target) for source, destination in directions(case)]
    problems = [each.problem for each in runs if each.problem]
    plans = [each.what for each in runs]
    if job.method == OURS and plans != list(kernel.plans):
        problems.append(f"the plugin carried out {kernel.plans}")
    found: dict[str, Any] = {
        **kernel.figures,
        "instructions": loop.kinds,
        "opcodes": loop.opcodes,
        "nop_states": loop.nop_states,
        "vector": vector_instructions(loop.kinds),
        "setup": loop.setup,
        "plans": plans,
        "problems": problems,
    }
    verdicts = [each.verdict for each in runs if each.what != NOOP]
    counts = [verdict.counts for verdict in verdicts if verdict is not None]
    if len(counts) == len(verdicts):
        wavefronts = sum(each.wavefronts for each in counts) / case.warps
        accessed = sum(access.width for each in counts for access in each.accesses)
        if loop.bytes_accessed > accessed:
            problems.append(f"{loop.bytes_accessed:g} bytes of LDS in the loop, {accessed} in the interpreter")
        found["wavefronts"] = wavefronts
        found["without_conflicts"] = sum(each.minimum_wavefronts for each in counts) / case.warps
        found["clocks"] = Model(target.costs).clocks(loop.kinds, wavefronts, loop.nop_states)
    return found


def _ours(case: Case, source: LinearLayout, destination: LinearLayout, target: Target) -> _Run:
    """The code of the plan that the plugin carries out."""
    element = element_type(f"i{case.bits}")
    plan = selection.select(source, destination, element, Situation.on(target)).plan
    if plan is None:
        return _Run("left to Triton", None, "left to Triton")
    if plan.kind == MOVES_NOTHING:
        return _Run(NOOP, None)
    text = emit(plan, element, target, "conversion")
    verdict = verify_conversion(text, source, destination, element, target, case.warps, plan.scratch_bytes)
    return _Run(plan.summary(), verdict, _problem(verdict))


def _stock(case: Case, source: LinearLayout, destination: LinearLayout, target: Target) -> _Run:
    """What Triton emits, in a kernel with this conversion alone."""
    shape = sizes(case.shape)
    before, after = (
        f"tensor<{shape}xi{case.bits}, {encodings.linear_encoding_text(layout)}>"
        for layout in (source, destination)
    )
    finding = check_conversion(before, after, case.warps, target.name)
    if finding.verdict is None:
        return _Run(finding.status, None, f"{finding.status}: {finding.detail}")
    return _Run(finding.status, finding.verdict, _problem(finding.verdict))


def _problem(verdict: Verdict) -> str:
    return "" if verdict.ok else f"{verdict.wrong} wrong of {verdict.checked}, {len(verdict.races)} races"
