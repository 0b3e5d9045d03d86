"""One case by one method: compiled, counted, interpreted."""

from __future__ import annotations

from typing import Any

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering import select as selection
from triton_linear.lowering.element import element_type
from triton_linear.lowering.embed import signature_of
from triton_linear.lowering.emit import emit
from triton_linear.lowering.plan import NoOpPlan
from triton_linear.lowering.targets import Target
from triton_linear.lowering.targets import target as target_called
from triton_linear.lowering.verify import Verdict, verify_conversion
from triton_linear.tools.stock import check_conversion

from bench.conversions.cases import Case

from .cases import cases
from .compiled import compile_case, empty_loop, sides
from .model import clocks, vector_instructions

STOCK, OURS = "stock", "ours"


def work(target_name: str, name: str, method: str) -> dict[str, Any]:
    """What a round trip of the case takes."""
    target = target_called(target_name)
    case = next(case for case in cases(target_name) if case.name == name)
    kernel = compile_case(case, target_name, ours=method == OURS)
    taken = kernel.loop.less(empty_loop(target_name))
    found: dict[str, Any] = {
        **kernel.figures,
        "instructions": taken.kinds,
        "opcodes": taken.opcodes,
        "nop_states": taken.nop_states,
        "vector": vector_instructions(taken),
        "plans": [],
        "wrong": [],
    }
    wavefronts: float | None = 0.0
    for source, destination in sides(case):
        plan, verdict, detail = (_ours if method == OURS else _stock)(case, source, destination, target)
        found["plans"].append(plan)
        if detail:
            found["wrong"].append(detail)
        if verdict is not None and wavefronts is not None:
            wavefronts += verdict.counts.wavefronts / case.warps
        elif plan not in ("no-op", "registers"):
            wavefronts = None
    if wavefronts is None:
        wavefronts = least_wavefronts(taken.kinds, target)
        found["wavefronts_at_least"] = True
    found["wavefronts"] = wavefronts
    found["clocks"] = clocks(taken, wavefronts, target)
    return found


def least_wavefronts(kinds: dict[str, float], target: Target) -> float:
    """Wavefronts of the accesses without bank conflicts, by their widths."""
    total = 0.0
    for kind, count in kinds.items():
        if kind.startswith(("ds_read", "ds_write")):
            opcode, _, bits = kind.rpartition("_b")
            each = max(int(bits) // 8, target.bank_bytes) * (2 if opcode.endswith("2") else 1)
            total += count * each * target.lanes / target.wavefront_bytes
    return total


def _ours(
    case: Case, source: LinearLayout, destination: LinearLayout, target: Target
) -> tuple[str, Verdict | None, str]:
    element = element_type(f"i{case.bits}")
    plan = selection.select(source, destination, element, target).plan
    if plan is None:
        return "left to Triton", None, "left to Triton"
    if isinstance(plan, NoOpPlan):
        return "no-op", None, ""
    text = emit(plan, signature_of(plan, element), target, "conversion")
    verdict = verify_conversion(text, source, destination, element, target, case.warps, plan.scratch_bytes)
    return plan.summary(), verdict, _wrong(verdict)


def _stock(
    case: Case, source: LinearLayout, destination: LinearLayout, target: Target
) -> tuple[str, Verdict | None, str]:
    shape = "x".join(map(str, case.shape))
    types = [
        f"tensor<{shape}xi{case.bits}, {encodings.linear_encoding_text(layout)}>"
        for layout in (source, destination)
    ]
    finding = check_conversion(types[0], types[1], case.warps, target.name)
    if finding.verdict is None:
        return finding.status, None, f"{finding.status}: {finding.detail}"
    return finding.status, finding.verdict, _wrong(finding.verdict)


def _wrong(verdict: Verdict) -> str:
    return "" if verdict.ok else f"{verdict.wrong} wrong of {verdict.checked}, {len(verdict.races)} races"
