"""Random conversions, each compiled in a kernel of its own and run in the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP
from triton_linear.lowering.target.targets import Target, target
from triton_linear.passes.framework.plans import STOCK
from triton_linear.tools.doctor.encodings import Cases, Oracle, Shape
from triton_linear.tools.doctor.probe import Difference, Findings
from triton_linear.tools.support.backend import lower
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
    """A shape, that one if it is given, and a random encoding with which one CTA of so many threads holds a
    tensor of it in few registers.
    """
    while True:
        case = cases.families[cases.random.choice(families)]()
        if shape is not None and len(case.shape) != len(shape):
            continue
        of = shape or case.shape
        text = cases.oracle.text(case.attribute, of)
        size = encodings.held_layout_of(text, of).in_dim_size
        if (size(LANE), size(WARP), size(BLOCK)) == (lanes, warps, 1) and size(REGISTER) <= MOST_REGISTERS:
            return of, text
