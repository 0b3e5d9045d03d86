"""Warp specialisation: which warps run an operation.

`ttg.warp_specialize` has a default region, which the kernel's own warps run, and partitions, each with its
own warps (`partitionNumWarps`), which run at the same time. In a partition, thread numbers and layouts count
from the partition's first warp: Triton's lowering subtracts the number of that warp. It also gives each
partition, and the kernel's own warps, a barrier number and a barrier size.
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
    """The number of warps of the partition that contains `op`; None if the kernel's own warps run it."""
    inner, at = op, op.parent
    while at is not None:
        if at.name == PARTITIONS:
            number = _region_of(at, inner)
            parent = at.parent
            assert parent is not None  # it is nested in a `ttg.warp_specialize`
            return warps_of_partitions(parent)[number]
        inner, at = at, at.parent
    return None


def first_of_partition(op: Operation) -> Operation | None:
    """The first operation of the partition that contains `op`; None if the kernel's own warps run it."""
    inner, at = op, op.parent
    while at is not None:
        if at.name == PARTITIONS:
            return at.regions[_region_of(at, inner)].blocks[0].operations[0].operation
        inner, at = at, at.parent
    return None


def _region_of(partitions: Operation, inner: Operation) -> int:
    """The index of the region of `partitions` that contains `inner`.

    Requires: `inner` is directly in one of them, not nested deeper.
    """
    return next(
        n for n, region in enumerate(partitions.regions) if any(block == inner.block for block in region.blocks)
    )
