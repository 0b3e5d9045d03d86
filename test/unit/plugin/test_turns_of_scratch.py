"""Reductions that follow each other alternate between two pieces of scratch, and so need one barrier each."""

from __future__ import annotations

import re
from typing import Any

import pytest
import triton
import triton.language as tl
from plugin_support import CUDA, assembly, source
from triton import knobs

from triton_linear.hook import pinned
from triton_linear.lowering.emit import scratch
from triton_linear.setting import Options


@triton.jit
def standardise(x, out, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BN + tl.arange(0, BN)
    row = tl.load(x + at)
    row = row - tl.sum(row, 0) / BN
    row = row / tl.sqrt(tl.sum(row * row, 0) / BN)
    tl.store(out + at, row / tl.max(tl.abs(row), 0))


def compiled(**options: Any) -> Any:
    with pinned(Options(**options)):
        return triton.compile(source(standardise, 1024), target=CUDA, options={"num_warps": 8})


@pytest.mark.parametrize(("small", "barriers"), [(1024, 3), (32, 3), (31, 5), (0, 5)])
def test_three_reductions_in_a_row(small: int, barriers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arranged = scratch.arranged
    monkeypatch.setattr(scratch, "arranged", lambda *given: arranged(*given[:-1], small))
    monkeypatch.setattr(knobs.compilation, "always_compile", True)
    kernel = compiled(cache=False)
    assert len(re.findall(r"\bbar(?:rier)?(?:\.cta)?\.sync\b", assembly(kernel))) == barriers
    assert kernel.metadata.shared == (64 if barriers == 3 else 32)
