"""Everything that is said of a module: its conversions, what forces them, how they are lowered and what that
costs; accesses to shared memory; reductions."""

from __future__ import annotations

import linecache
from dataclasses import asdict, dataclass, field
from typing import Any

from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.plan import Cost
from triton_linear.lowering.select import select
from triton_linear.lowering.targets import Target
from triton_linear.passes import driver
from triton_linear.passes.fold import FoldConversions
from triton_linear.passes.layouts import LayoutTable, element_of
from triton_linear.passes.verifiers import CONVERT
from triton_linear.tools.compile import Compilation, compile_text, kernels, read_module, set_target
from triton_linear.tools.errors import ToolError, position
from triton_linear.tools.explain.anchors import Anchor, Uses, loop_depth
from triton_linear.tools.explain.words import in_words
from triton_linear.tools.verify import Checked, check, short_type

_DOTS = ("tt.dot", "ttng.warp_group_dot", "tt.dot_scaled")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's source, as far as the location tells; line 0 where it does not."""

    file: str
    line: int
    column: int
    code: str = ""

    @classmethod
    def of(cls, location: str) -> Place:
        file, line, column = position(location)
        return cls(file, line, column, linecache.getline(file, line).strip() if line else "")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "an unknown place"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the code of a conversion does in one CTA: as counted by the interpreter, which ran it."""

    wavefronts: int
    minimum_wavefronts: int
    shuffles: int
    alu: int
    barriers: int
    warp_barriers: int
    bytes: int
    wrong: int
    races: int


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """One conversion. Modelled are `clocks`, a multiprocessor's for one warp, and `latency`, which a CTA alone
    waits."""

    place: Place
    loop_depth: int
    source: str
    destination: str
    source_words: str
    destination_words: str
    from_anchor: Anchor | None
    to_anchor: Anchor | None
    kind: str
    lowering: str
    rejected: tuple[str, ...]
    clocks: float
    latency: float
    scratch_bytes: int
    figures: Figures | None
    advice: str

    @property
    def weight(self) -> tuple[int, float]:
        """What reports are sorted by: loops around it, then its cost."""
        return self.loop_depth, self.clocks


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """A module, for one target."""

    file: str
    target: str
    num_warps: int
    kernels: tuple[str, ...]
    conversions: tuple[ConversionReport, ...]
    folded: int
    assignment: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The same as data; `schema.json` describes it."""
        return asdict(self)


def explained(text: str, filename: str, target_name: str | None) -> ModuleReport:
    """Compile a module as the plugin would without choosing layouts anew, run each conversion, and look at why
    it is there. Raises ToolError."""
    compilation = compile_text(text, filename, target_name, "llvm")
    checked = check(compilation)
    context = bridge.upstream_context()
    module = read_module(text, context, filename)
    set_target(module, compilation.target.name)
    ops = operations(module.operation)
    before = sum(op.name == CONVERT for op in ops)
    names = tuple(kernels(module))
    if not driver.run(module, [FoldConversions()], remarks=False).succeeded:
        raise ToolError()
    ops = operations(module.operation)
    left = [op for op in ops if op.name == CONVERT]
    if len(left) != len(checked):
        raise AssertionError(f"{len(left)} conversions are left, {len(checked)} were lowered")
    uses, table = Uses(ops), LayoutTable()
    reports = [_report(op, one, uses, table, compilation) for op, one in zip(left, checked, strict=True)]
    reports.sort(key=lambda report: report.weight, reverse=True)
    return ModuleReport(
        filename,
        compilation.target.name,
        compilation.num_warps,
        names,
        tuple(reports),
        before - len(left),
        _assignment(text, filename, compilation.target),
    )


def _report(
    op: Operation, checked: Checked, uses: Uses, table: LayoutTable, compilation: Compilation
) -> ConversionReport:
    types = op.operands[0].type, op.results[0].type
    source, destination = map(table.of, types)
    cost, words = Cost(), ("", "")
    rejected: tuple[str, ...] = ()
    if isinstance(source, LinearLayout) and isinstance(destination, LinearLayout):
        element: ElementType | None
        try:
            element = element_of(types[0])
        except ValueError:
            element = None
        bits = element.bits if element else 0
        words = in_words(source, bits), in_words(destination, bits)
        if element is not None:
            selection = select(source, destination, element, compilation.target)
            cost, rejected = selection.cost, tuple(map(str, selection.rejected))
    before, after = uses.source(op), uses.destination(op)
    converted = checked.site.converted
    return ConversionReport(
        Place.of(converted.location),
        loop_depth(op),
        short_type(converted.source),
        short_type(converted.destination),
        *words,
        before,
        after,
        converted.kind,
        checked.plan,
        rejected,
        round(cost.clocks, 2),
        round(cost.latency, 2),
        cost.scratch_bytes,
        _figures(checked),
        _advice(converted.kind, before, after),
    )


def _figures(checked: Checked) -> Figures | None:
    if checked.verdict is None:
        return None
    counts = checked.verdict.counts
    return Figures(
        counts.wavefronts,
        counts.minimum_wavefronts,
        counts.shuffles,
        counts.alu_operations,
        counts.cta_barriers,
        counts.warp_barriers,
        counts.bytes_stored + counts.bytes_loaded,
        checked.verdict.wrong,
        len(checked.verdict.races),
    )


def _advice(kind: str, before: Anchor | None, after: Anchor | None) -> str:
    """What in the source would make the conversion unnecessary; nothing where it costs nothing."""
    if kind in ("noop", "registers"):
        return ""
    names = (before.operation if before else "", after.operation if after else "")
    match names:
        case ("tt.load", "tt.store"):
            return (
                "load and store run along different dimensions of memory: one of both tensors stored transposed"
            )
        case ("tt.load", "tt.load"):
            return (
                "a loaded value leads to a load that is coalesced otherwise: one order of dimensions for both"
            )
        case ("tt.reduce", "tt.store"):
            return "a reduction leaves its result spread as its operand was: reduce over another dimension"
        case (source, "tt.store") if source in _DOTS:
            return (
                "an accumulator is stored by rows: a descriptor store (TMA) brings its own way through memory"
            )
        case (source, destination) if source in _DOTS and destination in _DOTS:
            return "an accumulator is an operand of another dot: in 16 bits it may be one as it lies"
        case ("tt.load", destination) if destination in _DOTS:
            return "an operand goes through registers: without arithmetic before the dot it need not"
    return ""


def _assignment(text: str, filename: str, target: Target) -> tuple[str, ...]:
    """What choosing layouts anew makes of the module, in its remarks; empty where it changes nothing."""
    from triton_linear.passes.assign import AssignLayouts
    from triton_linear.passes.contract import PermuteContraction

    context = bridge.upstream_context()
    module: Module = read_module(text, context, filename)
    set_target(module, target.name)
    before = _conversions(module)
    outcome = driver.run(module, [PermuteContraction(target.name), AssignLayouts(target.name)])
    if not outcome.succeeded:
        return ()
    said = [
        d.message.partition(" (a clock outside")[0]
        for d in outcome.diagnostics
        if d.message.startswith(("layouts ", "the contraction"))
    ]
    after = _conversions(module)
    return (f"with layouts chosen anew: {before} conversion{'s' * (before != 1)} before, {after} after", *said)


def _conversions(module: Module) -> int:
    return sum(op.name == CONVERT for op in operations(module.operation))
