"""Random conversions, each compiled in a kernel of its own and run in the interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.target.targets import Target, target
from triton_linear.passes.framework.plans import STOCK
from triton_linear.tools.doctor.encodings import Cases, Oracle, Shape
from triton_linear.tools.doctor.probe import Difference, Findings
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import LOWERING, compile_text, to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.verify.command import check
from triton_linear.tools.verify.stock import kernel_text

ELEMENTS = ("i8", "f16", "bf16", "i32", "f32", "i64")
WARPS = (1, 2, 4, 8)
MOST_REGISTERS = 64
ANY_GPU = ("blocked", "slice", "linear")
MATRICES = {"cuda": ("mma v2", "mma v3", "dot of mma v2"), "hip:gfx9": ("mfma", "dot of mfma")}
"""The families of encodings that are drawn, for all GPUs and for those whose names begin so."""


@dataclass(frozen=True)
class Side:
    """A tensor's shape, its encoding, and the layout of its registers."""

    shape: Shape
    encoding: str
    layout: LinearLayout

    def fits(self, lanes: int, warps: int) -> bool:
        """Whether one CTA of so many threads holds the tensor, with few registers."""
        size = self.layout.in_dim_size
        return (size(LANE), size(WARP), size(BLOCK)) == (lanes, warps, 1) and size(REGISTER) <= MOST_REGISTERS


@dataclass(frozen=True)
class Conversion:
    """A conversion of a tensor between two layouts."""

    gpu: Target
    warps: int
    element: str
    source: Side
    destination: Side

    @property
    def text(self) -> str:
        """A kernel with this conversion alone."""
        source, destination = self.types
        return kernel_text(source, destination, self.warps, self.gpu.lanes, self.gpu.name)

    @property
    def types(self) -> list[str]:
        """The types of the tensor before and after."""
        return [
            f"tensor<{'x'.join(map(str, side.shape))}x{self.element}, {side.encoding}>"
            for side in (self.source, self.destination)
        ]

    def __str__(self) -> str:
        return f"{self.warps} warps: {' -> '.join(self.types)}"

    def is_taken(self) -> bool:
        """Whether stock Triton compiles it."""
        try:
            lower(to_triton(self.text), self.gpu.name, "llvm")
        except ToolError:
            return False
        return True

    def difference(self) -> str | None:
        """What `verify` finds wrong in our code; None if nothing is."""
        checked = check(compile_text(self.text, "conversion.ttgir", self.gpu.name, "llvm", LOWERING))
        if not checked and self.source.layout != self.destination.layout:
            return "left to Triton"
        wrong = (str(one) for one in checked if not one.ok or one.of.kind == STOCK)
        return next(wrong, None)


def run(target_name: str, count: int, seed: int) -> Findings:
    """Run `count` random conversions for a GPU. Those that stock Triton cannot compile are drawn again."""
    findings, kind = Findings(), f"conversion for {target_name}"
    candidates = itertools.islice(drawn(target(target_name), seed), 4 * count)
    for conversion in itertools.islice(filter(Conversion.is_taken, candidates), count):
        findings.compare(kind, str(conversion), conversion.difference)
    if findings.cases < count:
        findings.differences.append(Difference(kind, f"seed {seed}", "stock Triton refuses most"))
    return findings


def drawn(gpu: Target, seed: int) -> Iterator[Conversion]:
    """Random conversions for a GPU."""
    cases, families = Cases(Oracle(), seed), list(ANY_GPU)
    for start, names in MATRICES.items():
        families += names if gpu.name.startswith(start) else ()
    while True:
        warps = cases.random.choice(WARPS)
        source = _side(cases, families, gpu.lanes, warps)
        destination = _side(cases, families, gpu.lanes, warps, source.shape)
        yield Conversion(gpu, warps, cases.random.choice(ELEMENTS), source, destination)


def _side(cases: Cases, families: Sequence[str], lanes: int, warps: int, shape: Shape | None = None) -> Side:
    """A random layout for so many threads, of a tensor of this shape if one is given."""
    while True:
        case = cases.families[cases.random.choice(families)]()
        if shape is not None and len(case.shape) != len(shape):
            continue
        of = shape or case.shape
        text = cases.oracle.text(case.attribute, of)
        side = Side(of, text, encodings.held_layout_of(text, of))
        if side.fits(lanes, warps):
            return side
