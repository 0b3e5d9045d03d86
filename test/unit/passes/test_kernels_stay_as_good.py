"""Whole kernels of torch.compile: what the plugin must not make worse than stock, whatever it does."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import triton
from corpus import readable
from triton import knobs
from triton.backends.compiler import GPUTarget

import triton_linear
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.axis_hints import AxisHints

MODULES = sorted((Path(__file__).parents[2] / "data" / "ttgir").glob("*.ttgir"))


@dataclass(frozen=True)
class Facts:
    """Global accesses and barriers of the CTA in the PTX, bytes of shared memory, and those that it may be."""

    accesses: int
    barriers: int
    shared: int
    budget: int


def facts(path: Path) -> Facts:
    kernel = triton.compile(
        readable(path, Path(os.environ["TRITON_CACHE_DIR"])), target=GPUTarget("cuda", 90, 32)
    )
    accesses, barriers = (
        len(re.findall(what, kernel.asm["ptx"])) for what in (r"\b(?:ld|st)\.global", r"\bbar\.sync")
    )
    budget = target("cuda:90").shared_budget(kernel.metadata.num_warps, 0)
    return Facts(accesses, barriers, kernel.metadata.shared, budget)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_accesses_stay_as_wide_and_barriers_as_few(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    stock = facts(path)
    with triton_linear.enabled(strict=True, assign=False) as reports:
        ours = facts(path)
    assert reports[-1].seen
    assert ours.accesses == stock.accesses
    assert ours.barriers <= stock.barriers
    assert ours.shared <= max(stock.shared, ours.budget)


def test_the_modules_have_conversions_on_the_way_to_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first assertion above could not fail: without their promises accesses are narrower."""
    path = next(path for path in MODULES if path.stem == "emb_sum-0")
    monkeypatch.setattr(AxisHints, "put", lambda *_: None)
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        stock = facts(path)
        with triton_linear.enabled(strict=True, assign=False) as reports:
            ours = facts(path)
    assert not reports[-1].left
    assert ours.accesses > stock.accesses
