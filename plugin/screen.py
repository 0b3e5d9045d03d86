"""Decide whether the passes might change a kernel, without importing MLIR."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from triton_linear.dialect.records import dataclass
from triton_linear.interfaces import Operation, TritonModule
from triton_linear.passes.options import PipelineOptions

CONVERT, GATHER, REDUCE, SCAN = "ttg.convert_layout", "tt.gather", "tt.reduce", "tt.scan"
LOOP, LOAD = "scf.for", "tt.load"
_SHARED_ACCESSES = frozenset({"ttg.local_load", "ttg.local_store", "ttg.local_alloc"})
_TURNS = ("tt.trans", "tt.reshape")
"""Operations behind which a tensor is stored to shared memory another way than it was loaded."""
GLOBAL_ACCESSES = frozenset({"tt.load", "tt.store", "amdg.buffer_load", "amdg.buffer_store"})
_SHAPE = re.compile(r"tensor<((?:\d+x){2,})")
_POINTEE = re.compile(r"!tt\.ptr<[a-z]+(\d+)")


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of operations of a module that passes may change, and whether it has both loops and loads."""

    conversions: int
    gathers: int
    reductions: int
    accesses: int
    turns: int
    scans: int
    loads_in_loops: bool

    @classmethod
    def among(cls, names: Mapping[str, int]) -> Found:
        """The numbers, from those of all operations by name."""
        accesses = sum(names.get(name, 0) for name in _SHARED_ACCESSES)
        loads_in_loops = bool(names.get(LOOP) and names.get(LOAD))
        conversions, gathers, reductions, scans = (
            names.get(name, 0) for name in (CONVERT, GATHER, REDUCE, SCAN)
        )
        turns = sum(names.get(name, 0) for name in _TURNS)
        return cls(conversions, gathers, reductions, accesses, turns, scans, loads_in_loops)

    @property
    def exchanges(self) -> bool:
        """True if there are operations that may exchange data between warps."""
        return bool(self.conversions or self.gathers or self.reductions or self.scans or self.accesses)


def count_operations(module: TritonModule) -> Found:
    """Count the operations of a libtriton module, without printing it."""
    names: Counter[str] = Counter()

    def visit(operation: Operation) -> None:
        names[operation.get_name()] += 1

    module.walk(visit)
    return Found.among(names)


def screened(
    options: PipelineOptions, found: Found, has_short_rows: Callable[[], bool]
) -> PipelineOptions | None:
    """The part of `options` that can change a module with these operations; None if nothing can.

    Choosing layouts can save conversions and gathers, and helps accesses with short rows. Loads of loops may
    begin an iteration ahead where data is exchanged between warps. `has_short_rows` is called only if its
    result matters, as it takes longest.
    """
    if options.free:
        return options if found.conversions else None
    assigns = bool(found.conversions or found.gathers or (found.accesses and found.turns))
    assigns = assigns or (options.assign and has_short_rows())
    splits = found.reductions and options.splits_reductions
    stages = found.accesses and options.stages_accesses
    advances = options.assign and found.loads_in_loops and found.exchanges
    if not (assigns or splits or stages or advances):
        return None
    return replace(options, layouts=bool(assigns))


def has_short_rows(module: TritonModule) -> bool:
    """True if a load or store of a tensor with at least two dimensions has rows of less than 16 bytes."""
    types: set[str] = set()

    def visit(operation: Operation) -> None:
        if operation.get_name() in GLOBAL_ACCESSES:
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
