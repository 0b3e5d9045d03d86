"""Kernels like attention, whose second dot takes what the first gives, in many variations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from aligned_sources import aligned
from triton.backends.compiler import GPUTarget

from triton_linear.tools.support.backend import ttgir_of

TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:89": GPUTarget("cuda", 89, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:120": GPUTarget("cuda", 120, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}


@triton.jit
def softmax_step(s, m, l):
    new = tl.maximum(m, tl.max(s, 1))
    p = tl.exp2(s - new[:, None])
    fade = tl.exp2(m - new)
    return p, fade, new, l * fade + tl.sum(p, 1)


@triton.jit
def multiplied(p, v, acc):
    if v.dtype == tl.int8:
        acc += tl.dot(p.to(tl.int8), v).to(tl.float32)
    else:
        acc = tl.dot(p.to(v.dtype), v, acc)
    return acc


@triton.jit
def attention(
    Q, K, V, X, O, P, T, scale, length, stride,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
    K_ROWS: tl.constexpr, V_TURNED: tl.constexpr, MASK: tl.constexpr, CAUSAL: tl.constexpr,
    HINT: tl.constexpr, TWICE: tl.constexpr, LAST: tl.constexpr,
    SUMS: tl.constexpr, PAGED: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    """One pass over the rows of K and V, whose addresses are computed anew each turn.

    HINT, PAGED: what is promised of the rows, and by which tables they come. TWICE: another dot takes P too.
    """
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, N)
    inner = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + inner[None, :])
    m = tl.full([M], -float("inf"), tl.float32)
    l = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    acc2 = tl.zeros([M, D], tl.float32)
    kept = tl.zeros([M, N], tl.float32)
    for start in range(0, length, N):
        n = start + columns
        nk = n
        nv = n
        if PAGED == 1:  # K's and V's rows by one table
            nk = tl.load(T + n)
            nv = nk
        if PAGED == 2:  # K's by one, V's as they are
            nk = tl.load(T + n)
        if HINT == 1:
            nk = tl.max_contiguous(tl.multiple_of(n % length, 16), 16)
            nv = nk
        if HINT == 2:
            nk = tl.max_contiguous(tl.multiple_of(n, N), N)
        if K_ROWS:
            kp = K + nk[:, None] * stride + inner[None, :]
            k = tl.load(kp, mask=n[:, None] < length, other=0.0) if MASK else tl.load(kp)
            k = k.trans()
        else:
            kp = K + nk[None, :] * stride + inner[:, None]
            k = tl.load(kp, mask=n[None, :] < length, other=0.0) if MASK else tl.load(kp)
        s = tl.dot(q, k).to(tl.float32) * scale
        if MASK:
            s = tl.where(n[None, :] < length, s, -float("inf"))
        if CAUSAL:
            s = tl.where(rows[:, None] >= n[None, :], s, -float("inf"))
        if BIAS:
            bias = (rows[:, None] - n[None, :]).to(tl.float32)
            s += bias
        p, fade, m, l = softmax_step(s, m, l)
        if SUMS:
            p = p + tl.cumsum(p, 1)
        if LAST:
            kept = p
        if V_TURNED:
            v = tl.load(V + inner[None, :] * stride + nv[:, None])
        else:
            v = tl.load(V + nv[:, None] * stride + inner[None, :])
        acc = acc * fade[:, None]
        if BIAS:
            acc += multiplied(p, v, bias)
        else:
            acc = multiplied(p, v, acc)
        if TWICE:
            x = tl.load(X + nk[:, None] * stride + inner[None, :])
            if BIAS:
                acc2 += multiplied(p * 2.0, x, bias)
            else:
                acc2 = multiplied(p * 2.0, x, acc2)
    at = O + rows[:, None] * D + inner[None, :]
    tl.store(at, acc / l[:, None])
    if TWICE:
        tl.store(at + 1048576, acc2)
    if LAST:
        tl.store(P + rows[:, None] * stride + columns[None, :], kept)


@triton.jit
def carried(
    Q, K, V, X, O, P, T, scale, length, stride,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
    K_ROWS: tl.constexpr, MASK: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """The pointers are carried round the loop; SHARED: V's are K's moved."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, N)
    inner = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + inner[None, :])
    acc = tl.zeros([M, D], tl.float32)
    last = tl.zeros([M, N], tl.float32)
    if K_ROWS:
        kp = K + columns[:, None] * stride + inner[None, :]
    else:
        kp = K + columns[None, :] * stride + inner[:, None]
    vp = V + columns[:, None] * stride + inner[None, :]
    for start in range(0, length, N):
        at = start + columns
        inside = at[:, None] < length if K_ROWS else at[None, :] < length
        k = tl.load(kp, mask=inside, other=0.0) if MASK else tl.load(kp)
        v = tl.load(kp + 1048576) if SHARED else tl.load(vp)
        if K_ROWS:
            k = k.trans()
        elif SHARED:
            v = v.trans()
        p = tl.exp2(tl.dot(q, k) * scale)
        last = p
        acc = multiplied(p, v, acc)
        kp += N * stride
        vp += N * stride
    tl.store(O + rows[:, None] * D + inner[None, :], acc)
    tl.store(P + rows[:, None] * N + columns[None, :], last)


@triton.jit
def backward(
    Q, K, V, X, O, P, T, scale, length, stride, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Gradients of V (P^T dO) and K (dS^T Q) for one block of rows of K and V."""
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, D)
    k = tl.load(K + columns[:, None] * stride + inner[None, :])
    v = tl.load(V + columns[:, None] * stride + inner[None, :])
    dv = tl.zeros([N, D], tl.float32)
    dk = tl.zeros([N, D], tl.float32)
    for start in range(0, length, M):
        rows = start + tl.arange(0, M)
        q = tl.load(Q + rows[:, None] * stride + inner[None, :])
        do = tl.load(X + rows[:, None] * stride + inner[None, :])
        p = tl.exp2(tl.dot(q, k.trans()) * scale - tl.load(P + rows)[:, None])
        dv = tl.dot(p.to(do.dtype).trans(), do, dv)
        ds = p * (tl.dot(do, v.trans()) - tl.load(P + length + rows)[:, None])
        dk = tl.dot(ds.to(q.dtype).trans(), q, dk)
    tl.store(O + columns[:, None] * D + inner[None, :], dv)
    tl.store(O + 1048576 + columns[:, None] * D + inner[None, :], dk)


@triton.jit
def one_turn_late(
    Q, K, V, X, O, P, T, scale, length, stride, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A loop carries what the second dot takes from one turn to the next."""
    m, d, j = tl.arange(0, M), tl.arange(0, D), tl.arange(0, N)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    acc = tl.zeros([M, D], tl.float32)
    scores = tl.dot(q, tl.load(K + j[None, :] * D + d[:, None])).to(q.dtype)
    for start in range(0, length, N):
        later = tl.dot(q, tl.load(K + (start + N + j)[None, :] * D + d[:, None]))
        acc = tl.dot(scores, tl.load(V + (start + j)[:, None] * D + d[None, :]), acc)
        scores = later.to(q.dtype)
    tl.store(O + m[:, None] * D + d[None, :], acc)


@dataclass(frozen=True)
class Variation:
    """A kernel for a GPU, with the element type of what it multiplies, its constants (blocks of 64 elements and
    no flags are the default) and its options."""

    kernel: Any
    gpu: str
    element: str = "fp16"
    constants: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)

    def ttgir(self) -> str:
        """The text of the module as the backend of the GPU leaves its TTGIR stage."""
        pointer = f"*{self.element}"
        signature = {**dict.fromkeys("QKVX", pointer), "O": "*fp32", "P": "*fp32"}
        signature |= {"T": "*i32", "scale": "fp32", "length": "i32", "stride": "i32"}
        flags = [parameter.name for parameter in self.kernel.params if parameter.is_constexpr]
        constants = {**dict.fromkeys(flags, 0), "M": 64, "N": 64, "D": 64, **self.constants}
        source = aligned(self.kernel, signature, constants)
        return str(ttgir_of(source, TARGETS[self.gpu], self.options))
