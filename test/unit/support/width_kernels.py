"""Kernels that access rows of few bytes, and a way to compile them for a GPU that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from bridge_kernels import TARGETS
from triton.compiler import ASTSource

from triton_linear.tools.support.backend import ttgir_of


@triton.jit
def copy(X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr):
    """Rows of K elements; of those that are there, or that are one after another, only."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, K)[None, :]
    at = r * stride + c if STRIDE else r * K + c
    if MASK:
        tl.store(Y + at, tl.load(X + at, mask=r < rows, other=7.0), mask=r < rows)
    else:
        tl.store(Y + at, tl.load(X + at))


@triton.jit
def columns(X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr):
    """The same tensor with its dimensions the other way round."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = tl.arange(0, K)[:, None]
    at = r * stride + c if STRIDE else r * K + c
    x = tl.load(X + at, mask=r < rows) if MASK else tl.load(X + at)
    tl.store(Y + at, x, mask=(r < rows) & (c < K))


@triton.jit
def pairs(X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr):
    """Real and imaginary parts that lie side by side, multiplied; K pairs a row."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None, None]
    k = tl.arange(0, K)[None, :, None]
    at = (r * K + k) * 2 + tl.arange(0, 2)[None, None, :]
    a, b = tl.split(tl.load(X + at, mask=r < rows) if MASK else tl.load(X + at))
    tl.store(Y + at, tl.join(a * a - b * b, 2 * a * b), mask=r < rows if MASK else None)


@triton.jit
def sums(X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr):
    """Rows of K elements, turn after turn: each less what they add up to, and the sums."""
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, K)[None, :]
    at = X + r * K + c
    for start in range(0, rows, ROWS):
        there = start + r < rows if MASK else None
        x = tl.load(at, mask=there, other=0.0 if MASK else None, eviction_policy="evict_first")
        total = tl.sum(x.to(tl.float32), 1)[:, None]
        tl.store(Y + (start + r) * K + c, (x - total).to(x.dtype), cache_modifier=".cs")
        at += ROWS * K


@triton.jit
def turned(X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr):
    """A row of blocks of K, read by an index that is taken apart."""
    i = tl.program_id(0) * ROWS * K + tl.arange(0, ROWS * K)
    x = tl.load(X + (i // K) * stride + i % K, mask=i < rows if MASK else None)
    tl.store(Y + tl.reshape(i, (K, ROWS)), tl.reshape(x, (K, ROWS)))


@triton.jit
def taken_apart(
    X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr
):
    """Rows of 16, whose numbers are the upper bits of an index."""
    i = tl.arange(0, ROWS * 16)
    at = (i & 15) + (i >> 4) * (stride if STRIDE else 16 * K)
    x = tl.load(X + at, mask=(i >> 4) < rows if MASK else None)
    tl.store(Y + tl.reshape(i, (ROWS, 16)), tl.reshape(x, (ROWS, 16)))


@triton.jit
def volatile(X, Y, rows, stride, K: tl.constexpr, ROWS: tl.constexpr, MASK: tl.constexpr, STRIDE: tl.constexpr):
    """What is loaded as often as it says."""
    r = tl.arange(0, ROWS)[:, None]
    at = r * K + tl.arange(0, K)[None, :]
    tl.store(Y + at, tl.load(X + at, volatile=True))


@dataclass(frozen=True)
class Kernel:
    """A kernel for a GPU. `promised`: what divides `rows` and `stride`."""

    kernel: Any
    gpu: str = "cuda:90"
    element: str = "fp16"
    K: int = 2
    rows: int = 512
    mask: bool = False
    strided: bool = False
    promised: int = 16
    near: bool = False
    """Whether offsets are promised to be of 32 bits, so that AMD GPUs can use buffers."""
    options: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        flags = [name for name in ("mask", "strided", "near") if getattr(self, name)]
        parts = self.kernel.__name__, self.gpu, self.element, self.K, self.rows, self.promised, *flags
        return "-".join(map(str, (*parts, *self.options.values())))

    def ttgir(self) -> str:
        """The text of the module as the backend of the GPU leaves its TTGIR stage."""
        pointer = f"*{self.element}"
        constants = {"K": self.K, "ROWS": self.rows, "MASK": self.mask, "STRIDE": self.strided}
        signature = {"X": pointer, "Y": pointer, "rows": "i32", "stride": "i32"}
        signature |= dict.fromkeys(constants, "constexpr")
        promises = [["tt.divisibility", 16], *([["tt.pointer_range", 32]] if self.near else [])]
        aligned = {(0,): promises, (1,): promises}
        if self.promised % 16 == 0:  # as Triton specialises arguments
            aligned |= {(2,): promises[:1], (3,): promises[:1]}
        source = ASTSource(self.kernel, signature, constexprs=constants, attrs=aligned)
        return str(ttgir_of(source, TARGETS[self.gpu], self.options))
