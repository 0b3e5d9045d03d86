"""Matrix products: of one type, of two, of four-bit weights, in groups; and a matrix times a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl

from bench.kernels.kernel import Kernel, Tensor
from triton_linear.examples.int4_matmul import int4_matmul_kernel

from .kernel_case import Drawn, Family, Fixed, Work, family

FAMILIES: list[Family] = []
MULTIPROCESSORS = 132


@triton.jit
def tile_of(program, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """The tile of a program, GROUP_M rows of tiles at a time, so that they share operands in the L2 cache."""
    in_group = GROUP_M * tiles_n
    first = program // in_group * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    return first + program % in_group % height, program % in_group // height


@triton.jit
def product(
    a_ptr,
    b_ptr,
    k,
    rows,
    columns,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    TYPE: tl.constexpr,
):
    """Rows of a times columns of b, each cast to TYPE once it is loaded."""
    inner = tl.arange(0, BLOCK_K)
    a = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        left = tl.load(a, mask=inner[None, :] < k - start, other=0.0)
        right = tl.load(b, mask=inner[:, None] < k - start, other=0.0)
        accumulator = tl.dot(left.to(TYPE), right.to(TYPE), accumulator)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    return accumulator


@triton.jit
def gemm_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    TYPE: tl.constexpr,
):
    """One tile of the product [m, n]; operands beyond its edges wrap around."""
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = (stride_am, stride_ak, stride_bk, stride_bn)
    accumulator = product(a_ptr, b_ptr, k, rows % m, columns % n, *steps, BLOCK_M, BLOCK_N, BLOCK_K, TYPE)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    offsets = rows[:, None] * n + columns[None, :]
    tl.store(out_ptr + offsets, accumulator.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def persistent_gemm_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    TYPE: tl.constexpr,
):
    """Every so many-th tile of the product [m, n], as there are programs."""
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    steps = (stride_am, stride_ak, stride_bk, stride_bn)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        accumulator = product(a_ptr, b_ptr, k, rows % m, columns % n, *steps, BLOCK_M, BLOCK_N, BLOCK_K, TYPE)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        offsets = rows[:, None] * n + columns[None, :]
        tl.store(out_ptr + offsets, accumulator.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def grouped_gemm_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    ends_ptr,
    groups,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Rows ends[g - 1] to ends[g] - 1 of a [rows, k] times b[g] [k, n], for every group g.

    A program takes every so many-th tile of all groups, as there are programs.
    """
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(n, BLOCK_N)
    before, start = 0, 0
    weights = b_ptr
    for group in range(groups):
        end = tl.load(ends_ptr + group)
        tiles = tl.cdiv(end - start, BLOCK_M) * tiles_n
        while tile < before + tiles:
            tile_m, tile_n = (tile - before) // tiles_n, (tile - before) % tiles_n
            rows = start + tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
            columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
            read = tl.minimum(rows, end - 1)
            accumulator = product(
                a_ptr, weights, k, read, columns % n, k, 1, n, 1, BLOCK_M, BLOCK_N, BLOCK_K, tl.float16
            )
            inside = (rows[:, None] < end) & (columns[None, :] < n)
            offsets = rows[:, None] * n + columns[None, :]
            tl.store(out_ptr + offsets, accumulator.to(tl.float16), mask=inside)
            tile += tl.num_programs(0)
        before += tiles
        start = end
        weights += n * k


@triton.jit
def gather_gemv_kernel(w_ptr, expert_ptr, x_ptr, out_ptr, n, k, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """BLOCK_N rows of w[expert[i]] times x, for w [experts, n, k] and the i of this program."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    w = w_ptr + tl.load(expert_ptr + tl.program_id(1)) * n * k + rows[:, None] * k + inner[None, :]
    total = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for start in range(0, k, BLOCK_K):
        x = tl.load(x_ptr + start + inner).to(tl.float32)
        total += tl.load(w).to(tl.float32) * x[None, :]
        w += BLOCK_K
    tl.store(out_ptr + tl.program_id(1) * n + rows, tl.sum(total, 1).to(tl.bfloat16))


Blocks = tuple[int, int, int, int, int]
"""BLOCK_M, BLOCK_N, BLOCK_K, warps, stages."""


def _blocks(m: int, n: int) -> Blocks:
    """Tiles that suit one Hopper GPU and types of two bytes."""
    if m <= 16:
        return 16, 64, 128, 4, 4
    if m * n <= 1024 * 1024:
        return 64, 64, 64, 4, 4
    if m * n < 4096 * 4096:
        return 128, 128, 64, 8, 4
    return 128, 256, 64, 8, 3


def _product(
    m: int,
    n: int,
    k: int,
    a: Tensor,
    b: Tensor,
    kind: Any,
    out: str,
    tolerance: float,
    blocks: Blocks,
    b_down: bool = False,
    persistent: bool = False,
) -> Work:
    """`b_down`: the elements of a column of b are neighbours."""
    block_m, block_n, block_k, warps, stages = blocks
    tiles = -(-m // block_m) * -(-n // block_n)
    strides = {"stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1}
    if b_down:
        strides |= {"stride_bk": 1, "stride_bn": k}

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        left, right = given["a_ptr"].double(), given["b_ptr"].double()
        return {"out_ptr": left @ (right.mT if b_down else right)}

    kernel = Kernel(
        persistent_gemm_kernel if persistent else gemm_kernel,
        {"a_ptr": a, "b_ptr": b},
        {"out_ptr": Tensor(out, (m, n))},
        (min(tiles, MULTIPROCESSORS) if persistent else tiles,),
        {"m": m, "n": n, "k": k, **strides},
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8, "TYPE": kind},
        {"num_warps": warps, "num_stages": stages},
    )
    return Work([kernel], reference, tolerance)


@family(
    FAMILIES,
    {"m": 16, "n": 8192, "k": 8192},
    {"m": 512, "n": 512, "k": 512},
    {"m": 2048, "n": 2048, "k": 2048},
    {"m": 4096, "n": 4096, "k": 4096},
    {"m": 4096, "n": 4096, "k": 1024, "persistent": True},
    small={"m": 70, "n": 50, "k": 72, "blocks": (16, 32, 16, 4, 1)},
    also=({"persistent": True}, {"m": 400, "n": 350, "persistent": True}),
)
def gemm(m: int, n: int, k: int, persistent: bool = False, blocks: Blocks | None = None) -> Work:
    """f16, both operands row-major."""
    a, b = Tensor("float16", (m, k)), Tensor("float16", (k, n))
    chosen = blocks or _blocks(m, n)
    return _product(m, n, k, a, b, tl.float16, "float16", 2e-3, chosen, persistent=persistent)


@family(
    FAMILIES,
    {"m": 16, "n": 1280, "k": 8192},
    {"m": 512, "n": 4096, "k": 4096},
    {"m": 2048, "n": 4096, "k": 4096},
    {"m": 2048, "n": 2048, "k": 2048, "left": True},
    # Triton's interpreter takes whole numbers for the bits of a bf16.
    small={"m": 40, "n": 50, "k": 72, "blocks": (16, 32, 16, 4, 1), "activations": "float16"},
    also=({"left": True},),
)
def bf16xint16_gemm(
    m: int,
    n: int,
    k: int,
    left: bool = False,
    blocks: Blocks | None = None,
    activations: str = "bfloat16",
) -> Work:
    """bf16 activations times int16 weights, cast to bf16 once loaded; `left`: the weights come first."""
    # Whole numbers that bf16 holds.
    kinds = (("int16", 256), (activations, None)) if left else ((activations, None), ("int16", 256))
    a, b = (Tensor(kind, shape, below) for (kind, below), shape in zip(kinds, ((m, k), (k, n)), strict=True))
    chosen = blocks or ((16, 64, 128, 4, 3) if m <= 16 else (128, 128, 64, 8, 3))
    return _product(m, n, k, a, b, getattr(tl, activations), activations, 1.6e-2, chosen)


@family(
    FAMILIES,
    {"m": 16, "n": 8192, "k": 8192},
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 2048, "n": 2048, "k": 2048},
    {"m": 4096, "n": 4096, "k": 4096},
    small={"m": 40, "n": 50, "k": 96, "blocks": (16, 32, 32, 4, 1)},
)
def fp8_gemm(m: int, n: int, k: int, blocks: Blocks | None = None) -> Work:
    """e4m3, the second operand column-major, as the hardware wants it."""
    a, b = Tensor("float8_e4m3fn", (m, k)), Tensor("float8_e4m3fn", (n, k))
    chosen = blocks or ((16, 64, 256, 4, 3) if m <= 16 else (128, 128, 128, 4 if m <= 1024 else 8, 3))
    return _product(m, n, k, a, b, tl.float8e4nv, "float16", 1e-2, chosen, b_down=True)


@family(
    FAMILIES,
    {"m": 16, "n": 4096, "k": 4096},
    {"m": 128, "n": 8192, "k": 8192},
    {"m": 512, "n": 4096, "k": 4096},
    {"m": 2048, "n": 4096, "k": 4096},
    small={"m": 20, "n": 40, "k": 256, "blocks": (16, 32, 64, 4, 1)},
)
def int4_gemm(m: int, n: int, k: int, blocks: Blocks | None = None) -> Work:
    """f16 activations times weights of four bits, two in a byte, with a scale for 128 rows."""
    chosen = blocks or ((16, 64, 128, 4, 3) if m <= 16 else (64, 128, 64, 4, 3))
    block_m, block_n, block_k, warps, stages = chosen

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        byte = given["packed_ptr"]
        weights = torch.stack(((byte << 4) >> 4, byte >> 4), 1).reshape(k, n).double()
        return {"out_ptr": given["a_ptr"] @ (weights * given["scale_ptr"].repeat_interleave(128, 0))}

    strides = {"stride_am": k, "stride_packed": n, "stride_scale": n, "stride_om": n}
    kernel = Kernel(
        int4_matmul_kernel,
        {
            "a_ptr": Tensor("float16", (m, k)),
            "packed_ptr": Tensor("int8", (k // 2, n), 128),
            "scale_ptr": Drawn("float16", (k // 128, n), then=lambda torch, x: x / k**0.5),
        },
        {"out_ptr": Tensor("float16", (m, n))},
        (-(-m // block_m), -(-n // block_n)),
        {"m": m, "n": n, "k": k, **strides},
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP": 128},
        {"num_warps": warps, "num_stages": stages},
    )
    return Work([kernel], reference, 5e-3)


@family(
    FAMILIES,
    {"groups": 4, "rows": 1024, "n": 1024, "k": 1024},
    {"groups": 8, "rows": 4096, "n": 2048, "k": 2048},
    {"groups": 16, "rows": 8192, "n": 2048, "k": 1024},
    {"groups": 64, "rows": 4096, "n": 1024, "k": 2048},
    small={"groups": 3, "rows": 70, "n": 40, "k": 48, "blocks": (16, 32, 16, 4, 1)},
)
def grouped_gemm(groups: int, rows: int, n: int, k: int, blocks: Blocks | None = None) -> Work:
    """f16 products of groups of rows, as many as experts have tokens, each with its own weights."""
    block_m, block_n, block_k, warps, stages = blocks or (
        (64, 128, 64, 4, 4) if rows // groups <= 256 else (128, 128, 64, 8, 3)
    )
    # Every second group has half as many rows more as the mean, the others as many fewer.
    mean = rows // groups
    ends = [mean * g + (mean // 2 if g % 2 else 0) for g in range(1, groups)] + [rows]

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        parts = zip([0, *ends], ends, given["b_ptr"], strict=False)
        return {"out_ptr": torch.cat([given["a_ptr"][start:end] @ b for start, end, b in parts])}

    kernel = Kernel(
        grouped_gemm_kernel,
        {
            "a_ptr": Tensor("float16", (rows, k)),
            "b_ptr": Tensor("float16", (groups, k, n)),
            "ends_ptr": Fixed("int32", (groups,), values=tuple(ends)),
        },
        {"out_ptr": Tensor("float16", (rows, n))},
        (MULTIPROCESSORS,),
        {"groups": groups, "n": n, "k": k},
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k},
        {"num_warps": warps, "num_stages": stages},
    )
    return Work([kernel], reference, 2e-3)


@family(
    FAMILIES,
    {"size": 1024},
    {"size": 2048},
    {"size": 4096},
    {"size": 8192},
    small={"size": 64, "blocks": (16, 32, 4)},
)
def gather_gemv(size: int, blocks: tuple[int, int, int] | None = None) -> Work:
    """Two of eight experts' int8 weights times one bf16 vector."""
    block_n, block_k, warps = blocks or (16, 512, 4)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        chosen = given["w_ptr"][given["expert_ptr"]].double()
        return {"out_ptr": chosen @ given["x_ptr"]}

    kernel = Kernel(
        gather_gemv_kernel,
        {
            "w_ptr": Tensor("int8", (8, size, size), 128),
            "expert_ptr": Tensor("int64", (2,), 8, True),
            "x_ptr": Tensor("bfloat16", (size,)),
        },
        {"out_ptr": Tensor("bfloat16", (2, size))},
        (size // block_n, 2),
        {"n": size, "k": size},
        {"BLOCK_N": block_n, "BLOCK_K": block_k},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 8e-3)
