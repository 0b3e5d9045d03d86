"""Axes that dots contract, where a loop carries the operand from one turn to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import triton_linear
from triton_linear.dialect import bridge, ll
from triton_linear.passes.contraction.contract import PermuteContraction
from triton_linear.passes.framework.run import run_passes
from triton_linear.report import Outcome
from triton_linear.tools.support.frontend import ttgir_of

ADA = GPUTarget("cuda", 89, 32)


@triton.jit
def one_turn_late(q, k, v, out, n, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    m, d, j = tl.arange(0, M), tl.arange(0, D), tl.arange(0, N)
    queries = tl.load(q + m[:, None] * D + d[None, :])
    sums = tl.zeros((M, D), tl.float32)
    scores = tl.dot(queries, tl.load(k + j[None, :] * D + d[:, None])).to(queries.dtype)
    for i in range(0, n, N):
        later = tl.dot(queries, tl.load(k + (i + N + j)[None, :] * D + d[:, None]))
        sums = tl.dot(scores, tl.load(v + (i + j)[:, None] * D + d[None, :]), sums)
        scores = later.to(queries.dtype)
    tl.store(out + m[:, None] * D + d[None, :], sums)


def source() -> ASTSource:
    kinds = {**dict.fromkeys("qkv", "*fp8e4nv"), "out": "*fp32", "n": "i32"}
    sizes = dict.fromkeys("DMN", 64)
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(kinds))}
    return ASTSource(one_turn_late, {**kinds, **dict.fromkeys(sizes, "constexpr")}, sizes, aligned)


def test_what_a_loop_carries_can_be_put_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    text = str(ttgir_of(source(), ADA, {"num_stages": 2}))
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "one_turn_late")
    outcome = run_passes(module, [PermuteContraction()], verify=True)
    assert outcome.succeeded, outcome.diagnostics
    assert ll.PERMUTED in module.operation.attributes
    with triton_linear.enabled(strict=True) as reports:
        triton.compile(source(), target=ADA, options={"num_stages": 2})
    assert reports[-1].outcome is Outcome.CONVERTED
