"""Everything that is said of a module: its conversions, what forces them, how they are lowered and what that
costs; accesses to shared memory; reductions; who holds shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.plan import Cost
from triton_linear.lowering.select import select
from triton_linear.lowering.targets import Target
from triton_linear.passes import driver
from triton_linear.passes.fold import FoldConversions
from triton_linear.passes.gather import LowerGathers
from triton_linear.passes.layouts import LayoutTable, element_of
from triton_linear.passes.local import LowerLocal
from triton_linear.passes.registry import Pass
from triton_linear.passes.verifiers import CONVERT
from triton_linear.tools.compile import (
    Compilation,
    blaming_the_input,
    compile_text,
    kernels,
    one_by_one,
    read_module,
    set_target,
)
from triton_linear.tools.errors import ToolError
from triton_linear.tools.explain.accesses import Surroundings, accesses, copied_at_once, reductions
from triton_linear.tools.explain.advice import advice
from triton_linear.tools.explain.anchors import Uses, loop_depth
from triton_linear.tools.explain.ledger import ledger
from triton_linear.tools.explain.records import ConversionReport, Ledger, ModuleReport, Place, StockReport
from triton_linear.tools.explain.stock_side import figures_of, stock_peaks, stock_reports
from triton_linear.tools.explain.words import in_words
from triton_linear.tools.verify import Checked, check, check_gathers, short_encoding, short_type


@dataclass(frozen=True)
class _Stock:
    """What is known of stock Triton's side; nothing where nobody asked."""

    conversions: Mapping[tuple[str, str], StockReport]
    peaks: Sequence[int | None]


def explained(text: str, filename: str, target_name: str | None, *, stock: bool = False) -> ModuleReport:
    """Compile a module as the plugin would without choosing layouts anew, run each conversion, each access to
    shared memory and each reduction, and look at why they are there.

    `stock` asks for what stock Triton emits too, which takes a process for each different conversion.
    Raises ToolError.
    """
    with blaming_the_input(text, filename):
        return _explained(text, filename, target_name, stock)


def _explained(text: str, filename: str, target_name: str | None, stock: bool) -> ModuleReport:
    compilation = compile_text(text, filename, target_name, "llvm")
    checked = check(compilation)
    context = bridge.upstream_context()
    module = read_module(text, context, filename)
    set_target(module, compilation.target.name)
    side = _stock(module, compilation) if stock else _Stock({}, [None] * len(compilation.kernels))
    before = _conversions(module)
    names = tuple(kernels(module))
    passes: list[Pass | str] = [LowerLocal(compilation.target.name), LowerGathers(), FoldConversions()]
    if not driver.run(module, passes, remarks=False).succeeded:
        raise ToolError()
    ops = operations(module.operation)
    before += sum(ll.DETOUR in op.attributes for op in ops)
    left = [op for op in ops if op.name == CONVERT]
    if len(left) != len(checked):
        raise AssertionError(f"{len(left)} conversions are left, {len(checked)} were lowered")
    uses, table = Uses(ops), LayoutTable()
    reports = [_report(op, one, uses, table, compilation, side) for op, one in zip(left, checked, strict=True)]
    reports.sort(key=lambda report: report.weight, reverse=True)
    around = _surroundings(module, compilation)
    return ModuleReport(
        filename,
        compilation.target.name,
        compilation.num_warps,
        names,
        tuple(reports),
        before - len(left),
        accesses(ops, around),
        reductions(ops, around),
        _ledgers(compilation, side),
        _assignment(text, filename, compilation.target),
        tuple(map(str, check_gathers(compilation))),
    )


def _stock(module: Module, compilation: Compilation) -> _Stock:
    target = compilation.target.name
    conversions = [site.converted for site in compilation.sites]
    texts = [bridge.triton_text(kernel) for kernel in one_by_one(module)]
    return _Stock(stock_reports(conversions, compilation.num_warps, target), stock_peaks(texts, target))


def _surroundings(module: Module, compilation: Compilation) -> Surroundings:
    copied: dict[tuple[str, int, int], int] = {}
    for kernel in compilation.kernels:
        copied |= copied_at_once(kernel.lowered.text("llvm"))
    return Surroundings(module, compilation.target, compilation.num_warps, copied)


def _ledgers(compilation: Compilation, side: _Stock) -> tuple[Ledger, ...]:
    target = compilation.target.name
    stubs = {
        site.stub: f"{short_type(site.converted.source)} -> {short_encoding(site.converted.destination)}"
        for site in compilation.sites
        if site.stub is not None
    }
    return tuple(
        ledger(kernel.embedded, target, stubs, peak)
        for kernel, peak in zip(compilation.kernels, side.peaks, strict=True)
    )


def _report(
    op: Operation, checked: Checked, uses: Uses, table: LayoutTable, compilation: Compilation, side: _Stock
) -> ConversionReport:
    types = op.operands[0].type, op.results[0].type
    source, destination = (
        layout if isinstance(layout, LinearLayout) else None for layout in map(table.of, types)
    )
    cost, words = Cost(), ("", "")
    rejected: tuple[str, ...] = ()
    if source is not None and destination is not None:
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
        Place.near(converted.location, before, after),
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
        figures_of(checked.verdict) if checked.verdict is not None else None,
        side.conversions.get((converted.source, converted.destination)),
        advice(converted.kind, before, after, source, destination),
    )


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
