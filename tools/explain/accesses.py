"""Report accesses to shared memory, reductions and scans: their places, layouts and costs, which follow from
the layouts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_linear.dialect import encodings, f2
from triton_linear.dialect.linear_layout import WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, Type, Value
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.shared_memory import LocalAccess, is_access, sides_of
from triton_linear.passes.framework.layouts import LayoutTable, element_of, memory_of
from triton_linear.passes.operations.names import COPY
from triton_linear.tools.explain.anchors import loop_depth, sort_of
from triton_linear.tools.explain.records import AccessFigures, AccessReport, Place, ReductionReport
from triton_linear.tools.support.words import count, in_words, short_type

REDUCTIONS = ("tt.reduce", "tt.scan")
_PADDED = "#ttg.padded_shared"


def accesses(ops: Sequence[Operation], target: Target) -> tuple[AccessReport, ...]:
    """All accesses, sorted by loop depth and then by cost, in descending order."""
    table = LayoutTable()
    reports = [_access(op, table, target) for op in ops if is_access(op)]
    return tuple(sorted(reports, key=lambda report: report.weight, reverse=True))


def _access(op: Operation, table: LayoutTable, target: Target) -> AccessReport:
    registers, memory = sides_of(op)
    figures = _figures(op, registers, memory, table, target)
    return AccessReport(
        Place.of(str(op.location)),
        loop_depth(op),
        op.name,
        short_type(str(registers.type)),
        type_in_words(registers.type, table, memory.type),
        short_type(str(memory.type)),
        memory_in_words(memory.type),
        figures if isinstance(figures, AccessFigures) else None,
        figures if isinstance(figures, str) else "",
    )


def _figures(
    op: Operation, registers: Value, memory: Value, table: LayoutTable, target: Target
) -> AccessFigures | str:
    """The figures of an access, by the model that layouts are chosen by; or the reason why it has none."""
    layouts, described = table.both(registers.type, memory.type), memory_of(memory.type)
    if isinstance(layouts, str) or described is None:
        return "its types have no layouts"
    layout, placed = layouts
    shape, element, encoding = described
    if op.name == COPY:
        return "how much a copy moves at once depends on its addresses"
    if encoding.startswith(_PADDED):
        return "memory with padding is no linear layout"
    size = max(1, element_type(element).bits // 8)
    local = LocalAccess.of(placed, shape, size, op.name != "ttg.local_load")
    if local is None:
        return "offsets in memory are no linear function of the tensor's coordinates"
    warps = layout.in_dim_size(WARP)
    return AccessFigures(
        local.wavefronts(layout, target) * warps,
        local.fewest_of(layout, target) * warps,
        local.bytes_at_once(layout),
    )


def bits_of(type_: Type) -> int:
    """The width of the elements of a tensor or of a buffer; 0 if it is not known."""
    described = memory_of(type_)
    try:
        return element_type(described[1]).bits if described is not None else element_of(type_).bits
    except ValueError:
        return 0


def type_in_words(type_: Type, table: LayoutTable, element: Type | None = None) -> str:
    """The layout of a tensor's type in words, empty if it is not known. element: for tensors of pointers."""
    layout = table.of(type_)
    return in_words(layout, bits_of(element or type_)) if isinstance(layout, LinearLayout) else ""


def reductions(ops: Sequence[Operation]) -> tuple[ReductionReport, ...]:
    """All reductions, scans and sorts, the innermost first. Triton's library makes a sort of many reductions,
    which are one report."""
    table = LayoutTable()
    found: dict[object, ReductionReport] = {}
    for number, op in enumerate(ops):
        if op.name not in REDUCTIONS:
            continue
        report = _reduction(op, table)
        place = replace(report.place, code="")
        key = (place, report.loop_depth, report.operation) if report.steps else number
        if key in found:
            report = replace(found[key], steps=found[key].steps + 1)
        found[key] = report
    return tuple(sorted(found.values(), key=lambda report: report.loop_depth, reverse=True))


def _reduction(op: Operation, table: LayoutTable) -> ReductionReport:
    type_, axis = op.operands[0].type, op.attributes["axis"].value
    layout, sort = table.of(type_), sort_of(str(op.location))
    return ReductionReport(
        Place.of(str(op.location)),
        loop_depth(op),
        sort or op.name,
        axis,
        short_type(str(type_)),
        type_in_words(type_, table),
        spread(layout, axis) if isinstance(layout, LinearLayout) else {},
        int(bool(sort)),
    )


def spread(layout: LinearLayout, axis: int) -> dict[str, int]:
    """For each in-dim, the number of coordinates along dimension `axis` that its bits reach.

    >>> from triton_linear.dialect.encodings import layout_of
    >>> text = "sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]"
    >>> spread(layout_of(f"#ttg.blocked<{{{text}}}>", (64, 64)), 1)
    {'register': 16, 'lane': 4, 'warp': 1, 'block': 1}
    """
    return {name: 1 << f2.rank([vector[axis] for vector in vectors]) for name, vectors in layout.bases}


def memory_in_words(type_: Type) -> str:
    """The layout of a buffer in words; empty if there is no simple description."""
    described = memory_of(type_)
    if described is None:
        return ""
    rank, size = len(described[0]), max(1, bits_of(type_) // 8)
    try:
        layout = encodings.parse(described[2])
    except ValueError:
        return ""
    match layout:
        case encodings.PaddedShared():
            return ", ".join(
                f"{_run(p.amount, size)} of padding behind every {p.interval}" for p in layout.paddings
            )
        case encodings.NvmmaShared():
            inner = rank - 2 if layout.transposed and rank > 1 else rank - 1
            width = layout.swizzle_bytes
            how = f"16-byte pieces swizzled within {width} bytes" if width else "not swizzled"
        case encodings.AmdRotatingShared() | encodings.SwizzledShared():
            inner = rank - len(layout.order) + layout.order[0]
            how = f"runs of {_run(layout.vec, size)} "
            if isinstance(layout, encodings.AmdRotatingShared):
                how += "rotated"
            else:
                how = (
                    f"{how}swizzled over {layout.max_phase} phases" if layout.max_phase > 1 else "not swizzled"
                )
        case _:
            return ""
    return f"contiguous along dim{inner}, {how}"


def _run(elements: int, size: int) -> str:
    return f"{count(elements, 'element')} ({elements * size} bytes)"
