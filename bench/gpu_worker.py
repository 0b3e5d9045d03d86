"""What `gpu_check.py` asks another process: one check, on the GPU or without one."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import triton

from triton_linear.examples import EXAMPLES
from triton_linear.examples.compare import compare, modes, same_bits
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.verify import command as verify

from .cases import LOOP_STEPS, Case, cases

Result = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """Something to run: `launch` on a GPU, `compile` for a target without one."""

    name: str
    facts: Result
    launch: Callable[[], Result]
    compile: Callable[[str], list[str]]


# How single conversions are compiled: choosing layouts would leave nothing to convert, and kernels that hold
# little else would be taken from stock Triton where ours spill a little more.
AS_EMITTED = {"assign": False, "occupancy": False}


@functools.cache
def checks() -> tuple[Check, ...]:
    """The examples, then the single conversions."""
    return (*map(_of_example, EXAMPLES), *map(_of_conversion, cases()))


def _of_example(example: Any) -> Check:
    return Check(
        example.__name__.rpartition(".")[2],
        {"group": "example"},
        functools.partial(run_example, example),
        lambda target: compile_specs(example.compile_specs(gpu_target(target)), target),
    )


def _of_conversion(case: Case) -> Check:
    facts = {
        "group": "conversion",
        "element": case.element,
        "shape": list(case.shape),
        "warps": case.warps,
        "loop": case.loop,
        "source": str(case.source[1]),
        "destination": str(case.destination[1]),
    }
    return Check(case.name, facts, functools.partial(run_case, case), functools.partial(compile_case, case))


def compile_specs(specs: Sequence[KernelSpec], target: str) -> list[str]:
    """Compile an example's kernels without launching them; gives their TTGIR."""
    return [
        triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options)).asm["ttgir"]
        for spec in specs
    ]


def compile_case(case: Case, target: str) -> list[str]:
    """Compile a conversion without launching it; gives its TTGIR."""
    options = {"num_warps": case.warps}
    return [triton.compile(case.compile_source(), target=gpu_target(target), options=options).asm["ttgir"]]


def digest(reports: Sequence[Any]) -> Result:
    """What the plugin says that it did."""
    return {
        "plans": [conversion.lowering for report in reports for conversion in report.conversions],
        "compiled": sorted({report.outcome.value for report in reports}),
        "errors": [report.error for report in reports if report.error],
    }


def verdict(identical: bool, right: bool, stock_right: bool, found: Result, exact: bool = True) -> str:
    """The outcome in a word or two; "identical" is a pass, and "within tolerance" for what need not be `exact`:
    kernels whose reductions may add in another order."""
    if found["errors"]:
        return "fell back"
    if not found["plans"]:
        return "converted by stock Triton"
    if not identical and right and stock_right and not exact:
        return "within tolerance"
    if not identical:
        return "differs from stock" if right or stock_right else "differs from stock, both wrong"
    return "identical" if right else "identical, both wrong"


def run_example(example: Any) -> Result:
    """Both ways on the same input; also against PyTorch, and timed."""
    ran = compare(example)
    found = digest(ran.reports)
    return found | {
        "outcome": verdict(ran.identical, ran.right["plugin"], ran.right["stock"], found, exact=False),
        "relative_error": ran.errors,
        "milliseconds": ran.milliseconds,
        "stock_over_plugin": ran.speedup,
    }


def run_case(case: Case) -> Result:
    """Both ways on the same random bits, which the conversion must not change."""
    import torch

    kind = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[case.bits]
    generator = torch.Generator("cuda").manual_seed(case.index)
    limits = (-2, 2) if case.element == "i1" else (torch.iinfo(kind).min, torch.iinfo(kind).max)
    source = torch.randint(*limits, case.shape, device="cuda", dtype=kind, generator=generator)
    expected = (source != 0).to(kind) if case.element == "i1" else source
    if case.loop:
        expected = expected + LOOP_STEPS * (LOOP_STEPS - 1)
    outputs = {}
    found: Result = {}
    for mode, context in modes(**AS_EMITTED):
        destination = torch.full_like(source, 0x55)
        with context() as reports:
            case.kernel[(1,)](source, destination, LOOP_STEPS, **case.constants(), num_warps=case.warps)
            torch.cuda.synchronize()
        outputs[mode] = destination
        found = digest(reports)
    right = {mode: same_bits(output, expected) for mode, output in outputs.items()}
    identical = same_bits(outputs["stock"], outputs["plugin"])
    return found | {"outcome": verdict(identical, right["plugin"], right["stock"], found)}


def dry_run(check: Check, target: str) -> Result:
    """Compile both ways, and run the code of every conversion in the interpreter."""
    found: Result = {}
    modules: list[str] = []
    options = AS_EMITTED if check.facts["group"] == "conversion" else {}
    for _, context in modes(**options):
        with context() as reports:
            modules = check.compile(target)
        found = digest(reports)
    if found["errors"]:
        return found | {"outcome": "fell back"}
    if options and not found["plans"]:
        return found | {"outcome": "converted by stock Triton"}
    conversions = [
        conversion
        for number, text in enumerate(modules)
        for conversion in verify.check(compile_text(text, f"{number}.ttgir", target, "llvm"))
    ]
    return found | {"outcome": "verified" if all(c.ok for c in conversions) else "wrong in the interpreter"}


def run(index: int, dry: str | None) -> Result:
    """The outcome of a check; without launching anything where `dry` names a target."""
    check, start = checks()[index], time.perf_counter()
    outcome = dry_run(check, dry) if dry else check.launch()
    return outcome | {"seconds": round(time.perf_counter() - start, 3)}
