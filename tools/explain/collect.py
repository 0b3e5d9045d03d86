"""Collect the report about a module: its conversions with their anchors, lowerings and costs; accesses to
shared memory; reductions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.plans import STOCK
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.explain.accesses import accesses, reductions, type_in_words
from triton_linear.tools.explain.anchors import Uses, advice, loop_depth, name_of
from triton_linear.tools.explain.records import ConversionReport, ModuleReport, Place, SharedMemory
from triton_linear.tools.explain.verdict import Figure, expected
from triton_linear.tools.support.compile import (
    DEFAULTS,
    Compilation,
    compile_text,
    kernels,
    read_module,
    reporting_invalid_input,
    set_target,
)
from triton_linear.tools.support.errors import Diagnostic
from triton_linear.tools.support.words import Figures, count, short_type
from triton_linear.tools.verify import stock
from triton_linear.tools.verify.command import Checked, check

AS_IT_IS = PipelineOptions(assign=False, reductions=False, lower=False)
"""The options of the passes for a kernel of stock Triton: they change nothing."""
_WORKERS = 4


def explained(
    text: str,
    filename: str,
    target_name: str | None,
    *,
    stock: bool = False,
    options: PipelineOptions = DEFAULTS,
) -> ModuleReport:
    """Compile a module as the plugin does, run each conversion, access to shared memory and reduction, find why
    they exist, and what is expected of it all.

    `stock`: also compile the module by stock Triton, and run what it emits for its conversions.

    Raises ToolError.
    """
    with reporting_invalid_input(text, filename):
        report, compilation = explained_module(text, filename, target_name, options)
        if stock:
            other, _ = explained_module(text, filename, target_name, AS_IT_IS)
            both = zip(report.shared_memory, other.shared_memory, strict=True)
            peaks = [replace(ours, stock=one.bytes) for ours, one in both]
            report = replace(report, stock=other.conversions, shared_memory=tuple(peaks))
    return replace(report, verdict=expected([*_clocks(compilation), *_counts(report)]))


def explained_module(
    text: str, filename: str, target_name: str | None, options: PipelineOptions
) -> tuple[ModuleReport, Compilation]:
    """The report on a module, and its compilation. What is left to Triton is run as Triton emits it."""
    compilation = compile_text(text, filename, target_name, "llvm", options)
    checked = check(compilation)
    given = read_module(text, bridge.upstream_context(), filename)
    set_target(given, compilation.target.name)
    before = _conversions(given)
    ops = operations(compilation.module.operation)
    lowered = compilation.options is not None and compilation.options.lower
    remaining = [op for op in ops if name_of(op) == CONVERT and (not lowered or _is_decided(op))]
    if len(remaining) != len(checked):
        raise AssertionError(f"{len(remaining)} conversions are left, {len(checked)} were lowered")
    uses, table, plans = Uses(ops), LayoutTable(), _plans(ops)
    left = _left_to_triton(checked, compilation)
    reports = [
        _report(op, one, uses, table, plans.get(one.of.stub or ""), left)
        for op, one in zip(remaining, checked, strict=True)
    ]
    reports.sort(key=lambda report: report.weight, reverse=True)
    own = sum(not one.of.made for one in checked)
    names = kernels(given)
    report = ModuleReport(
        filename,
        compilation.target.name,
        compilation.num_warps,
        tuple(names),
        tuple(reports),
        before - compilation.avoided - own,
        compilation.avoided,
        sum(one.of.made for one in checked),
        accesses(ops, compilation.target),
        reductions(operations(given.operation)),
        tuple(
            SharedMemory(name, kernel.lowered.metadata.get("shared") or 0, None)
            for name, kernel in zip(names, compilation.kernels, strict=True)
        ),
        _assignment(compilation, before),
    )
    return report, compilation


def _left_to_triton(
    checked: Sequence[Checked], compilation: Compilation
) -> Mapping[tuple[str, str], stock.Finding]:
    """What running Triton's own code found for the conversions that are left to it, by their two types."""
    types = [(one.of.source, one.of.destination) for one in checked if _is_left(one)]
    distinct = list(dict.fromkeys(types))
    work = [(*one, compilation.num_warps, compilation.target.name) for one in distinct]
    found = stock.check_conversions(work, workers=min(_WORKERS, os.cpu_count() or 1)) if work else []
    return dict(zip(distinct, found, strict=True))


def _is_left(one: Checked) -> bool:
    return one.verdict is None and one.of.kind == STOCK


def _clocks(compilation: Compilation) -> Iterator[Figure]:
    """The modelled clocks of the kernel with stock Triton's layouts, and with those that are chosen."""
    for remark in compilation.remarks:
        if _ASSIGNED.match(remark.message):
            found = [float(number) for number in re.findall(r"(\d+\.\d) (?:before|after)", remark.message)]
            if len(found) == 4:
                yield Figure("modelled clocks", found[0] + found[2], found[1] + found[3])


def _counts(report: ModuleReport) -> Iterator[Figure]:
    """What was counted for the conversions of both sides; none if stock Triton's are not known."""
    if report.stock is None:
        return
    for where in ("in loops", "outside of loops"):
        sides = [
            [one.figures for one in side if (one.loop_depth > 0) == (where == "in loops") and one.moves]
            for side in (report.stock, report.conversions)
        ]
        if None in sides[0] or None in sides[1]:
            continue
        for name in ("wavefronts", "shuffles", "barriers", "alu"):
            yield Figure(f"{name} {where}", *(sum(getattr(one, name) for one in side) for side in sides))


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


def _report(
    op: Operation,
    checked: Checked,
    uses: Uses,
    table: LayoutTable,
    record: ll.PlanRecord | None,
    left: Mapping[tuple[str, str], stock.Finding],
) -> ConversionReport:
    values = op.operands[0].type, op.results[0].type
    source, destination = (
        layout if isinstance(layout, LinearLayout) else None for layout in map(table.of, values)
    )
    if record is None and ll.PLAN in op.attributes:
        record = ll.plan_from_attribute(op.attributes[ll.PLAN])
    figures = dict(record.figures) if record is not None else {}
    before, after = uses.source(op), uses.destination(op)
    converted = checked.of
    types = converted.source, converted.destination
    finding = left.get(types) if _is_left(checked) else None
    verdict = checked.verdict if finding is None else finding.verdict
    wrong = finding is not None and finding.status != stock.RIGHT
    return ConversionReport(
        Place.near(converted.location, before, after),
        loop_depth(op),
        short_type(types[0]),
        short_type(types[1]),
        types,
        type_in_words(values[0], table),
        type_in_words(values[1], table),
        before,
        after,
        converted.kind,
        checked.plan,
        record.rejected if record is not None else (),
        round(figures.get("clocks", 0.0), 2),
        round(figures.get("latency", 0.0), 2),
        int(figures.get("scratch_bytes", 0)),
        Figures.of(verdict) if verdict is not None else None,
        f"{finding.status}: {finding.detail}".rstrip(": ") if finding is not None and wrong else "",
        advice(converted.kind, before, after, source, destination),
    )


_ASSIGNED = re.compile(r"layouts (of partition \d+ )?are assigned")
_AHEAD = re.compile(r"\d+ loads? of the loop")


def _assignment(compilation: Compilation, before: int) -> tuple[str, ...]:
    """The effects of layout assignment, and which loads of loops begin earlier, from remarks of the passes."""
    lines, ahead = [], []
    for remark in compilation.remarks:
        if remark.message.startswith("layouts "):
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
