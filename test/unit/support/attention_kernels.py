"""Kernels like attention, whose second dot takes what the first gives, in many variations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_linear.tools.support.frontend import ttgir_of

TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:89": GPUTarget("cuda", 89, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:120": GPUTarget("cuda", 120, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
    "hip:gfx950": GPUTarget("hip", "gfx950", 64),
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
    K_ROWS: tl.constexpr, K_TURNED: tl.constexpr, V_TURNED: tl.constexpr,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, HINT: tl.constexpr, KEEP_P: tl.constexpr,
    TWICE: tl.constexpr, LAST: tl.constexpr, EXTRA: tl.constexpr, PAGED: tl.constexpr,
    BIAS: tl.constexpr,
):  # fmt: skip
    """One pass over the rows of K and V, whose addresses are computed anew each turn."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, N)
    inner = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + inner[None, :])
    m = tl.full([M], -float("inf"), tl.float32)
    l = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    acc2 = tl.zeros([M, D], tl.float32)
    kept = tl.zeros([M, N], tl.float32)
    best = tl.zeros([M], tl.int32)
    for start in range(0, length, N):
        n = start + columns
        nk = n
        nv = n
        if PAGED == 1:  # K's and V's rows by one table
            nk = tl.load(T + n)
            nv = nk
        if PAGED == 2:  # K's by one, V's as they are
            nk = tl.load(T + n)
        if PAGED == 3:  # the table's entries are promised to be in rows
            nk = tl.max_contiguous(tl.multiple_of(tl.load(T + n), 16), 16)
            nv = nk
        if HINT == 1:
            nk = tl.max_contiguous(tl.multiple_of(n % length, 16), 16)
            nv = nk
        if HINT == 2:
            nk = tl.max_contiguous(tl.multiple_of(n, N), N)
        if K_TURNED:
            k = tl.load(K + nk[None, :] + inner[:, None] * stride)
        elif K_ROWS:
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
        if BIAS == 1:
            s += tl.load(X + rows[:, None] * stride + n[None, :]).to(tl.float32)
        if BIAS == 2:
            bias = (rows[:, None] - n[None, :]).to(tl.float32)
            s += bias
        p, fade, m, l = softmax_step(s, m, l)
        if EXTRA == 1:
            best += tl.argmax(s, 1)
        if EXTRA == 2:
            s = tl.cumsum(p, 1)
            p = p + s
        if EXTRA == 3:
            best += tl.reduce(best[:, None] * columns[None, :], 1, _less)
        if KEEP_P:
            tl.store(P + rows[:, None] * stride + n[None, :], p)
        if LAST:
            kept = p
        if V_TURNED:
            v = tl.load(V + inner[None, :] * stride + nv[:, None])
        else:
            v = tl.load(V + nv[:, None] * stride + inner[None, :])
        acc = acc * fade[:, None]
        if BIAS == 2 and D == N:
            acc += multiplied(p, v, bias)
        else:
            acc = multiplied(p, v, acc)
        if TWICE == 1:
            x = tl.load(X + n[:, None] * stride + inner[None, :])
            acc2 = multiplied(p, x, acc2)
        if TWICE == 2:
            x = tl.load(X + nv[:, None] * stride + inner[None, :])
            acc2 = multiplied(p * 2.0, x, acc2)
        if TWICE >= 3:
            x = tl.load(X + nk[:, None] * stride + inner[None, :])
            if TWICE == 4:
                acc2 += multiplied(p * 2.0, x, bias)
            else:
                acc2 = multiplied(p * 2.0, x, acc2)
    at = O + rows[:, None] * D + inner[None, :]
    tl.store(at, acc / l[:, None])
    if TWICE:
        tl.store(at + 1048576, acc2)
    if LAST:
        tl.store(P + rows[:, None] * stride + columns[None, :], kept)
    if EXTRA:
        tl.store(P + rows, best.to(tl.float32))


@triton.jit
def _less(a, b):
    return a - 2 * b


@triton.jit
def carried(
    Q, K, V, X, O, P, T, scale, length, stride,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
    K_ROWS: tl.constexpr, V_TURNED: tl.constexpr, MASK: tl.constexpr,
    SHARED: tl.constexpr, NESTED: tl.constexpr, WHILE: tl.constexpr,
):  # fmt: skip
    """The pointers are carried round the loop; SHARED: V's are K's moved; NESTED: twice over, in a loop."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, N)
    inner = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + inner[None, :])
    acc = tl.zeros([M, D], tl.float32)
    last = tl.zeros([M, N], tl.float32)
    for turn in range(0, 2 if NESTED else 1):
        if K_ROWS:
            kp = K + turn * 4096 + columns[:, None] * stride + inner[None, :]
        else:
            kp = K + turn * 4096 + columns[None, :] * stride + inner[:, None]
        if V_TURNED:
            vp = V + inner[None, :] * stride + columns[:, None]
        else:
            vp = V + columns[:, None] * stride + inner[None, :]
        if WHILE:
            start = 0
            while start < length:
                k = tl.load(K + (start + columns)[None, :] * stride + inner[:, None])
                p = tl.exp2(tl.dot(q, k) * scale)
                last = p
                v = tl.load(V + (start + columns)[:, None] * stride + inner[None, :])
                acc = multiplied(p, v, acc)
                start += N
        else:
            for start in range(0, length, N):
                if K_ROWS:
                    k = (
                        tl.load(kp, mask=(start + columns)[:, None] < length, other=0.0)
                        if MASK
                        else tl.load(kp)
                    )
                    v = tl.load(kp + 1048576) if SHARED else tl.load(vp)
                    k = k.trans()
                else:
                    k = (
                        tl.load(kp, mask=(start + columns)[None, :] < length, other=0.0)
                        if MASK
                        else tl.load(kp)
                    )
                    v = tl.load(kp + 1048576).trans() if SHARED else tl.load(vp)
                p = tl.exp2(tl.dot(q, k) * scale)
                last = p
                acc = multiplied(p, v, acc)
                kp += N * stride
                vp += N if V_TURNED else N * stride
    tl.store(O + rows[:, None] * D + inner[None, :], acc)
    tl.store(P + rows[:, None] * N + columns[None, :], last)


@triton.jit
def backward(
    Q, K, V, X, O, P, T, scale, length, stride,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, TURNED: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Gradients of V (P^T dO), K (dS^T Q) and Q (dS K) for one block of rows of K and V."""
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
        m = tl.load(P + rows)
        if TURNED:
            pt = tl.exp2(tl.dot(k, q.trans()) * scale - m[None, :])
            dv = tl.dot(pt.to(do.dtype), do, dv)
            dst = pt * (tl.dot(v, do.trans()) - tl.load(P + length + rows)[None, :])
            dk = tl.dot(dst.to(q.dtype), q, dk)
            if ALL:
                dq = tl.dot(dst.to(k.dtype).trans(), k)
                tl.store(T + rows[:, None] * D + inner[None, :], dq)
        else:
            p = tl.exp2(tl.dot(q, k.trans()) * scale - m[:, None])
            dv = tl.dot(p.to(do.dtype).trans(), do, dv)
            ds = p * (tl.dot(do, v.trans()) - tl.load(P + length + rows)[:, None])
            dk = tl.dot(ds.to(q.dtype).trans(), q, dk)
            if ALL:
                dq = tl.dot(ds.to(k.dtype), k)
                tl.store(T + rows[:, None] * D + inner[None, :], dq)
    tl.store(O + columns[:, None] * D + inner[None, :], dv)
    tl.store(O + 1048576 + columns[:, None] * D + inner[None, :], dk)


@dataclass(frozen=True)
class Variation:
    """A kernel for a GPU, with the element type of what it multiplies, its constants (blocks of 64 elements and
    no flags are the default) and its options."""

    kernel: Any
    gpu: str
    element: str = "fp16"
    constants: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)
    near: bool = False
    """Whether offsets from all pointers are promised to be of 32 bits, so that AMD GPUs can use buffers."""

    def ttgir(self) -> str:
        """The text of the module as the backend of the GPU leaves its TTGIR stage."""
        pointer = f"*{self.element}"
        signature = {**dict.fromkeys("QKVX", pointer), "O": "*fp32", "P": "*fp32"}
        signature |= {"T": "*fp32" if self.kernel is backward else "*i32", "scale": "fp32"}
        signature |= {"length": "i32", "stride": "i32"}
        flags = [parameter.name for parameter in self.kernel.params if parameter.is_constexpr]
        constants = {**dict.fromkeys(flags, 0), "M": 64, "N": 64, "D": 64, **self.constants}
        promises = [["tt.divisibility", 16], *([["tt.pointer_range", 32]] if self.near else [])]
        aligned = {
            (place,): promises if "*" in kind else promises[:1]
            for place, kind in enumerate(signature.values())
            if kind != "fp32"
        }
        signature |= dict.fromkeys(constants, "constexpr")
        source = ASTSource(self.kernel, signature, constexprs=constants, attrs=aligned)
        return str(ttgir_of(source, TARGETS[self.gpu], self.options))
