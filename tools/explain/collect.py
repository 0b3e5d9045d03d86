"""Collect the report about a module: its conversions with their anchors, lowerings and costs; accesses to
shared and tensor memory; reductions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, Operation, Type, operations
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.explain.accesses import accesses, reductions
from triton_linear.tools.explain.advice import advice
from triton_linear.tools.explain.anchors import Uses, loop_depth, name_of
from triton_linear.tools.explain.records import (
    ConversionReport,
    ModuleReport,
    Place,
    SharedMemory,
    StockReport,
)
from triton_linear.tools.explain.stock_side import figures_of, stock_peaks, stock_reports
from triton_linear.tools.explain.words import in_words
from triton_linear.tools.support.compile import (
    DEFAULTS,
    Compilation,
    compile_text,
    kernel_modules,
    kernels,
    read_module,
    reporting_invalid_input,
    set_target,
)
from triton_linear.tools.support.errors import Diagnostic
from triton_linear.tools.verify.command import Checked, check, check_gathers, run_stubs
from triton_linear.tools.verify.tensor_memory import check_accesses
from triton_linear.tools.verify.words import count, short_type


@dataclass(frozen=True)
class _Stock:
    """The results of stock Triton; empty unless requested."""

    conversions: Mapping[tuple[str, str], StockReport]
    peaks: Sequence[int | None]


def explained(
    text: str,
    filename: str,
    target_name: str | None,
    *,
    stock: bool = False,
    options: PipelineOptions = DEFAULTS,
) -> ModuleReport:
    """Compile a module as the plugin does, run each conversion, access to shared memory and reduction, and
    find why they exist.

    `stock`: also run what stock Triton emits for each conversion, in a child process each. Raises ToolError.
    """
    with reporting_invalid_input(text, filename):
        return explained_module(text, filename, target_name, stock, options)[0]


def explained_module(
    text: str, filename: str, target_name: str | None, stock: bool, options: PipelineOptions
) -> tuple[ModuleReport, Compilation]:
    """The report on a module, and the compilation that it is about."""
    compilation = compile_text(text, filename, target_name, "llvm", options)
    verdicts = run_stubs(compilation)
    checked = check(compilation, verdicts)
    given = read_module(text, bridge.upstream_context(), filename)
    set_target(given, compilation.target.name)
    side = _stock(given, compilation) if stock else _Stock({}, [None] * len(compilation.kernels))
    before = _conversions(given)
    ops = operations(compilation.module.operation)
    lowered = compilation.options is not None and compilation.options.lower
    left = [op for op in ops if name_of(op) == CONVERT and (not lowered or _is_decided(op))]
    if len(left) != len(checked):
        raise AssertionError(f"{len(left)} conversions are left, {len(checked)} were lowered")
    uses, table, plans = Uses(ops), LayoutTable(), _plans(ops)
    reports = [
        _report(op, one, uses, table, plans.get(one.conversion.stub or ""), side)
        for op, one in zip(left, checked, strict=True)
    ]
    reports.sort(key=lambda report: report.weight, reverse=True)
    own = sum(not one.conversion.made for one in checked)
    report = ModuleReport(
        filename,
        compilation.target.name,
        compilation.num_warps,
        tuple(kernels(given)),
        tuple(reports),
        before - compilation.avoided - own,
        compilation.avoided,
        sum(one.conversion.made for one in checked),
        accesses(ops, compilation.target),
        reductions(operations(given.operation)),
        _shared_memory(given, compilation, side),
        _assignment(compilation, before),
        tuple(map(str, check_gathers(compilation, verdicts))),
        tuple(map(str, check_accesses(ops, compilation.target, compilation.num_warps))),
    )
    return report, compilation


def _is_decided(op: Operation) -> bool:
    """Whether an operation is the call of a stub, or a conversion with a recorded decision."""
    return op.name == "tt.call" or ll.PLAN in op.attributes or ll.STOCK in op.attributes


def _plans(ops: Sequence[Operation]) -> dict[str, ll.PlanRecord]:
    """The plan records of the stubs of conversions, by symbol."""
    return {
        op.attributes["sym_name"].value: ll.plan_from_attribute(op.attributes[ll.PLAN])
        for op in ops
        if op.name == "tt.func" and ll.PLAN in op.attributes
    }


def _stock(module: Module, compilation: Compilation) -> _Stock:
    target = compilation.target.name
    conversions = compilation.conversions
    texts = [bridge.triton_text(kernel) for kernel in kernel_modules(module)]
    return _Stock(stock_reports(conversions, compilation.num_warps, target), stock_peaks(texts, target))


def _shared_memory(given: Module, compilation: Compilation, side: _Stock) -> tuple[SharedMemory, ...]:
    both = zip(kernels(given), compilation.kernels, side.peaks, strict=True)
    return tuple(
        SharedMemory(name, kernel.lowered.metadata.get("shared") or 0, peak) for name, kernel, peak in both
    )


def _report(
    op: Operation,
    checked: Checked,
    uses: Uses,
    table: LayoutTable,
    record: ll.PlanRecord | None,
    side: _Stock,
) -> ConversionReport:
    types = op.operands[0].type, op.results[0].type
    source, destination = (
        layout if isinstance(layout, LinearLayout) else None for layout in map(table.of, types)
    )
    words = ("", "")
    if source is not None and destination is not None:
        bits = _bits_of(types[0])
        words = in_words(source, bits), in_words(destination, bits)
    if record is None and ll.PLAN in op.attributes:
        record = ll.plan_from_attribute(op.attributes[ll.PLAN])
    figures = dict(record.figures) if record is not None else {}
    before, after = uses.source(op), uses.destination(op)
    converted = checked.conversion
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
        record.rejected if record is not None else (),
        round(figures.get("clocks", 0.0), 2),
        round(figures.get("latency", 0.0), 2),
        int(figures.get("scratch_bytes", 0)),
        figures_of(checked.verdict) if checked.verdict is not None else None,
        side.conversions.get((converted.source, converted.destination)),
        advice(converted.kind, before, after, source, destination),
    )


def _bits_of(type_: Type) -> int:
    try:
        return element_of(type_).bits
    except ValueError:
        return 0


_ASSIGNED = re.compile(r"layouts (of partition \d+ )?are assigned")
_AHEAD = re.compile(r"\d+ loads? of the loop")


def _assignment(compilation: Compilation, before: int) -> tuple[str, ...]:
    """The effects of layout assignment, and what loads of loops begin earlier, with source lines, from the
    remarks of the passes; empty if there are none.
    """
    lines, ahead = [], []
    for remark in compilation.remarks:
        if remark.message.startswith(("layouts ", "the contraction")):
            lines.append(remark.message.partition(" (a clock outside")[0])
        if _ASSIGNED.match(remark.message):
            lines += [f"  {_line(note)}{note.message}" for note in remark.notes]
        if _AHEAD.match(remark.message):
            ahead.append(f"{_line(remark)}{remark.message}")
    if not lines:
        return tuple(ahead)
    made = sum(one.made for one in compilation.conversions)
    head = f"{count(before, 'conversion')} before layouts were chosen"
    return (f"{head}: {compilation.avoided} avoided; {made} made by our passes", *lines, *ahead)


def _line(note: Diagnostic) -> str:
    return f"{Path(note.file).name}:{note.line}: " if note.line else ""


def _conversions(module: Module) -> int:
    return sum(op.name == CONVERT for op in operations(module.operation))
