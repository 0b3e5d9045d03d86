"""Warp-specialised matmul and attention in Gluon: one warp loads by TMA, eight compute, convert and store.

Tiles go through a ring of stages in shared memory. Each stage has two barriers: `full` completes when TMA has
written the bytes, `empty` when the warps have read them.

The matmul uses wgmma on Hopper, and tensor memory on Blackwell. Attention computes in e4m3, by wgmma on
Hopper and by mma on Blackwell. Its weights are the result of the first dot and operand 0 of the second, so
the loop converts them.
"""

from __future__ import annotations

from typing import Any

import triton.experimental.gluon.language as gl
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    mma_v2,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from triton_linear.examples.spec import KernelSpec, Problem
from triton_linear.examples.specialised import CAPABILITY, attention_reference, descriptors_on, matmul_problem

async_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
"""Before Triton 3.8 the function has the second name."""
BLACKWELL = 100
WARPS = 8
TILES = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "STAGES": 4}
HEAD_DIM = 128
BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 128, "HEAD_DIM": HEAD_DIM, "STAGES": 2}
ROWS = gl.BlockedLayout([1, 8], [2, 16], [WARPS, 1], [1, 0])
"""The layout of stores: a thread has eight neighbours of a row."""
FLAT = gl.BlockedLayout([1], [32], [WARPS], [0])


@gluon.jit
def load_matrices(a_ptr, b_ptr, m, n, k, a_ring, b_ring, full, empty, BLOCKS: gl.constexpr):
    """The loader: every tile of `a` and `b` that this program's tiles want, in order."""
    BLOCK_M: gl.constexpr = BLOCKS[0]
    BLOCK_N: gl.constexpr = BLOCKS[1]
    BLOCK_K: gl.constexpr = BLOCKS[2]
    STAGES: gl.constexpr = BLOCKS[3]
    a_tiles = tma.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [BLOCK_M, BLOCK_K], a_ring.type.layout)
    b_tiles = tma.make_tensor_descriptor(b_ptr, [n, k], [k, 1], [BLOCK_N, BLOCK_K], b_ring.type.layout)
    across = n // BLOCK_N
    step = 0
    for tile in range(gl.program_id(0), m // BLOCK_M * across, gl.num_programs(0)):
        row = tile // across * BLOCK_M
        column = tile % across * BLOCK_N
        for start in range(0, k, BLOCK_K):
            stage = step % STAGES
            # The first round finds every stage empty.
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), (BLOCK_M + BLOCK_N) * BLOCK_K * 2)
            async_load(a_tiles, [row, start], full.index(stage), a_ring.index(stage))
            async_load(b_tiles, [column, start], full.index(stage), b_ring.index(stage))
            step += 1


@gluon.jit
def store_tile(accumulator, bias_ptr, out_ptr, row, column, n, STORED: gl.constexpr, FLAT: gl.constexpr):
    """The epilogue: the bias comes to the accumulator's columns, the result to rows."""
    BLOCK_M: gl.constexpr = accumulator.type.shape[0]
    BLOCK_N: gl.constexpr = accumulator.type.shape[1]
    bias = gl.load(bias_ptr + column + gl.arange(0, BLOCK_N, FLAT))
    bias = gl.convert_layout(bias, gl.SliceLayout(0, accumulator.type.layout))
    out = gl.maximum(accumulator + bias[None, :], 0.0).to(gl.float16)
    rows = row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, STORED))
    columns = column + gl.arange(0, BLOCK_N, gl.SliceLayout(0, STORED))
    gl.store(out_ptr + rows[:, None] * n + columns[None, :], gl.convert_layout(out, STORED))


@gluon.jit
def multiply(bias_ptr, out_ptr, m, n, k, a_ring, b_ring, full, empty, done, memory, BLOCKS: gl.constexpr,
             MMA: gl.constexpr, STORED: gl.constexpr, FLAT: gl.constexpr):  # fmt: skip
    """The computing warps; `MMA` is the accumulator's layout on Hopper, None where it is in tensor memory."""
    BLOCK_M: gl.constexpr = BLOCKS[0]
    BLOCK_N: gl.constexpr = BLOCKS[1]
    BLOCK_K: gl.constexpr = BLOCKS[2]
    STAGES: gl.constexpr = BLOCKS[3]
    across = n // BLOCK_N
    step = 0
    for turn in range(gl.cdiv(m // BLOCK_M * across - gl.program_id(0), gl.num_programs(0))):
        tile = gl.program_id(0) + turn * gl.num_programs(0)
        row = tile // across * BLOCK_M
        column = tile % across * BLOCK_N
        if MMA is None:
            for start in range(0, k, BLOCK_K):
                stage = step % STAGES
                mbarrier.wait(full.index(stage), step // STAGES & 1)
                tcgen05_mma(
                    a_ring.index(stage),
                    b_ring.index(stage).permute((1, 0)),
                    memory,
                    use_acc=start > 0,
                    mbarriers=[empty.index(stage)],
                )
                step += 1
            tcgen05_commit(done)
            mbarrier.wait(done, turn & 1)
            store_tile(memory.load(), bias_ptr, out_ptr, row, column, n, STORED, FLAT)
        else:
            accumulator = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, MMA)
            for _ in range(0, k, BLOCK_K):
                stage = step % STAGES
                mbarrier.wait(full.index(stage), step // STAGES & 1)
                accumulator = warpgroup_mma(
                    a_ring.index(stage), b_ring.index(stage).permute((1, 0)), accumulator, is_async=True
                )
                accumulator = warpgroup_mma_wait(0, deps=[accumulator])
                mbarrier.arrive(empty.index(stage), count=1)
                step += 1
            store_tile(accumulator, bias_ptr, out_ptr, row, column, n, STORED, FLAT)


@gluon.jit
def gluon_matmul(a_ptr, b_ptr, bias_ptr, out_ptr, m, n, k, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr,
                 BLOCK_K: gl.constexpr, STAGES: gl.constexpr, SHARED: gl.constexpr, MMA: gl.constexpr,
                 MEMORY: gl.constexpr, STORED: gl.constexpr, FLAT: gl.constexpr):  # fmt: skip
    """out = max(a b^T + bias, 0) of f16 `a` [m, k] and `b` [n, k]; the sizes are multiples of the blocks."""
    BLOCKS: gl.constexpr = (BLOCK_M, BLOCK_N, BLOCK_K, STAGES)
    a_ring = gl.allocate_shared_memory(gl.float16, [STAGES, BLOCK_M, BLOCK_K], SHARED)
    b_ring = gl.allocate_shared_memory(gl.float16, [STAGES, BLOCK_N, BLOCK_K], SHARED)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    memory = done
    if MMA is None:
        memory = allocate_tensor_memory(gl.float32, [BLOCK_M, BLOCK_N], MEMORY)
    gl.warp_specialize(
        [
            (
                multiply,
                (
                    bias_ptr,
                    out_ptr,
                    m,
                    n,
                    k,
                    a_ring,
                    b_ring,
                    full,
                    empty,
                    done,
                    memory,
                    BLOCKS,
                    MMA,
                    STORED,
                    FLAT,
                ),
            ),
            (load_matrices, (a_ptr, b_ptr, m, n, k, a_ring, b_ring, full, empty, BLOCKS)),
        ],
        [1],
        [24],
    )


@gluon.jit
def load_heads(q_ptr, k_ptr, v_ptr, length, q_tile, k_ring, v_ring, loaded, full, empty, BLOCKS: gl.constexpr):
    """The loader: the program's queries, then all keys and values of its head."""
    BLOCK_M: gl.constexpr = BLOCKS[0]
    BLOCK_N: gl.constexpr = BLOCKS[1]
    HEAD_DIM: gl.constexpr = BLOCKS[2]
    STAGES: gl.constexpr = BLOCKS[3]
    head = gl.program_id(1)
    tokens = gl.num_programs(1) * length
    channels = gl.num_programs(1) * HEAD_DIM
    layout: gl.constexpr = q_tile.type.layout
    q_tiles = tma.make_tensor_descriptor(q_ptr, [tokens, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM], layout)
    k_tiles = tma.make_tensor_descriptor(k_ptr, [tokens, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM], layout)
    v_tiles = tma.make_tensor_descriptor(v_ptr, [channels, length], [length, 1], [HEAD_DIM, BLOCK_N], layout)
    mbarrier.expect(loaded, BLOCK_M * HEAD_DIM)
    async_load(q_tiles, [head * length + gl.program_id(0) * BLOCK_M, 0], loaded, q_tile)
    for step in range(length // BLOCK_N):
        start = step * BLOCK_N
        stage = step % STAGES
        mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
        bar = full.index(stage)
        mbarrier.expect(bar, 2 * BLOCK_N * HEAD_DIM)
        async_load(k_tiles, [head * length + start, 0], bar, k_ring.index(stage))
        async_load(v_tiles, [head * HEAD_DIM, start], bar, v_ring.index(stage))


@gluon.jit
def attend(out_ptr, lse_ptr, scale, length, q_tile, k_ring, v_ring, loaded, full, empty, BLOCKS: gl.constexpr,
           MMA: gl.constexpr, STORED: gl.constexpr, FLAT: gl.constexpr):  # fmt: skip
    """The computing warps: the online softmax, and both dots of each block of keys."""
    BLOCK_M: gl.constexpr = BLOCKS[0]
    BLOCK_N: gl.constexpr = BLOCKS[1]
    HEAD_DIM: gl.constexpr = BLOCKS[2]
    STAGES: gl.constexpr = BLOCKS[3]
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MMA, 4)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, 4)
    running_max = gl.full([BLOCK_M], float("-inf"), gl.float32, gl.SliceLayout(1, MMA))
    running_sum = gl.full([BLOCK_M], 0.0, gl.float32, gl.SliceLayout(1, MMA))
    accumulator = gl.zeros([BLOCK_M, HEAD_DIM], gl.float32, MMA)
    mbarrier.wait(loaded, 0)
    for step in range(length // BLOCK_N):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        k = k_ring.index(stage).permute((1, 0))
        v = v_ring.index(stage).permute((1, 0))
        scores = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, MMA)
        if MMA.version[0] == 3:
            scores = warpgroup_mma(q_tile, k, scores, use_acc=False)
        else:
            scores = mma_v2(q_tile.load(LEFT), k.load(RIGHT), scores)
        scores *= scale * 1.4426950408889634
        new_max = gl.maximum(running_max, gl.max(scores, 1))
        weights = gl.exp2(scores - new_max[:, None])
        correction = gl.exp2(running_max - new_max)
        running_sum = running_sum * correction + gl.sum(weights, 1)
        accumulator *= correction[:, None]
        weights = gl.convert_layout(weights.to(gl.float8e4nv), LEFT)
        if MMA.version[0] == 3:
            accumulator = warpgroup_mma(weights, v, accumulator)
        else:
            accumulator = mma_v2(weights, v.load(RIGHT), accumulator)
        mbarrier.arrive(empty.index(stage), count=1)
        running_max = new_max
    first = gl.program_id(1) * length + gl.program_id(0) * BLOCK_M
    out = (accumulator / running_sum[:, None]).to(gl.float16)
    rows = first + gl.arange(0, BLOCK_M, gl.SliceLayout(1, STORED))
    channels = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, STORED))
    gl.store(out_ptr + rows[:, None] * HEAD_DIM + channels[None, :], gl.convert_layout(out, STORED))
    lse = gl.convert_layout(running_max + gl.log2(running_sum), FLAT)
    gl.store(lse_ptr + first + gl.arange(0, BLOCK_M, FLAT), lse)


@gluon.jit
def gluon_attention(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, length, BLOCK_M: gl.constexpr,
                    BLOCK_N: gl.constexpr, HEAD_DIM: gl.constexpr, STAGES: gl.constexpr, SHARED: gl.constexpr,
                    MMA: gl.constexpr, STORED: gl.constexpr, FLAT: gl.constexpr):  # fmt: skip
    """softmax(q k^T scale) v of e4m3, and the logarithm of its sums to base 2.

    `q` and `k` are [heads, length, HEAD_DIM], `v` is [heads, HEAD_DIM, length]; `length` is a multiple of both
    blocks.
    """
    BLOCKS: gl.constexpr = (BLOCK_M, BLOCK_N, HEAD_DIM, STAGES)
    q_tile = gl.allocate_shared_memory(gl.float8e4nv, [BLOCK_M, HEAD_DIM], SHARED)
    k_ring = gl.allocate_shared_memory(gl.float8e4nv, [STAGES, BLOCK_N, HEAD_DIM], SHARED)
    v_ring = gl.allocate_shared_memory(gl.float8e4nv, [STAGES, HEAD_DIM, BLOCK_N], SHARED)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (
                attend,
                (out_ptr, lse_ptr, scale, length, q_tile, k_ring, v_ring, loaded, full, empty,
                 BLOCKS, MMA, STORED, FLAT),
            ),
            (load_heads, (q_ptr, k_ptr, v_ptr, length, q_tile, k_ring, v_ring, loaded, full, empty, BLOCKS)),
        ],
        [1],
        [24],
    )  # fmt: skip


def matmul_constants(arch: int) -> dict[str, Any]:
    """The matmul's blocks and layouts."""
    block = [TILES["BLOCK_M"], TILES["BLOCK_N"]]
    blackwell = arch >= BLACKWELL
    return TILES | {
        "SHARED": gl.NVMMASharedLayout(128, 16, 2),
        "MMA": None if blackwell else gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, block[1], 16]),
        "MEMORY": TensorMemoryLayout(block, col_stride=1) if blackwell else None,
        "STORED": ROWS,
        "FLAT": FLAT,
    }


def attention_constants(arch: int) -> dict[str, Any]:
    """Attention's blocks and layouts."""
    version, shape = ([2, 0], [16, 8]) if arch >= BLACKWELL else ([3, 0], [16, HEAD_DIM, 32])
    return BLOCKS | {
        "SHARED": gl.NVMMASharedLayout(128, 8, 2),
        "MMA": gl.NVMMADistributedLayout(version, [WARPS, 1], shape),
        "STORED": ROWS,
        "FLAT": FLAT,
    }


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """Both kernels; none for GPUs without TMA."""
    if target.backend != "cuda" or target.arch < CAPABILITY:
        return ()
    options = {"num_warps": WARPS}
    matrices = {"a_ptr": "*fp16", "b_ptr": "*fp16", "bias_ptr": "*fp32", "out_ptr": "*fp16"}
    heads = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), "*fp8e4nv") | {"out_ptr": "*fp16", "lse_ptr": "*fp32"}
    sizes = dict.fromkeys("mnk", "i32")
    return (
        KernelSpec(
            "gluon_matmul",
            gluon_matmul,
            matrices | sizes,
            matmul_constants(target.arch),
            (*matrices, *sizes),
            options,
        ),
        KernelSpec(
            "gluon_attention",
            gluon_attention,
            heads | {"scale": "fp32", "length": "i32"},
            attention_constants(target.arch),
            (*heads, "length"),
            options,
        ),
    )


def attention_problem(device: str, arch: int, heads: int = 64, length: int = 2048) -> Problem:
    """Attention of random e4m3; weights are rounded to three bits of fraction."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    shape = (3, heads, length, HEAD_DIM)
    q, k, v = torch.randn(shape, device=device, generator=generator).to(torch.float8_e4m3fn).unbind(0)
    transposed = v.mT.contiguous()
    scale = HEAD_DIM**-0.5
    descriptors_on(device)

    def launch() -> dict[str, Any]:
        out = torch.empty(heads, length, HEAD_DIM, device=device, dtype=torch.float16)
        lse = torch.empty(heads, length, device=device)
        grid = (length // BLOCKS["BLOCK_M"], heads)
        gluon_attention[grid](
            q, k, transposed, out, lse, scale, length, **attention_constants(arch), num_warps=WARPS
        )
        return {"out": out, "lse": lse}

    return Problem("gluon attention", launch, lambda: attention_reference(q, k, v, scale), tolerance=8e-2)


def problems(device: str, arch: int) -> tuple[Problem, ...]:
    """Both kernels on a GPU against PyTorch."""
    options = {**matmul_constants(arch), "num_warps": WARPS}
    matmul = matmul_problem("gluon matmul", gluon_matmul, options, device)
    return matmul, attention_problem(device, arch)
