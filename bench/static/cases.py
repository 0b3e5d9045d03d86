"""The cases of `bench/conversions` for waves of 64 lanes, with the matrix instructions of each AMD target.

What was the accumulator of mma.sync is that of mfma 16x16, what was wgmma's that of mfma 32x32, most of them
transposed, as Triton has them. Operands have the widths that the target's mfma take. The rest is the same with
a sixth lane bit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import triton.experimental.gluon.language as gl

from bench.conversions import cases as nvidia
from bench.conversions.cases import Case, Shape
from bench.harness.cases import called, unique

LANES = 64
VERSIONS = {"hip:gfx90a": 2, "hip:gfx942": 3, "hip:gfx950": 4}
TARGETS = tuple(VERSIONS)

rows = functools.partial(nvidia.rows, lanes=LANES)
columns = functools.partial(nvidia.columns, lanes=LANES)
vector = functools.partial(nvidia.vector, lanes=LANES)
linear = functools.partial(nvidia.linear, lanes=LANES)

_DEPTHS = {
    # What one mfma takes along K, by its rows: 16 bits, 8 bits.
    2: {32: (8, 16), 16: (16, 32)},
    3: {32: (8, 16), 16: (16, 32)},
    4: {32: (16, 64), 16: (32, 128)},
}


def mfma(version: int, side: int, grid: tuple[int, int], transposed: bool = True, bits: int = 16) -> Any:
    """The accumulator of mfma `side` x `side`; `transposed` ones hold neighbours of a row in a thread."""
    depth = _DEPTHS[version][side][bits == 8]
    return gl.amd.AMDMFMALayout(version, [side, side, depth], transposed, list(grid))


def _accumulators(version: int) -> Iterator[Case]:
    for side, transposed, shape, bits, grid in (
        (16, False, (16, 16), 32, (1, 1)),
        (16, True, (16, 16), 32, (1, 1)),
        (16, False, (32, 32), 16, (1, 1)),
        (16, True, (32, 32), 16, (1, 1)),
        (16, False, (64, 64), 16, (2, 2)),
        (16, True, (64, 64), 32, (4, 1)),
        (16, True, (128, 128), 16, (2, 2)),
        (16, False, (128, 128), 32, (2, 2)),
        (16, True, (128, 64), 32, (2, 1)),
        (16, True, (128, 256), 16, (4, 2)),
        (32, False, (32, 32), 32, (1, 1)),
        (32, True, (64, 64), 16, (2, 2)),
        (32, True, (64, 128), 32, (2, 2)),
        (32, True, (128, 128), 16, (4, 1)),
        (32, False, (128, 128), 32, (2, 2)),
        (32, True, (128, 128), 8, (2, 2)),
        (32, True, (128, 128), 16, (4, 2)),
        (32, True, (128, 256), 16, (4, 2)),
        (32, True, (256, 128), 32, (4, 2)),
    ):
        warps = grid[0] * grid[1]
        turned = "t" if transposed else ""
        name = f"mfma{side}{turned}-{grid[0]}x{grid[1]}-rows-{bits}-{shape[0]}x{shape[1]}"
        accumulator = mfma(version, side, grid, transposed)
        yield Case(name, "accumulator", shape, bits, warps, accumulator, rows(shape, bits, warps))
    shape, small = (128, 128), (64, 64)
    pairs: tuple[tuple[str, Shape, Any, Any], ...] = (
        ("mfma32t-columns", shape, mfma(version, 32, (2, 2)), columns(shape, 16, 4)),
        ("mfma16-columns", small, mfma(version, 16, (2, 2), False), columns(small, 16, 4)),
        ("mfma16t-mfma32t", shape, mfma(version, 16, (2, 2)), mfma(version, 32, (2, 2))),
        ("mfma32-mfma32t", shape, mfma(version, 32, (2, 2), False), mfma(version, 32, (2, 2))),
    )
    for name, sizes, a, b in pairs:
        yield Case(f"{name}-16-{sizes[0]}x{sizes[1]}", "accumulator", sizes, 16, 4, a, b)


def _widths(version: int) -> tuple[tuple[int, int], ...]:
    """(bits, kWidth): what the instructions take, and twice that where Triton packs two (kpack)."""
    halves = (4, 8) if version < 4 else (4, 8, 16)
    bytes_ = {2: (4, 8), 3: (8, 16), 4: (8, 16, 32)}[version]
    return (*((32, width) for width in (1, 2, 4)), *((16, w) for w in halves), *((8, w) for w in bytes_))


def _operands(version: int) -> Iterator[Case]:
    for side in (16, 32):
        for operand in (0, 1):
            for bits, width in _widths(version):
                depth = max(64, (64 // side) * width)
                shape = (64, depth) if operand == 0 else (depth, 64)
                b = gl.DotOperandLayout(operand, mfma(version, side, (2, 2), bits=bits), width)
                name = f"rows-mfma{side}-dot{operand}-k{width}-{bits}-{shape[0]}x{shape[1]}"
                yield Case(name, "operand", shape, bits, 4, rows(shape, bits, 4), b)
    width = 8 if version == 4 else 4
    for operand, shape in ((0, (128, 64)), (1, (64, 128))):
        sizes = f"{shape[0]}x{shape[1]}"
        b = gl.DotOperandLayout(operand, mfma(version, 32, (2, 2)), width)
        yield Case(f"rows-dot{operand}-k{width}-16-{sizes}", "operand", shape, 16, 4, rows(shape, 16, 4), b)
        name = f"columns-dot{operand}-k{width}-16-{sizes}"
        yield Case(name, "operand", shape, 16, 4, columns(shape, 16, 4), b)
        b = gl.DotOperandLayout(operand, mfma(version, 16, (4, 2)), width)
        yield Case(f"rows-dot{operand}-k{width}-16-{sizes}-8w", "operand", shape, 16, 8, rows(shape, 16, 8), b)
    for side in (16, 32):
        for bits, width in ((16, 4), (16, 8), (8, 8), (8, 16)):
            for shape, warps in (((128, 64), 4), ((128, 128), 4)):
                accumulator = mfma(version, side, (warps, 1), bits=bits)
                b = gl.DotOperandLayout(0, accumulator, width)
                name = f"attention-mfma{side}-k{width}-{bits}-{shape[0]}x{shape[1]}"
                yield Case(name, "attention", shape, bits, warps, accumulator, b)


def _slices(version: int) -> Iterator[Case]:
    block = rows((64, 64), 32, 4)
    small, large = mfma(version, 16, (2, 2)), mfma(version, 32, (4, 1))
    pairs: list[tuple[str, int, int, int, Any, Any]] = [
        ("slice-rows-to-vector-32-64", 64, 32, 4, gl.SliceLayout(1, block), vector(1, 4)),
        ("slice-rows-to-columns-32-64", 64, 32, 4, gl.SliceLayout(1, block), gl.SliceLayout(0, block)),
        ("slice-mfma16-rows-32-128", 128, 32, 4, gl.SliceLayout(1, small), vector(1, 4)),
        ("slice-mfma16-columns-32-128", 128, 32, 4, gl.SliceLayout(0, small), vector(1, 4)),
        ("slice-mfma16-turn-16-64", 64, 16, 4, gl.SliceLayout(1, small), gl.SliceLayout(0, small)),
        ("slice-mfma32-rows-32-128", 128, 32, 4, gl.SliceLayout(1, large), vector(1, 4)),
        ("vector-4-to-1-32-1024", 1024, 32, 4, vector(4, 4), vector(1, 4)),
        ("vector-8-to-1-16-4096", 4096, 16, 4, vector(8, 4), vector(1, 4)),
        ("vector-16-to-4-8-4096", 4096, 8, 4, vector(16, 4), vector(4, 4)),
        ("vector-4-to-1-32-256-1w", 256, 32, 1, vector(4, 1), vector(1, 1)),
        ("vector-2-to-1-64-2048-8w", 2048, 64, 8, vector(2, 8), vector(1, 8)),
    ]
    for name, size, bits, warps, a, b in pairs:
        yield Case(name, "vector", (size,), bits, warps, a, b)


def _single_lanes() -> Iterator[Case]:
    shape = (16, 256)
    a = linear(shape, "llllllwwrrrr", 4)
    for bit in range(LANES.bit_length() - 1):
        owners = " ".join(f"L{i}" if i != bit else "r" for i in range(LANES.bit_length() - 1))
        b = linear(shape, f"{owners} w w L{bit} r r r", 4)
        yield Case(f"exchange-lane{bit}-32", "lanes", shape, 32, 4, a, b)


@functools.cache
def cases(target: str) -> tuple[Case, ...]:
    """Every case for an AMD target, in order; names are unique."""
    version = VERSIONS[target]
    orders = {
        "reverse": "L5 L4 L3 L2 L1 L0",
        "rotate": "L1 L2 L3 L4 L5 L0",
        "swap": "L1 L0 L2 L3 L4 L5",
        "swap-halves": "L0 L1 L2 L3 L5 L4",
    }
    return unique(
        (
            *_accumulators(version),
            *_operands(version),
            *nvidia.transposes(LANES),
            *_slices(version),
            *nvidia.replicated(LANES),
            *nvidia.lane_exchanges(orders, LANES),
            *_single_lanes(),
            *nvidia.warp_exchanges(LANES),
        )
    )


def case_called(target: str, name: str) -> Case:
    """The case of a target that has this name; raises StopIteration where there is none."""
    return called(name, cases(target))
