"""Random conversions, each compiled in a kernel of its own and run in the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.interpreter.verify import verify_kernel
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target, target
from triton_linear.tools.doctor.encoding_cases import Case, Cases, Shape
from triton_linear.tools.doctor.oracle import Oracle
from triton_linear.tools.doctor.probe import Difference, Findings
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.functions import LOWERING, lower_kernel
from triton_linear.tools.verify.stock import kernel_text
from triton_linear.tools.verify.words import findings as in_words

ELEMENTS = ("i8", "f16", "bf16", "i32", "f32", "i64")
MOST_REGISTERS, MOST_WARPS = 64, 8
ANY_GPU = ("blocked", "slice", "linear")
MATRICES = {"cuda": ("mma v2", "mma v3", "dot of mma v2"), "hip:gfx9": ("mfma", "dot of mfma")}
"""The families of encodings that are drawn, for all GPUs and for those whose names begin so."""


@dataclass(frozen=True)
class Side:
    """A layout of registers for a number of lanes and warps."""

    encoding: str
    shape: Shape
    layout: LinearLayout

    def fits(self, lanes: int, warps: int) -> bool:
        """Whether a CTA of so many threads holds the tensor, with few registers."""
        size = self.layout.in_dim_size
        return (size(LANE), size(WARP), size(BLOCK)) == (lanes, warps, 1) and size(REGISTER) <= MOST_REGISTERS


def run(target_name: str, count: int, seed: int) -> Findings:
    """Run `count` random conversions for a GPU. Those that stock Triton cannot compile are drawn again."""
    findings, gpu, kind = Findings(), target(target_name), f"conversion for {target_name}"
    cases, tries = drawn(gpu, seed), 4 * count
    while findings.cases < count and tries:
        tries -= 1
        source, destination, element, warps = next(cases)
        types = [tensor_type(side, element) for side in (source, destination)]
        text = kernel_text(types[0], types[1], warps, gpu.lanes, gpu.name)
        if not is_compiled(text, gpu):
            continue
        sides = source.layout, destination.layout

        def difference(
            text: str = text,
            sides: tuple[LinearLayout, LinearLayout] = sides,
            element: str = element,
            warps: int = warps,
        ) -> str | None:
            kernel = lower_kernel(text, "conversion.ttgir", gpu.name, LOWERING)
            verdict = verify_kernel(
                kernel.text, "conversion", "result", *sides, element_type(element), gpu, warps
            )
            return None if verdict.ok else in_words(verdict)

        findings.compare(kind, f"{warps} warps: {types[0]} -> {types[1]}", difference)
    if findings.cases < count:
        findings.differences.append(Difference(kind, f"seed {seed}", "stock Triton refuses most"))
    return findings


def tensor_type(side: Side, element: str) -> str:
    """The type of a tensor in TTGIR."""
    return f"tensor<{'x'.join(map(str, side.shape))}x{element}, {side.encoding}>"


def is_compiled(text: str, gpu: Target) -> bool:
    """Whether stock Triton compiles a module."""
    try:
        lower_kernel(text, "conversion.ttgir", gpu.name, None)
    except ToolError:
        return False
    return True


def drawn(gpu: Target, seed: int) -> Iterator[tuple[Side, Side, str, int]]:
    """Random conversions: the two sides, which have a shape in common, the element type, and the number of
    warps."""
    cases = Cases(Oracle(), seed)
    families = list(ANY_GPU)
    for start, names in MATRICES.items():
        families += names if gpu.name.startswith(start) else ()
    while True:
        warps = 1 << cases.random.randrange(MOST_WARPS.bit_length())
        first = _side(cases, families, gpu.lanes, warps)
        second = _side(cases, families, gpu.lanes, warps, first.shape)
        yield first, second, cases.random.choice(ELEMENTS), warps


def _side(cases: Cases, families: list[str], lanes: int, warps: int, shape: Shape | None = None) -> Side:
    """A random layout for so many threads, of a tensor of this shape if one is given."""
    while True:
        case: Case = cases.families[cases.random.choice(families)]()
        if shape is not None and len(case.shape) != len(shape):
            continue
        of = case.shape if shape is None else shape
        text = cases.oracle.text(case.attribute, of)
        side = Side(text, of, encodings.held_layout_of(text, of))
        if side.fits(lanes, warps):
            return side
