"""The named conversions of the suite: two layouts of one tensor each, converted to and fro.

Elements are integers of their width, as bits are all that moves. A layout is a Gluon object, which says how the
tensor lies in registers, lanes and warps just as Triton's encodings do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import triton.experimental.gluon.language as gl

from ..harness.cases import unique
from ..harness.report import sizes

LANES = 32
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A tensor of `shape` and elements of `bits` goes from layout `a` to `b` and back, with `warps` warps."""

    name: str
    group: str
    shape: Shape
    bits: int
    warps: int
    a: Any
    b: Any

    @property
    def size(self) -> str:
        """The tensor in words: `64x64 of 16 bits, 4 warps`."""
        warps = f"{self.warps} warp{'s' * (self.warps > 1)}"
        return f"{sizes(self.shape)} of {self.bits} bits, {warps}"


def rows(shape: Shape, bits: int, warps: int, vector_bits: int = 128, lanes: int = LANES) -> gl.BlockedLayout:
    """Row-major, as a coalesced global access has it: `vector_bits` per thread along the rows."""
    vector = max(1, min(vector_bits // bits, shape[1]))
    across = min(lanes, max(1, shape[1] // vector))
    return gl.BlockedLayout([1, vector], [lanes // across, across], [warps, 1], [1, 0])


def columns(
    shape: Shape, bits: int, warps: int, vector_bits: int = 128, lanes: int = LANES
) -> gl.BlockedLayout:
    """`rows` of the transposed tensor."""
    turned = rows((shape[1], shape[0]), bits, warps, vector_bits, lanes)
    return gl.BlockedLayout(turned.size_per_thread[::-1], turned.threads_per_warp[::-1], [1, warps], [0, 1])


def mma2(warp_rows: int, warp_columns: int) -> gl.NVMMADistributedLayout:
    """The accumulator of mma.sync m16n8."""
    return gl.NVMMADistributedLayout([2, 0], [warp_rows, warp_columns], [16, 8])


def mma3(warps: int, width: int) -> gl.NVMMADistributedLayout:
    """The accumulator of wgmma m64, `width` columns wide."""
    return gl.NVMMADistributedLayout([3, 0], [4, warps // 4], [16, width, 16])


def vector(per_thread: int, warps: int, lanes: int = LANES) -> gl.BlockedLayout:
    """One-dimensional, `per_thread` neighbours in a thread."""
    return gl.BlockedLayout([per_thread], [lanes], [warps], [0])


def linear(shape: Shape, order: str, warps: int, lanes: int = LANES) -> gl.DistributedLinearLayout:
    """A layout by the owner of each index bit, lowest first, the last dimension's bits before: `rrlllllw`.

    r, l and w stand for the next register, lane and warp bit; `L0` to `L4` (`L5`) for a lane bit by number.
    """
    units = [
        [(1 << bit) * (dim == axis) for axis in range(len(shape))]
        for dim in reversed(range(len(shape)))
        for bit in range(shape[dim].bit_length() - 1)
    ]
    tokens = order.split() if " " in order else list(order)
    if len(tokens) != len(units):
        raise ValueError(f"linear: {len(tokens)} owners for {len(units)} index bits")
    owned: dict[str, list[Any]] = {"r": [], "w": []}
    lane_bits: list[Any] = [None] * (lanes.bit_length() - 1)
    for token, unit in zip(tokens, units, strict=True):
        if token in owned:
            owned[token].append(unit)
        else:
            lane_bits[int(token[1]) if len(token) > 1 else lane_bits.index(None)] = unit
    if len(owned["w"]) != warps.bit_length() - 1 or None in lane_bits:
        raise ValueError(
            f"linear: '{order}' does not name {len(lane_bits)} lane bits and the bits of {warps} warps"
        )
    return gl.DistributedLinearLayout(owned["r"], lane_bits, owned["w"], [], list(shape))


def _accumulators() -> Iterator[Case]:
    for shape, bits, grid in (
        ((16, 16), 32, (1, 1)),
        ((32, 32), 16, (1, 1)),
        ((64, 64), 16, (2, 2)),
        ((64, 64), 32, (4, 1)),
        ((128, 128), 16, (2, 2)),
        ((128, 128), 32, (2, 2)),
        ((128, 64), 32, (2, 1)),
        ((128, 256), 16, (4, 2)),
    ):
        warps = grid[0] * grid[1]
        name = f"mma2-{grid[0]}x{grid[1]}-rows-{bits}-{shape[0]}x{shape[1]}"
        yield Case(name, "accumulator", shape, bits, warps, mma2(*grid), rows(shape, bits, warps))
    for shape, bits, warps in (
        ((64, 64), 16, 4),
        ((64, 128), 32, 4),
        ((128, 128), 16, 4),
        ((128, 128), 32, 4),
        ((128, 128), 8, 4),
        ((128, 128), 16, 8),
        ((128, 256), 16, 8),
        ((256, 128), 32, 8),
    ):
        width = shape[1] // (warps // 4)
        name = f"mma3-rows-{bits}-{shape[0]}x{shape[1]}-{warps}w"
        yield Case(name, "accumulator", shape, bits, warps, mma3(warps, width), rows(shape, bits, warps))
    shape = (128, 128)
    yield Case("mma3-columns-16-128x128", "accumulator", shape, 16, 4, mma3(4, 128), columns(shape, 16, 4))
    yield Case("mma2-columns-16-64x64", "accumulator", (64, 64), 16, 4, mma2(2, 2), columns((64, 64), 16, 4))
    yield Case("mma2-mma3-16-128x128", "accumulator", shape, 16, 4, mma2(2, 2), mma3(4, 128))


def _operands() -> Iterator[Case]:
    for operand in (0, 1):
        for bits, k_width in ((32, 1), (32, 2), (16, 2), (16, 4), (16, 8), (8, 4), (8, 8), (8, 16)):
            depth = max(64, 8 * k_width)
            shape = (64, depth) if operand == 0 else (depth, 64)
            b = gl.DotOperandLayout(operand, mma2(2, 2), k_width)
            name = f"rows-dot{operand}-k{k_width}-{bits}-{shape[0]}x{shape[1]}"
            yield Case(name, "operand", shape, bits, 4, rows(shape, bits, 4), b)
    for operand, shape in ((0, (128, 64)), (1, (64, 128))):
        b = gl.DotOperandLayout(operand, mma2(2, 2), 2)
        name = f"rows-dot{operand}-k2-16-{shape[0]}x{shape[1]}"
        yield Case(name, "operand", shape, 16, 4, rows(shape, 16, 4), b)
        name = f"columns-dot{operand}-k2-16-{shape[0]}x{shape[1]}"
        yield Case(name, "operand", shape, 16, 4, columns(shape, 16, 4), b)
        b = gl.DotOperandLayout(operand, mma2(4, 2), 2)
        name = f"rows-dot{operand}-k2-16-{shape[0]}x{shape[1]}-8w"
        yield Case(name, "operand", shape, 16, 8, rows(shape, 16, 8), b)
    for bits, k_width in ((16, 2), (8, 4)):
        shape = (128, 64)
        b = gl.DotOperandLayout(0, mma3(4, 64), k_width)
        yield Case(f"rows-wgmma0-k{k_width}-{bits}", "operand", shape, bits, 4, rows(shape, bits, 4), b)
    yield Case(
        "mma2-dot0-k4-8-64x64",
        "attention",
        (64, 64),
        8,
        4,
        mma2(4, 1),
        gl.DotOperandLayout(0, mma2(4, 1), 4),
    )
    for shape, warps in (((64, 64), 4), ((128, 128), 4), ((128, 128), 8)):
        accumulator = mma3(warps, shape[1])
        name = f"fp8-attention-{shape[0]}x{shape[1]}-{warps}w"
        grid = gl.NVMMADistributedLayout([3, 0], [warps, 1], accumulator.instr_shape)
        b = gl.DotOperandLayout(0, grid, 4)
        yield Case(name, "attention", shape, 8, warps, grid, b)


def transposes(lanes: int = LANES) -> Iterator[Case]:
    """Rows to columns, of elements of every width."""
    for bits in (8, 16, 32, 64):
        sides = [((32, 32), 1), ((64, 64), 2), ((64, 64), 4), ((128, 128), 4)]
        if bits == 64:
            sides = [((16, 16), 1), ((32, 32), 2), ((64, 64), 4), ((64, 128), 8)]
        elif bits < 32:
            sides.append(((128, 128), 8))
        else:
            sides.append(((128, 64), 8))
        for shape, warps in sides:
            name = f"transpose-{bits}-{shape[0]}x{shape[1]}-{warps}w"
            a, b = (side(shape, bits, warps, lanes=lanes) for side in (rows, columns))
            yield Case(name, "transpose", shape, bits, warps, a, b)


def _slices() -> Iterator[Case]:
    shape = (64, 64)
    accumulator, block = mma2(2, 2), rows(shape, 32, 4)
    pairs: list[tuple[str, int, int, int, Any, Any]] = [
        ("slice-rows-to-vector-32-64", 64, 32, 4, gl.SliceLayout(1, block), vector(1, 4)),
        ("slice-rows-to-columns-32-64", 64, 32, 4, gl.SliceLayout(1, block), gl.SliceLayout(0, block)),
        ("slice-mma2-rows-32-128", 128, 32, 4, gl.SliceLayout(1, accumulator), vector(1, 4)),
        ("slice-mma2-columns-32-128", 128, 32, 4, gl.SliceLayout(0, accumulator), vector(1, 4)),
        ("slice-mma2-turn-16-64", 64, 16, 4, gl.SliceLayout(1, accumulator), gl.SliceLayout(0, accumulator)),
        ("slice-mma3-rows-32-128", 128, 32, 4, gl.SliceLayout(1, mma3(4, 64)), vector(1, 4)),
        ("vector-4-to-1-32-1024", 1024, 32, 4, vector(4, 4), vector(1, 4)),
        ("vector-8-to-1-16-4096", 4096, 16, 4, vector(8, 4), vector(1, 4)),
        ("vector-16-to-4-8-4096", 4096, 8, 4, vector(16, 4), vector(4, 4)),
        ("vector-4-to-1-32-128-1w", 128, 32, 1, vector(4, 1), vector(1, 1)),
        ("vector-2-to-1-64-2048-8w", 2048, 64, 8, vector(2, 8), vector(1, 8)),
    ]
    for name, size, bits, warps, a, b in pairs:
        yield Case(name, "vector", (size,), bits, warps, a, b)


def replicated(lanes: int = LANES) -> Iterator[Case]:
    """What every warp, or every lane of a group, holds a copy of."""
    threads = [lanes // 8, 8]
    for bits, shape, each, warps in (
        (8, (64, 64), 4, 4),
        (16, (64, 64), 2, 4),
        (32, (64, 32), 1, 4),
        (16, (32, 64), 4, 8),
    ):
        tile = gl.BlockedLayout([1, each], threads, [1, 1], [1, 0])
        everywhere = linear_of_copies(shape, tile, warps.bit_length() - 1)
        name = f"rows-every-warp-{bits}-{shape[0]}x{shape[1]}{'-8w' if warps == 8 else ''}"
        yield Case(name, "replicated", shape, bits, warps, rows(shape, bits, warps, lanes=lanes), everywhere)
    for name, size, held, axis, outer in (
        ("vector-every-warp-32-512", 512, 4, 0, gl.BlockedLayout([1, 4], [1, lanes], [4, 1], [1, 0])),
        ("vector-every-lane-32-256", 256, 2, 1, gl.BlockedLayout([4, 1], [8, lanes // 8], [1, 4], [1, 0])),
    ):
        a = vector(held, 4, lanes)
        yield Case(name, "replicated", (size,), 32, 4, a, gl.SliceLayout(axis, outer))


def linear_of_copies(shape: Shape, tile: gl.BlockedLayout, warp_bits: int) -> gl.DistributedLinearLayout:
    """What one warp holds by `tile`, held by each of `2 ** warp_bits` warps."""
    rank = len(shape)
    covered = [1] * rank
    registers: list[list[int]] = []
    lanes: list[list[int]] = []
    for counts, bases in ((tile.size_per_thread, registers), (tile.threads_per_warp, lanes)):
        for dim in tile.order:
            for _ in range(counts[dim].bit_length() - 1):
                bases.append([covered[dim] * (axis == dim) for axis in range(rank)])
                covered[dim] *= 2
    for dim in tile.order:
        while covered[dim] < shape[dim]:
            registers.append([covered[dim] * (axis == dim) for axis in range(rank)])
            covered[dim] *= 2
    return gl.DistributedLinearLayout(registers, lanes, [[0] * rank] * warp_bits, [], list(shape))


def lane_exchanges(orders: Mapping[str, str], lanes: int = LANES) -> Iterator[Case]:
    """Bits of the index that change places within a warp; `orders` of the lane's bits by name."""
    lane_bits = lanes.bit_length() - 1
    held = "l" * lane_bits
    for bits in (8, 16, 32):
        for exchanges in range(1, lane_bits + 1):
            shape = (1 << lane_bits, lanes * 4)
            a = linear(shape, f"{held}ww" + "r" * lane_bits, 4, lanes)
            owners = ["r"] * exchanges + [f"L{i}" for i in range(exchanges, lane_bits)] + ["w", "w"]
            owners += [f"L{i}" for i in range(exchanges)] + ["r"] * (lane_bits - exchanges)
            b = linear(shape, " ".join(owners), 4, lanes)
            yield Case(f"exchange-{exchanges}-{bits}", "lanes", shape, bits, 4, a, b)
    shape = (16, lanes * 4)
    a = linear(shape, f"{held}wwrrrr", 4, lanes)
    for name, order in orders.items():
        for bits in (16, 32):
            b = linear(shape, f"{order} w w r r r r", 4, lanes)
            yield Case(f"permute-{name}-{bits}", "lanes", shape, bits, 4, a, b)
    shape = (8, lanes * 4)
    others = " ".join(f"L{i}" for i in range(1, lane_bits))
    a = linear(shape, f"{held}wwrrr", 4, lanes)
    b = linear(shape, f"r {others} w w L0 r r", 4, lanes)
    yield Case("exchange-1-64", "lanes", shape, 64, 4, a, b)
    shape = (16, 64)
    for bits, wide, narrow in ((16, 128, 32), (8, 128, 32), (32, 128, 32)):
        a, b = (rows(shape, bits, 1, width, lanes) for width in (wide, narrow))
        yield Case(f"widen-{narrow}-to-{wide}-{bits}", "lanes", shape, bits, 1, a, b)


def warp_exchanges(lanes: int = LANES) -> Iterator[Case]:
    """Bits of the index that change places between warps and registers."""
    held = "l" * (lanes.bit_length() - 1)
    for warps in (2, 4, 8):
        bits = warps.bit_length() - 1
        shape = (16, lanes * warps)
        a = linear(shape, held + "w" * bits + "rrrr", warps, lanes)
        b = linear(shape, held + "r" * bits + "w" * bits + "r" * (4 - bits), warps, lanes)
        yield Case(f"exchange-warps-32-{warps}w", "warps", shape, 32, warps, a, b)
    shape = (16, lanes * 4)
    a, b = (linear(shape, f"{held}{order}", 4, lanes) for order in ("wwrrrr", "rwwrrr"))
    yield Case("exchange-one-warp-bit-16", "warps", shape, 16, 4, a, b)
    shape = (64, 64)
    turned = gl.BlockedLayout([1, 4], [lanes // 4, 4], [1, 4], [1, 0])
    yield Case("warps-rows-to-columns-32", "warps", shape, 32, 4, rows(shape, 32, 4, lanes=lanes), turned)


@functools.cache
def cases() -> tuple[Case, ...]:
    """Every case, in order; names are unique."""
    orders = {"reverse": "L4 L3 L2 L1 L0", "rotate": "L1 L2 L3 L4 L0", "swap": "L1 L0 L2 L3 L4"}
    return unique(
        (
            *_accumulators(),
            *_operands(),
            *transposes(),
            *_slices(),
            *replicated(),
            *lane_exchanges(orders),
            *warp_exchanges(),
        )
    )
