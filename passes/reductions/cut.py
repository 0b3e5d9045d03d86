"""Cut the axis of a `#ttg.blocked` tensor so that the elements in a thread's registers have their own
dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from triton_linear.dialect import encodings
from triton_linear.dialect.encodings import Blocked, transfer
from triton_linear.dialect.linear_layout import REGISTER, WARP
from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor whose axis was cut into up to three dimensions.

    encoding: the encoding of the tensor with these dimensions. inside: the new dimensions that lie in
    registers, the last one first. After reducing along these, each thread has one partial result, and dimension
    `axis` lies in threads.
    """

    shape: tuple[int, ...]
    encoding: str
    inside: tuple[int, ...]
    axis: int


@lru_cache(maxsize=1024)
def cut(encoding: str, shape: tuple[int, ...], axis: int) -> Cut | None:
    """Cut the axis into repetitions x threads x neighbours; sizes of 1 are left out.

    None if one warp has the whole axis, if the encoding is not `#ttg.blocked`, or if threads hold copies. A
    tensor without elements of the axis in registers is not cut, whatever its encoding.

    Ensures: the reshape is free: every register keeps its element.

    >>> text = "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
    >>> found = cut(text, (1024,), 0)
    >>> found.shape, found.inside, found.axis
    ((2, 128, 4), (2, 0), 0)
    """
    layout = encodings.layout_of(encoding, shape)
    along = {name for name, bases in layout.bases if any(basis[axis] for basis in bases)}
    if WARP not in along:
        return None
    if REGISTER not in along:
        return Cut(shape, encoding, (), axis)
    blocked = encodings.parse(encoding)
    if not isinstance(blocked, Blocked):
        return None
    neighbours, lanes, warps = (
        each[axis] for each in (blocked.size_per_thread, blocked.threads_per_warp, blocked.warps_per_cta)
    )
    repetitions = shape[axis] // (neighbours * lanes * warps)
    if not repetitions:
        return None
    # For each part: its size, and how much of the size is in registers, lanes and warps.
    parts = [(lanes * warps, 1, lanes, warps)]
    if repetitions > 1:
        parts.insert(0, (repetitions, 1, 1, 1))
    if neighbours > 1:
        parts.append((neighbours, neighbours, 1, 1))
    threads = int(repetitions > 1)
    sizes, registers, in_warp, in_cta = zip(*parts, strict=True)

    def spread(each: Sequence[int], axis_as: Sequence[int]) -> tuple[int, ...]:
        return (*each[:axis], *axis_as, *each[axis + 1 :])

    order = []
    for dimension in blocked.order:
        if dimension == axis:
            order += [axis + place for place in reversed(range(len(parts)))]
        else:
            order.append(dimension + (len(parts) - 1) * (dimension > axis))
    found = Cut(
        spread(shape, sizes),
        f"#ttg.blocked<{{sizePerThread = {list(spread(blocked.size_per_thread, registers))}, "
        f"threadsPerWarp = {list(spread(blocked.threads_per_warp, in_warp))}, "
        f"warpsPerCTA = {list(spread(blocked.warps_per_cta, in_cta))}, order = {order}}}>",
        tuple(axis + place for place in reversed(range(len(parts))) if place != threads),
        axis,
    )
    moved = transfer.reshape(layout, found.shape)
    return found if encodings.layout_of(found.encoding, found.shape) == moved else None
