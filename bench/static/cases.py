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
from bench.conversions.cases import Case, Shape, linear_of_copies

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


def _transposes() -> Iterator[Case]:
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
            a, b = rows(shape, bits, warps), columns(shape, bits, warps)
            yield Case(name, "transpose", shape, bits, warps, a, b)


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


def _replicated() -> Iterator[Case]:
    for bits, shape in ((8, (64, 64)), (16, (64, 64)), (32, (64, 32))):
        tile = gl.BlockedLayout([1, max(1, 32 // bits)], [8, 8], [1, 1], [1, 0])
        everywhere = linear_of_copies(shape, tile, 2)
        name = f"rows-every-warp-{bits}-{shape[0]}x{shape[1]}"
        yield Case(name, "replicated", shape, bits, 4, rows(shape, bits, 4), everywhere)
    shape = (32, 64)
    b = linear_of_copies(shape, gl.BlockedLayout([1, 4], [8, 8], [1, 1], [1, 0]), 3)
    yield Case("rows-every-warp-16-32x64-8w", "replicated", shape, 16, 8, rows(shape, 16, 8), b)
    outer = gl.BlockedLayout([1, 4], [1, 64], [4, 1], [1, 0])
    yield Case("vector-every-warp-32-512", "replicated", (512,), 32, 4, vector(4, 4), gl.SliceLayout(0, outer))
    outer = gl.BlockedLayout([4, 1], [8, 8], [1, 4], [1, 0])
    yield Case("vector-every-lane-32-256", "replicated", (256,), 32, 4, vector(2, 4), gl.SliceLayout(1, outer))


def _lanes() -> Iterator[Case]:
    bits_of_lane = LANES.bit_length() - 1
    registers = bits_of_lane
    for bits in (8, 16, 32):
        for exchanges in range(1, bits_of_lane + 1):
            shape = (1 << registers, LANES * 4)
            a = linear(shape, "llllllww" + "r" * registers, 4)
            owners = ["r"] * exchanges + [f"L{i}" for i in range(exchanges, bits_of_lane)] + ["w", "w"]
            owners += [f"L{i}" for i in range(exchanges)] + ["r"] * (registers - exchanges)
            b = linear(shape, " ".join(owners), 4)
            yield Case(f"exchange-{exchanges}-{bits}", "lanes", shape, bits, 4, a, b)
    shape = (16, 256)
    a = linear(shape, "llllllwwrrrr", 4)
    for bit in range(bits_of_lane):
        owners = " ".join(f"L{i}" if i != bit else "r" for i in range(bits_of_lane))
        b = linear(shape, f"{owners} w w L{bit} r r r", 4)
        yield Case(f"exchange-lane{bit}-32", "lanes", shape, 32, 4, a, b)
    for name, order in (
        ("reverse", "L5 L4 L3 L2 L1 L0"),
        ("rotate", "L1 L2 L3 L4 L5 L0"),
        ("swap", "L1 L0 L2 L3 L4 L5"),
        ("swap-halves", "L0 L1 L2 L3 L5 L4"),
    ):
        for bits in (16, 32):
            b = linear(shape, f"{order} w w r r r r", 4)
            yield Case(f"permute-{name}-{bits}", "lanes", shape, bits, 4, a, b)
    a = linear((8, 256), "llllllwwrrr", 4)
    b = linear((8, 256), "r L1 L2 L3 L4 L5 w w L0 r r", 4)
    yield Case("exchange-1-64", "lanes", (8, 256), 64, 4, a, b)
    shape = (16, 64)
    for bits, wide, narrow in ((16, 128, 32), (8, 128, 32), (32, 128, 32)):
        a, b = rows(shape, bits, 1, wide), rows(shape, bits, 1, narrow)
        yield Case(f"widen-{narrow}-to-{wide}-{bits}", "lanes", shape, bits, 1, a, b)


def _warps() -> Iterator[Case]:
    for warps in (2, 4, 8):
        bits = warps.bit_length() - 1
        shape = (16, LANES * warps)
        a = linear(shape, "llllll" + "w" * bits + "rrrr", warps)
        b = linear(shape, "llllll" + "r" * bits + "w" * bits + "r" * (4 - bits), warps)
        yield Case(f"exchange-warps-32-{warps}w", "warps", shape, 32, warps, a, b)
    shape = (16, 256)
    a, b = linear(shape, "llllllwwrrrr", 4), linear(shape, "llllllrwwrrr", 4)
    yield Case("exchange-one-warp-bit-16", "warps", shape, 16, 4, a, b)
    shape = (64, 64)
    turned = gl.BlockedLayout([1, 4], [16, 4], [1, 4], [1, 0])
    yield Case("warps-rows-to-columns-32", "warps", shape, 32, 4, rows(shape, 32, 4), turned)


@functools.cache
def cases(target: str) -> tuple[Case, ...]:
    """Every case for an AMD target, in order; names are unique."""
    version = VERSIONS[target]
    found = (
        *_accumulators(version),
        *_operands(version),
        *_transposes(),
        *_slices(version),
        *_replicated(),
        *_lanes(),
        *_warps(),
    )
    names = [case.name for case in found]
    if len(set(names)) != len(names):
        raise ValueError(f"names of cases that occur twice: {sorted({n for n in names if names.count(n) > 1})}")
    return found


def case_called(target: str, name: str) -> Case:
    """The case of a target that has this name; raises StopIteration where there is none."""
    return next(case for case in cases(target) if case.name == name)
