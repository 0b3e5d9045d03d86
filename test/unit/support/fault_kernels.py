"""Kernels that use what is easily got wrong around a conversion, and how they come out of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from aligned_sources import aligned
from bridge_kernels import CASES, TARGETS, Case
from plugin_support import row_sums
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

import triton_linear
from triton_linear.report import Report
from triton_linear.tools.support.backend import ttgir_of


@triton.jit
def turned(x, rows, columns, M: tl.constexpr, N: tl.constexpr):
    """A tile, loaded along its rows, as it would lie if it were loaded along its columns."""
    return tl.trans(tl.load(x + columns[:, None] * M + rows[None, :]))


@triton.jit
def in_branches(x, out, limit, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    at = rows[:, None] * BN + columns[None, :]
    tile = tl.load(x + at)
    steps = 0
    while steps < limit:
        tile = tile * 0.5 + turned(x, rows, columns, BM, BN)
        steps += 1
        if steps > 3:
            tile += tl.sum(tile, 1)[:, None]
        else:
            tile += turned(x + 64, rows, columns, BM, BN) * tl.max(tile, 0)[None, :]
    tl.store(out + at, tile)


@triton.jit
def carried(x, out, limit, BM: tl.constexpr, BN: tl.constexpr):
    """Each turn converts what the last one left, both ways."""
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    at = rows[:, None] * BN + columns[None, :]
    tile = tl.load(x + at)
    for i in range(limit):
        tile = tl.reshape(tl.trans(tile), (BM, BN)) + tl.load(x + i + at)
        tile = tl.dot(tile.to(tl.float16), tl.trans(tile).to(tl.float16)).to(tl.float32) * 2
        tl.store(out + tl.trans(at), tl.trans(tile))
    tl.store(out + at, tile)


@triton.jit(noinline=True)
def turn_over(x, out, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = turned(x, rows, columns, M, N)
    tl.store(out + rows[:, None] * N + columns[None, :], tile + tl.sum(tile, 1)[:, None])


@triton.jit
def calls(x, out, limit, BM: tl.constexpr, BN: tl.constexpr):
    """One function with a conversion in it, called twice and from a loop, with conversions around."""
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    turn_over(x, out, BM, BN)
    tile = turned(x, rows, columns, BM, BN)
    for i in range(limit):
        turn_over(x + i * 64, out + BM * BN * (i + 1), BM, BN)
        tile += turned(x + i * 64, rows, columns, BM, BN)
    tl.store(out + (limit + 1) * BM * BN + rows[:, None] * BN + columns[None, :], tile)


@triton.jit
def effects(x, out, limit, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    at = rows[:, None] * BN + columns[None, :]
    tile = turned(x, rows, columns, BM, BN)
    tl.device_assert(tile > 0, "positive")
    tl.device_print("tile", tile)
    tl.debug_barrier()
    total = tl.atomic_add(out + at, tile * 2)
    kept = tl.atomic_cas((out + limit).to(tl.pointer_type(tl.int32)), 0, 1)
    tl.store(out + at, tl.sort(total, 1) + kept + tl.cumsum(turned(x, rows, columns, BM, BN), 0))


@triton.jit
def tables(x, out, limit, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    at = rows[:, None] * BN + columns[None, :]
    tile = turned(x, rows, columns, BM, BN)
    picked = tl.gather(tile, tl.load(x + at).to(tl.int32) % BM, 0)
    counts = tl.histogram(tl.reshape(tile, [BM * BN]).to(tl.int32) & 63, 64)
    tl.store(out + BM * BN + tl.arange(0, 64), counts.to(tl.float32))
    tl.store(out + at, picked + tl.flip(tile, 1))


@triton.jit
def assembly(x, out, limit, BM: tl.constexpr, BN: tl.constexpr, ASM: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    at = rows[:, None] * BN + columns[None, :]
    tile = turned(x, rows, columns, BM, BN)
    moved = tl.inline_asm_elementwise(ASM, "=r,r", [tile], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(out + at, moved + tl.sum(tile, 1)[:, None])


@gluon.jit
def moved(x, out, N: gl.constexpr, source: gl.constexpr, destination: gl.constexpr):
    rows, columns = gl.arange(0, N, gl.SliceLayout(1, source)), gl.arange(0, N, gl.SliceLayout(0, source))
    tile = gl.convert_layout(gl.load(x + rows[:, None] * N + columns[None, :]), destination)
    rows, columns = (
        gl.arange(0, N, gl.SliceLayout(1, destination)),
        gl.arange(0, N, gl.SliceLayout(0, destination)),
    )
    gl.store(out + rows[:, None] * N + columns[None, :], tile)


@gluon.jit
def partitions(x, out, N: gl.constexpr, source: gl.constexpr, destination: gl.constexpr, near: gl.constexpr):
    """Conversions inside a warp and across warps, then two that only some warps run."""
    moved(x, out, N, source, near)
    moved(x, out, N, source, destination)
    gl.warp_specialize(
        [(moved, (x, out, N, source, destination)), (moved, (x + N, out + N * N, N, source, destination))],
        [4],
        [64],
    )


_SMALL = {"x": "*fp32", "out": "*fp32", "limit": "i32"}
_TILE = {"BM": 64, "BN": 64}
_ASM = {"cuda": "mov.b32 $0, $1; // __ll_cvt_0 gpu.barrier {", "hip": "v_mov_b32 $0, $1 ; __ll_cvt_0 {"}
KERNELS = {
    "in_branches": Case(in_branches, _SMALL, {"BM": 32, "BN": 64}),
    "carried": Case(carried, _SMALL, _TILE),
    "calls": Case(calls, _SMALL, {"BM": 32, "BN": 64}),
    "effects": Case(effects, _SMALL, {"BM": 16, "BN": 32}, {"debug": 1}),
    "tables": Case(tables, _SMALL, {"BM": 32, "BN": 32}),
    "assembly": Case(assembly, _SMALL, {**_TILE, "ASM": 0}),
    "clusters": Case(row_sums, {"x": "*fp32", "out": "*fp32"}, {"BM": 32, "BN": 64}, {"num_ctas": 2}),
    "clusters_dot": CASES["matmul_clusters"],
    "partitions": Case(partitions, {"x": "*fp32", "out": "*fp32"}, {}),
    "descriptors": CASES["descriptors"],
    "warp_specialised": CASES["warp_specialised"],
}


def source(name: str, gpu: GPUTarget) -> ASTSource:
    """The source of a kernel with aligned arguments."""
    case = KERNELS[name]
    constants: dict[str, Any] = dict(case.constants)
    if "ASM" in constants:
        constants["ASM"] = _ASM[gpu.backend]
    if case.kernel is partitions:
        constants = {
            "N": 32,
            "source": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]),
            "destination": gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1]),
            "near": gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0]),
        }
    if case.kernel is partitions:
        signature = {**case.signature, **dict.fromkeys(constants, "constexpr")}
        return GluonASTSource(partitions, signature, constants)
    return aligned(case.kernel, case.signature, constants, integers=False)


def ttgir(name: str, target: str) -> Any:
    """A kernel's module as Triton leaves it, whose IR a target can have."""
    return ttgir_of(source(name, TARGETS[target]), TARGETS[target], KERNELS[name].options)


@dataclass(frozen=True)
class Lowered:
    """What the stage `llir` made: with the plugin off, `report` is None."""

    llir: str
    metadata: Mapping[str, Any]
    report: Report | None


def lowered(
    given: ASTSource, gpu: GPUTarget, options: Mapping[str, Any], plugin: Mapping[str, Any] | None
) -> Lowered:
    """A source, up to LLVM IR; `plugin`: the options of the plugin, None where it is off."""
    if plugin is None:
        return _lowered(given, gpu, options)
    with triton_linear.enabled(**plugin) as reports:
        made = _lowered(given, gpu, options)
    (report,) = reports
    return Lowered(made.llir, made.metadata, report)


def _lowered(given: ASTSource, gpu: GPUTarget, options: Mapping[str, Any]) -> Lowered:
    backend: Any = make_backend(gpu)
    backend.hash()
    module = ttgir_of(given, gpu, options)
    chosen = backend.parse_options({**options, **given.parse_options()})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, chosen, given.language)
    metadata: dict[str, Any] = {"target": gpu, **chosen.__dict__}
    return Lowered(str(stages["llir"](module, metadata)), metadata, None)
