"""Stores stay as wide as Triton has them where pointers and masks come out of loops and branches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from triton import knobs
from triton.backends.compiler import GPUTarget

from triton_linear.hook import pinned
from triton_linear.setting import Options

TARGETS = [GPUTarget("cuda", 80, 32), GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)]


@triton.jit
def pointers_of_a_loop(x, y, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    source, target = x + i * N + j, y + i + j * M
    total = tl.zeros((M, N), tl.float32)
    for _ in range(n):
        total += tl.load(source)
        source += M * N
        target += M * N
    tl.store(target, total.to(tl.float16))


@triton.jit
def mask_of_a_loop(x, y, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    mask = (i >= 0) & (j >= 0)
    total, at = tl.zeros((M, N), tl.float32), i * N + j
    for turn in range(n):
        total += tl.load(x + at, mask=mask, other=0.0)
        mask = mask & (i + turn * 16 < n)
        at += M * N
    tl.store(y + i + j * M, total.to(tl.float16), mask=mask)


@triton.jit
def mask_beside_dots(x, y, n, M: tl.constexpr, N: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 32)
    total, inside = tl.zeros((M, N), tl.float32), tl.full((N,), True, tl.int1)
    for first in range(0, n, 32):
        left = tl.load(x + i[:, None] * n + (first + k)[None, :])
        right = tl.load(x + (first + k)[:, None] * N + j[None, :])
        total = tl.dot(left, right, total)
        inside = inside & (j + first < n)
    tl.store(y + i[:, None] * N + j[None, :], total.to(tl.float16), mask=inside[None, :])


@triton.jit
def offsets_of_a_branch(x, y, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    values = tl.load(x + i * N + j)
    if n > 64:
        at, mask = i + j * M, (i < n) & (j >= 0)
    else:
        at, mask = i + j * M + n, (i >= 0) & (j >= 0)
    tl.store(y + at, values.to(tl.float16), mask=mask)


KERNELS = {
    pointers_of_a_loop: "*fp32",
    mask_of_a_loop: "*fp32",
    mask_beside_dots: "*fp16",
    offsets_of_a_branch: "*fp32",
}


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


def stores(kernel: Any, target: GPUTarget) -> int:
    """The stores to global memory that a thread makes."""
    source = aligned(kernel, {"x": KERNELS[kernel], "y": "*fp16", "n": "i32"}, {"M": 64, "N": 64})
    compiled = triton.compile(source, target=target, options={"num_warps": 4})
    pattern, text = (
        (r"\bst\.global", compiled.asm["ptx"])
        if target.backend == "cuda"
        else (r"\b(?:global|buffer|flat)_store_", compiled.asm["amdgcn"])
    )
    return len(re.findall(pattern, text))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.fn.__name__))
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.arch))
def test_stores_are_as_wide_as_tritons(kernel: Any, target: GPUTarget) -> None:
    stock = stores(kernel, target)
    with pinned(Options(strict=True)):
        assert stores(kernel, target) <= stock
