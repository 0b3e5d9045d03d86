"""Whether a kernel has anything that the pipeline might change, before MLIR is imported for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from triton_linear.dialect.records import dataclass
from triton_linear.interfaces import Operation, TritonModule
from triton_linear.passes.options import PipelineOptions

CONVERT, GATHER, REDUCE = "ttg.convert_layout", "tt.gather", "tt.reduce"
_SHARED_ACCESSES = frozenset({"ttg.local_load", "ttg.local_store", "ttg.local_alloc"})
GLOBAL_ACCESSES = frozenset({"tt.load", "tt.store", "amdg.buffer_load", "amdg.buffer_store"})
_SHAPE = re.compile(r"tensor<((?:\d+x){2,})")
_POINTEE = re.compile(r"!tt\.ptr<[a-z]+(\d+)")


@dataclass(frozen=True, slots=True)
class Found:
    """How many operations of a module may concern the pipeline."""

    conversions: int
    gathers: int
    reductions: int
    accesses: int

    @classmethod
    def among(cls, names: Mapping[str, int]) -> Found:
        """Those among operations that are counted by name."""
        accesses = sum(names.get(name, 0) for name in _SHARED_ACCESSES)
        return cls(names.get(CONVERT, 0), names.get(GATHER, 0), names.get(REDUCE, 0), accesses)


def count_operations(module: TritonModule) -> Found:
    """What is in a libtriton module, without printing it."""
    names: Counter[str] = Counter()

    def visit(operation: Operation) -> None:
        names[operation.get_name()] += 1

    module.walk(visit)
    return Found.among(names)


def screened(
    options: PipelineOptions, found: Found, has_short_rows: Callable[[], bool]
) -> PipelineOptions | None:
    """What of `options` may change a module with these operations; None where nothing may.

    Layouts are chosen where there are conversions or gathers to spare, and where rows are short: asked for
    last, as that takes longest.
    """
    if options.free:
        return options if found.conversions else None
    assigns = bool(found.conversions or found.gathers)
    assigns = assigns or (options.assign and has_short_rows())
    splits = found.reductions and options.splits_reductions
    stages = found.accesses and options.stages_accesses
    if not (assigns or splits or stages):
        return None
    return replace(options, assign=options.assign and assigns)


def has_short_rows(module: TritonModule) -> bool:
    """Whether a tensor of two dimensions or more that is loaded or stored has one of less than 16 bytes."""
    types: set[str] = set()

    def visit(operation: Operation) -> None:
        if operation.get_name() in GLOBAL_ACCESSES:
            operands = range(operation.get_num_operands())
            types.add(" ".join(str(operation.get_operand(index).get_type()) for index in operands))

    module.walk(visit)
    return are_short(types)


def are_short(accesses: Iterable[str]) -> bool:
    """Whether one of these accesses, each told by the types of its operands, has rows of less than 16 bytes."""
    return any(map(_is_short, accesses))


def _is_short(types: str) -> bool:
    shape, pointee = _SHAPE.search(types), _POINTEE.search(types)
    if shape is None or pointee is None:
        return False
    from triton_linear.passes.analysis.widths import are_rows_short

    sizes = [int(size) for size in shape[1].split("x") if size]
    return are_rows_short(sizes, -(-int(pointee[1]) // 8))
