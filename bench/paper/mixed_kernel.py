"""The kernel of the mixed-precision table. Tritons of old compile it too, so it imports nothing of ours."""

import triton
import triton.language as tl


@triton.jit
def mixed_matmul(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TYPE: tl.constexpr):
    """out [M, N] = a [M, K] b [K, N]: a of integers, b of floats, multiplied as TYPE."""
    rows = tl.arange(0, M)
    columns = tl.arange(0, N)
    inner = tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
    product = tl.dot(a.to(TYPE), b.to(TYPE))
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], product)
