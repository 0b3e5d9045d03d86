"""Wavefronts of accesses to padded shared memory, with their bank conflicts."""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect import f2
from triton_linear.lowering.plan.plans import Access, MemorySide, Padding
from triton_linear.lowering.target.targets import Target


def padded_wavefronts(
    padding: Padding, side: MemorySide, accesses: Iterable[Access], kind: str, target: Target
) -> int:
    """Wavefronts of warp 0 for some accesses of one side of a plan that pads.

    Other warps take the same number if no bit of an address depends on both lanes and warps.
    """
    service = target.service(kind, side.access_bytes).of(side.columns)
    lanes = f2.sums(side.columns[: target.lanes.bit_length() - 1])
    served = [lanes[lane] for lane in service.order(target.lanes)]
    words = max(1, side.access_bytes // target.bank_bytes)
    total = 0
    for access in accesses:
        for start in range(0, len(served), service.count):
            accessed: set[int] = set()
            for lane in served[start : start + service.count]:
                first = padding.placed(lane ^ access.offset) // target.bank_bytes
                accessed.update(range(first, first + words))
            banks = [word % service.banks for word in accessed]
            total += max(map(banks.count, set(banks)))
    return total
