"""Decide whether the passes might change a kernel, without importing MLIR."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from triton_linear.dialect.interfaces import Operation, TritonModule
from triton_linear.passes.operations import names
from triton_linear.passes.options import PipelineOptions

CONVERT = names.CONVERT
_TURNS = (names.TRANS, names.RESHAPE)
"""Operations behind which a tensor is stored to shared memory another way than it was loaded."""
_SHAPE = re.compile(r"tensor<((?:\d+x){2,})")
_POINTEE = re.compile(r"!tt\.ptr<[a-z]+(\d+)")


def count_operations(module: TritonModule) -> Counter[str]:
    """The operations of a libtriton module by name, without printing it."""
    found: Counter[str] = Counter()

    def visit(operation: Operation) -> None:
        found[operation.get_name()] += 1

    module.walk(visit)
    return found


def screened(
    options: PipelineOptions, counts: Mapping[str, int], has_short_rows: Callable[[], bool]
) -> PipelineOptions | None:
    """The part of `options` that can change a module with these operations; None if nothing can.

    Choosing layouts can save conversions, and helps accesses with short rows. Loads of loops may begin an
    iteration ahead where data is exchanged between warps, and dots of loops may have to be waited for.
    `has_short_rows` is called only if its result matters, as it takes longest.
    """

    def has(*wanted: str) -> bool:
        return any(counts.get(name) for name in wanted)

    accesses = has(*names.LOCAL_ACCESSES)
    assigns = has(CONVERT) or (accesses and has(*_TURNS)) or (options.assign and has_short_rows())
    splits = has(names.REDUCE) and options.splits_reductions
    awaits = options.assign and has(names.FOR) and has(names.WARP_GROUP_DOT)
    exchanges = accesses or has(CONVERT, names.GATHER, *names.COMBINING)
    advances = options.assign and exchanges and has(names.FOR) and has(names.LOAD)
    if not (assigns or splits or awaits or advances):
        return None
    return replace(options, layouts=assigns)


def has_short_rows(module: TritonModule) -> bool:
    """True if a load or store of a tensor with at least two dimensions has rows of less than 16 bytes."""
    types: set[str] = set()

    def visit(operation: Operation) -> None:
        if operation.get_name() in names.GLOBAL_ACCESSES:
            operands = range(operation.get_num_operands())
            types.add(" ".join(str(operation.get_operand(index).get_type()) for index in operands))

    module.walk(visit)
    return are_short(types)


def are_short(accesses: Iterable[str]) -> bool:
    """True if one of these accesses has rows of less than 16 bytes. An access is the types of its operands."""
    return any(map(_is_short, accesses))


def _is_short(types: str) -> bool:
    shape, pointee = _SHAPE.search(types), _POINTEE.search(types)
    if shape is None or pointee is None:
        return False
    from triton_linear.passes.analysis.widths import are_rows_short

    sizes = [int(size) for size in shape[1].split("x") if size]
    return are_rows_short(sizes, -(-int(pointee[1]) // 8))
