"""Report accesses to shared memory, reductions and scans: their places, layouts and costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triton_linear.dialect import f2, ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.locations import position
from triton_linear.dialect.mlir_adapter import Module, Operation, Type, Value, producers_of
from triton_linear.lowering.interpreter.counts import Counts
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.framework.layouts import LayoutTable, element_of, memory_of
from triton_linear.tools.explain.anchors import loop_depth
from triton_linear.tools.explain.library import sort_of
from triton_linear.tools.explain.memory import memory_in_words, short_memory, views_of
from triton_linear.tools.explain.records import (
    AccessFigures,
    AccessReport,
    Place,
    ReductionFigures,
    ReductionReport,
)
from triton_linear.tools.explain.single_operation import (
    CannotIsolate,
    Counted,
    SingleOperation,
    count,
    isolate_access,
    isolate_reduction,
    split_reduction,
)
from triton_linear.tools.explain.sorts import merge_sorts
from triton_linear.tools.explain.words import in_words
from triton_linear.tools.verify.words import short_type

COPY = "ttg.async_copy_global_to_local"
# For each operation, the numbers of the operands in registers and in shared memory; None stands for the result.
_ACCESSES = {"ttg.local_load": (None, 0), "ttg.local_store": (0, 1), COPY: (0, 1), "ttg.local_alloc": (0, None)}
REDUCTIONS = ("tt.reduce", "tt.scan")


@dataclass(frozen=True)
class Surroundings:
    """The module, its target and number of warps, and for each asynchronous copy, by place, its width in
    bytes.
    """

    module: Module
    target: Target
    num_warps: int
    copied: Mapping[tuple[str, int, int], int]

    def run(self, kernel: SingleOperation) -> Counted | str:
        """The counts of an isolated operation, or the reason why it cannot be run."""
        return count(kernel, self.target, self.num_warps)


def is_access(op: Operation) -> bool:
    """Whether an operation moves a tensor to or from shared memory."""
    return op.name in _ACCESSES and (op.name != "ttg.local_alloc" or len(op.operands) > 0)


def accesses(ops: Sequence[Operation], around: Surroundings) -> tuple[AccessReport, ...]:
    """All accesses, sorted by loop depth and then by cost, in descending order."""
    producers, table = producers_of(ops), LayoutTable()
    reports = [_access(op, producers, table, around) for op in ops if is_access(op)]
    return tuple(sorted(reports, key=lambda report: report.weight, reverse=True))


def _access(
    op: Operation, producers: Mapping[Value, Operation], table: LayoutTable, around: Surroundings
) -> AccessReport:
    registers, memory = (
        op.results[0] if number is None else op.operands[number] for number in _ACCESSES[op.name]
    )
    _, buffer = views_of(memory, producers)
    allocation = producers.get(buffer)
    counted: Counted | str
    try:
        width = around.copied.get(position(str(op.location)), 0)
        counted = around.run(isolate_access(op, producers, around.module, width))
    except CannotIsolate as error:
        counted = str(error)
    return AccessReport(
        Place.of(str(op.location)),
        loop_depth(op),
        op.name,
        short_type(str(registers.type)),
        _words(registers.type, table, memory.type),
        short_memory(memory.type),
        memory_in_words(memory.type),
        Place.of(str(allocation.location) if allocation is not None else ""),
        op.attributes[ll.STAGED].value if ll.STAGED in op.attributes else "",
        _access_figures(counted.counts) if isinstance(counted, Counted) else None,
        "" if isinstance(counted, Counted) else counted,
    )


def _access_figures(counts: Counts) -> AccessFigures:
    widths = sorted({access.width for access in counts.accesses}, reverse=True)
    moved = counts.bytes_stored + counts.bytes_loaded
    return AccessFigures(counts.wavefronts, counts.minimum_wavefronts, moved, tuple(widths))


def _words(type_: Type, table: LayoutTable, memory: Type | None = None) -> str:
    """A layout in words. The element type is that of `memory` if given, since copies have tensors of
    pointers.
    """
    layout = table.of(type_)
    if not isinstance(layout, LinearLayout):
        return ""
    described = memory_of(memory) if memory is not None else None
    try:
        element = element_type(described[1]) if described is not None else element_of(type_)
    except ValueError:
        return in_words(layout)
    return in_words(layout, element.bits)


def reductions(ops: Sequence[Operation], around: Surroundings) -> tuple[ReductionReport, ...]:
    """All reductions, scans and sorts, sorted by loop depth and then by cost, in descending order."""
    producers, table = producers_of(ops), LayoutTable()
    reports = [_reduction(op, producers, table, around) for op in ops if op.name in REDUCTIONS]
    return tuple(sorted(merge_sorts(reports), key=lambda report: report.weight, reverse=True))


def _reduction(
    op: Operation, producers: Mapping[Value, Operation], table: LayoutTable, around: Surroundings
) -> ReductionReport:
    type_, axis = op.operands[0].type, op.attributes["axis"].value
    counted: Counted | str
    split: Counted | str | None = None
    try:
        kernel = isolate_reduction(op, producers, around.module)
        counted = around.run(kernel)
        if (rewritten := split_reduction(kernel, around.target)) is not None:
            split = around.run(rewritten)
    except CannotIsolate as error:
        counted = str(error)
    layout, sort = table.of(type_), sort_of(str(op.location))
    return ReductionReport(
        Place.of(str(op.location)),
        loop_depth(op),
        sort or op.name,
        axis,
        short_type(str(type_)),
        _words(type_, table),
        spread(layout, axis) if isinstance(layout, LinearLayout) else {},
        _reduction_figures(counted) if isinstance(counted, Counted) else None,
        "" if isinstance(counted, Counted) else counted,
        _reduction_figures(split) if isinstance(split, Counted) else None,
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


def _reduction_figures(counted: Counted) -> ReductionFigures:
    counts = counted.counts
    return ReductionFigures(
        counts.shuffles,
        counts.wavefronts,
        counts.minimum_wavefronts,
        counts.cta_barriers,
        counts.bytes_stored + counts.bytes_loaded,
        counted.shared_bytes,
    )


_LOCATION = re.compile(r"^(?P<name>#\w+) = (?P<location>loc\(.*\))$", re.MULTILINE)
_COPIED = re.compile(
    r"cp\.async\.c[ag]\.shared\.global [^;]*?\], 0x(?P<bytes>[0-9a-f]+).* (?P<where>loc\(.*\))$"
)


def copied_at_once(lowered: str) -> dict[tuple[str, int, int], int]:
    """The width in bytes of each asynchronous copy of a module in the LLVM dialect, by place.

    Places with copies of several widths are left out.
    """
    names = {match["name"]: match["location"] for match in _LOCATION.finditer(lowered)}
    widths: dict[tuple[str, int, int], set[int]] = {}
    for line in lowered.splitlines():
        if match := _COPIED.search(line):
            place = position(_resolved(match["where"], names))
            widths.setdefault(place, set()).add(int(match["bytes"], 16))
    return {place: min(at_place) for place, at_place in widths.items() if len(at_place) == 1}


def _resolved(location: str, names: Mapping[str, str]) -> str:
    """A location with its aliases replaced."""
    while alias := re.search(r"#loc\w*", location):
        location = location.replace(alias[0], names.get(alias[0], "unknown"), 1)
    return location
