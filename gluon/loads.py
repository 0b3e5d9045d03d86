"""Suggest layouts for loads from global memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triton_linear.dialect.gluon import linear_layout
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.notebook import Explained
from triton_linear.dialect.records import dataclass
from triton_linear.gluon.conversions import ConversionCost, select_plan
from triton_linear.gluon.units import bytes_of, element_of, target_of

_WIDEST = 16
"""Bytes of the widest access of a thread to global memory."""
_SECTOR = 32
"""Bytes of a sector, the unit in which global memory is transferred."""


@dataclass(frozen=True)
class LoadSuggestion(Explained):
    """A layout for a load.

    vector_bytes: bytes that a thread loads by one instruction. sectors: sectors that an instruction of a warp
    accesses. fewest_sectors: the minimum for that number of bytes. conversion: the cost of converting to the
    consumer's layout, if there is a consumer.
    """

    layout: Any
    linear: LinearLayout
    vector_bytes: int
    sectors: int
    fewest_sectors: int
    conversion: ConversionCost | None

    def __str__(self) -> str:
        lines = [
            f"{self.layout}",
            f"  {self.vector_bytes} bytes a thread, "
            f"{self.sectors} sectors an instruction ({self.fewest_sectors} at least)",
        ]
        if self.conversion is not None:
            lines.append(f"  to the consumer: {self.conversion}")
        return "\n".join(lines)


def suggest_load_layout(
    shape: Sequence[int],
    dtype: str,
    order: Sequence[int],
    num_warps: int,
    consumer: Any | None = None,
    target: str = "cuda:90",
) -> LoadSuggestion:
    """The best blocked layout for loading a tensor that is contiguous along `order[0]`.

    The candidates are all blocked layouts of `num_warps` warps whose vectors and lanes lie along `order`. They
    are compared by, in this order: sectors for the whole tensor, instructions, clocks of the conversion to the
    consumer's layout (the fewest each), and width of the vector (the widest).

    Requires: sizes and `num_warps` are powers of two; the strides of the other dimensions are multiples of a
    sector.
    """
    from triton.experimental.gluon import language  # type: ignore[import-untyped, unused-ignore]

    gpu, size, element = target_of(target), bytes_of(dtype), element_of(dtype)
    rank = len(shape)
    if sorted(order) != list(range(rank)):
        raise ValueError(f"suggest_load_layout: order {list(order)} is no permutation of {rank} dimensions")
    for number in (*shape, num_warps):
        if number < 1 or number & (number - 1):
            raise ValueError(f"suggest_load_layout: {number} is not a power of two")
    wanted = None if consumer is None else linear_layout(consumer, shape)
    best: tuple[tuple[float, ...], LoadSuggestion] | None = None
    vector = 1
    while vector * size <= _WIDEST and vector <= shape[order[0]]:
        lanes_along = 1
        while lanes_along <= gpu.lanes:
            layout = _blocked(language, shape, order, vector, lanes_along, gpu.lanes, num_warps)
            linear = linear_layout(layout, shape)
            sectors, fewest, instructions = _sectors(linear, order[0], vector, size)
            conversion = None
            if wanted is not None:
                conversion = ConversionCost.of(select_plan(linear, wanted, element, gpu))
            clocks = conversion.clocks if conversion else 0.0
            cost = (sectors * instructions, instructions, clocks, -vector)
            if best is None or cost < best[0]:
                best = cost, LoadSuggestion(layout, linear, vector * size, sectors, fewest, conversion)
            lanes_along *= 2
        vector *= 2
    assert best is not None
    return best[1]


def _blocked(
    language: Any, shape: Sequence[int], order: Sequence[int], vector: int, along: int, lanes: int, warps: int
) -> Any:
    """The blocked layout with vectors and `along` lanes in dimension `order[0]`, other lanes in the following.

    Warps are placed in the slowest dimension first.
    """
    rank = len(shape)
    per_thread, per_warp, per_cta = [1] * rank, [1] * rank, [1] * rank
    per_thread[order[0]] = vector
    per_warp[order[0]] = along
    lanes_left = lanes // along
    for dim in order[1:]:
        per_warp[dim] = min(lanes_left, shape[dim])
        lanes_left //= per_warp[dim]
    per_warp[order[0]] *= lanes_left
    warps_left = warps
    for dim in reversed(order):
        per_cta[dim] = min(warps_left, max(1, shape[dim] // (per_thread[dim] * per_warp[dim])))
        warps_left //= per_cta[dim]
    per_cta[order[-1]] *= warps_left
    return language.BlockedLayout(per_thread, per_warp, per_cta, list(order))


def _sectors(layout: LinearLayout, dim: int, vector: int, size: int) -> tuple[int, int, int]:
    """Sectors that one instruction of a warp accesses, the fewest possible, and instructions of a thread."""
    lanes = [v for v in dict(layout.bases)["lane"] if any(v)]
    registers = [v for v in dict(layout.bases)["register"] if any(v)]
    run = vector * size
    along = 1
    for v in lanes:
        if all(not value for axis, value in enumerate(v) if axis != dim):
            along *= 2
    rows = (1 << len(lanes)) // along
    sectors = rows * max(1, -(-(along * run) // _SECTOR))
    fewest = max(1, (1 << len(lanes)) * run // _SECTOR)
    return sectors, fewest, max(1, (1 << len(registers)) // vector)
