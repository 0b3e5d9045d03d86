"""Warp-specialised regions: which warps run an operation.

`ttg.warp_specialize` has a default region, which the kernel's own warps run, and partitions, each with warps of
its own (`partitionNumWarps`), which run at the same time. Threads, layouts and barriers in a partition count
from the partition's first warp on: Triton's lowering subtracts where that is, and gives the barriers of a
partition, and those of the kernel's own warps, numbers and sizes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triton_linear.dialect.mlir_adapter import Operation, Value

WARP_SPECIALIZE: Final = "ttg.warp_specialize"
PARTITIONS: Final = "ttg.warp_specialize.partitions"
_NUM_WARPS: Final = "partitionNumWarps"


def warps_of_partitions(specialised: Operation) -> Sequence[int]:
    """The warps of each partition of a `ttg.warp_specialize`."""
    return [int(warps) for warps in specialised.attributes[_NUM_WARPS]]


def captured(partitions: Operation) -> Sequence[Value]:
    """What the arguments of each region of a `ttg.warp_specialize.partitions` are; in Triton 3.6 these are
    the operands of the `ttg.warp_specialize` that it stands in."""
    holder = partitions.parent
    assert holder is not None  # the operation stands nowhere else
    found: Sequence[Value] = partitions.operands if len(partitions.operands) else holder.operands
    return found


def partition_warps(op: Operation) -> int | None:
    """The warps of the partition that `op` is in; None where the kernel's own warps run it."""
    inner, at = op, op.parent
    while at is not None:
        if at.name == PARTITIONS:
            number = _region_of(at, inner)
            parent = at.parent
            assert parent is not None  # the operation stands nowhere else
            return warps_of_partitions(parent)[number]
        inner, at = at, at.parent
    return None


def first_of_partition(op: Operation) -> Operation | None:
    """The first operation of the partition that `op` is in; None where the kernel's own warps run it."""
    inner, at = op, op.parent
    while at is not None:
        if at.name == PARTITIONS:
            return at.regions[_region_of(at, inner)].blocks[0].operations[0].operation
        inner, at = at, at.parent
    return None


def _region_of(partitions: Operation, inner: Operation) -> int:
    """Which region of `partitions` an operation is in that stands directly in one."""
    return next(
        n for n, region in enumerate(partitions.regions) if any(block == inner.block for block in region.blocks)
    )
