"""Random conversions, each in a kernel of its own, and the examples, compiled as the plugin does and run in the
interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.lowering.target.targets import Target, target
from triton_linear.passes.framework.plans import STOCK
from triton_linear.tools.doctor.command import Difference, Findings
from triton_linear.tools.doctor.encodings import Cases, Oracle, Shape
from triton_linear.tools.support.backend import code_stages, lower, ttgir_of
from triton_linear.tools.support.compile import LOWERING, compile_text, to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.verify.command import check
from triton_linear.tools.verify.stock import kernel_text, layout_of_type

ELEMENTS = ("i8", "f16", "bf16", "i32", "f32", "i64")
WARPS = (1, 2, 4, 8)
MOST_REGISTERS = 64
ANY_GPU = ("blocked", "slice", "linear")
MATRICES = {"cuda": ("mma v2", "mma v3", "dot of mma v2"), "hip:gfx9": ("mfma", "dot of mfma")}
"""The families of encodings that are drawn, for all GPUs and for those whose names begin so."""


def run(target_name: str, count: int, seed: int) -> Findings:
    """Run `count` random conversions for a GPU. Those that stock Triton cannot compile are drawn again."""
    findings, kind, gpu = Findings(), f"conversion for {target_name}", target(target_name)
    conversions = drawn(gpu, seed)
    for _ in range(4 * count):
        warps, source, destination = next(conversions)
        text = kernel_text(source, destination, warps, gpu.lanes, gpu.name)
        if findings.cases < count and is_taken(text, gpu):
            what = f"{warps} warps: {source} -> {destination}"
            findings.compare(kind, what, partial(_difference, text, gpu, source, destination))
    if findings.cases < count:
        findings.differences.append(Difference(kind, f"seed {seed}", "stock Triton refuses most"))
    return findings


def is_taken(text: str, gpu: Target) -> bool:
    """Whether stock Triton compiles a kernel."""
    try:
        lower(to_triton(text), gpu.name, "llvm")
    except ToolError:
        return False
    return True


def _difference(text: str, gpu: Target, source: str, destination: str) -> str | None:
    """What `verify` finds wrong in our code for a conversion; None if nothing is."""
    checked = check(compile_text(text, "conversion.ttgir", gpu.name, "llvm", LOWERING))
    if not checked and layout_of_type(source) != layout_of_type(destination):
        return "left to Triton"
    return next((str(one) for one in checked if not one.ok or one.of.kind == STOCK), None)


def drawn(gpu: Target, seed: int) -> Iterator[tuple[int, str, str]]:
    """Random conversions for a GPU: numbers of warps, and the types of a tensor before and after."""
    cases, families = Cases(Oracle(), seed), list(ANY_GPU)
    for start, names in MATRICES.items():
        families += names if gpu.name.startswith(start) else ()
    while True:
        warps = cases.random.choice(WARPS)
        shape, source = _side(cases, families, gpu.lanes, warps)
        _, destination = _side(cases, families, gpu.lanes, warps, shape)
        start = f"tensor<{'x'.join(map(str, shape))}x{cases.random.choice(ELEMENTS)}, "
        yield warps, f"{start}{source}>", f"{start}{destination}>"


def _side(
    cases: Cases, families: Sequence[str], lanes: int, warps: int, shape: Shape | None = None
) -> tuple[Shape, str]:
    """A shape (that one if it is given), and a random encoding with which one CTA of so many threads holds a
    tensor of it in few registers."""
    while True:
        case = cases.families[cases.random.choice(families)]()
        if shape is not None and len(case.shape) != len(shape):
            continue
        of = shape or case.shape
        text = cases.oracle.text(case.attribute, of)
        size = encodings.held_layout_of(text, of).in_dim_size
        if (size(LANE), size(WARP), size(BLOCK)) == (lanes, warps, 1) and size(REGISTER) <= MOST_REGISTERS:
            return of, text


def examples(target: str, part: int, parts: int) -> Findings:
    """Check the examples with index `part` modulo `parts`: modules come back unchanged from upstream MLIR, and
    the emitted code is right in the interpreter."""
    findings = Findings()
    for spec in specs(gpu_target(target))[part::parts]:
        findings.compare(f"module for {target}", spec.name, partial(_bridge_difference, spec, target))
        findings.compare(f"kernel for {target}", spec.name, partial(_code_difference, spec, target))
    return findings


def _module(spec: KernelSpec, target: str) -> Any:
    return ttgir_of(spec.source(), gpu_target(target), spec.options)


def _bridge_difference(spec: KernelSpec, target: str) -> str | None:
    module = _module(spec, target)
    before = str(module)
    upstream = bridge.to_upstream(module, bridge.upstream_context())
    return first_difference(before, str(bridge.to_triton(upstream, bridge.triton_context())))


def _code_difference(spec: KernelSpec, target: str) -> str | None:
    text, last = str(_module(spec, target)), code_stages(target)[0]
    checked = check(compile_text(text, f"{spec.name}.ttgir", target, last))
    return next((str(one) for one in checked if not one.ok), None)


def first_difference(before: str, after: str) -> str | None:
    """The first line that differs; None if the texts are equal.

    >>> first_difference("a\\nb", "a\\nc")
    "line 2 is 'c', it was 'b'"
    """
    if before == after:
        return None
    lines, others = before.splitlines(), after.splitlines()
    for number, (line, other) in enumerate(zip(lines, others, strict=False), 1):
        if line != other:
            return f"line {number} is '{other.strip()}', it was '{line.strip()}'"
    return f"{len(others)} lines come back of {len(lines)}"
