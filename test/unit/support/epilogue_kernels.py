"""Matmuls for Blackwell whose epilogues need more registers than a thread has."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ROWS, COLUMNS, DEPTH = 128, 256, 64
BLACKWELL = GPUTarget("cuda", 100, 32)


@triton.jit
def epilogue(  # type: ignore[no-untyped-def]
    A,
    B,
    C,
    R,
    bias,
    M,
    N,
    K,
    scale,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    RESIDUAL: tl.constexpr,
):
    """C = f(scale * A B) + R, or + bias, with f(x) = x * sigmoid(1.702 x)."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(B, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(C, [M, N], [N, 1], [BM, BN])
    r = tl.make_tensor_descriptor(R, [M, N], [N, 1], [BM, BN])
    x = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.dot(a.load([m, k]), b.load([k, n]), x)
    x = x * scale
    x = x * (1 / (1 + tl.exp(-1.702 * x)))
    if RESIDUAL:
        x += r.load([m, n]).to(tl.float32)
    else:
        x += tl.load(bias + n + tl.arange(0, BN))[None, :]
    c.store([m, n], x.to(tl.float16))


def source(residual: bool) -> ASTSource:
    """The kernel with a residual or a bias, its sizes and pointers multiples of 16."""
    sizes = {"BM": ROWS, "BN": COLUMNS, "BK": DEPTH, "RESIDUAL": residual}
    signature = dict.fromkeys("ABCR", "*fp16") | {"bias": "*fp32"} | dict.fromkeys("MNK", "i32")
    signature |= {"scale": "fp32"} | dict.fromkeys(sizes, "constexpr")
    attributes = {(index,): [["tt.divisibility", 16]] for index in range(8)}
    return ASTSource(epilogue, signature, constexprs=sizes, attrs=attributes)
