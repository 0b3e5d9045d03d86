"""The options `assign` and `lower` of the plugin, and what happens where an assignment fails."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from assign_support import path_of
from corpus import readable
from plugin_support import CUDA, fail

import triton_linear
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.assignment import assign as assignment
from triton_linear.passes.pipeline import PassFailure
from triton_linear.report import FallbackWarning, Outcome

pytestmark = pytest.mark.usefixtures("fresh")

KERNEL = path_of("bn_nhwc-1")
"""A module whose assignment rids it of its conversions."""


def kernel_file() -> str:
    return readable(KERNEL, Path(os.environ["TRITON_CACHE_DIR"]))


def compiled(**options: Any) -> tuple[str, Any]:
    """The PTX of the kernel, and the report."""
    with triton_linear.enabled(strict=True, **options) as reports:
        kernel = triton.compile(kernel_file(), target=CUDA)
    return kernel.asm["ptx"], reports[-1]


def stock() -> str:
    ptx: str = triton.compile(kernel_file(), target=CUDA).asm["ptx"]
    return ptx


def shared_accesses(ptx: str) -> int:
    return len(re.findall(r"\b(?:ld|st)\.(?:volatile\.)?shared", ptx))


def instructions(ptx: str) -> list[str]:
    """The instructions, without locations and names."""
    return re.findall(r"^\s+([a-z][\w.]+)\b.*;", re.sub(r"^\s*\.(?:loc|file).*$", "", ptx, flags=re.M), re.M)


def test_the_four_settings() -> None:
    """Layouts change with `assign`, conversions that are left with `lower`; with neither, nothing does."""
    plain = stock()
    neither, report = compiled(assign=False, lower=False)
    assert (report.outcome, report.emitted) == (Outcome.LEFT, 0)
    assert instructions(neither) == instructions(plain)

    lowered, report = compiled(assign=False)
    assert report.outcome is Outcome.CONVERTED
    assert report.emitted > 0

    new_layouts, report = compiled(lower=False)
    assert report.outcome is Outcome.CONVERTED
    assert report.emitted == 0
    assert shared_accesses(new_layouts) < shared_accesses(plain)

    both, report = compiled()
    assert report.outcome is Outcome.CONVERTED
    assert shared_accesses(both) <= shared_accesses(new_layouts)
    assert len({plain, lowered, new_layouts}) == 3


def test_a_module_that_computes_something_else_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = stock()
    monkeypatch.setattr(Numbering, "of", lambda *_: object())
    with triton_linear.enabled() as reports, pytest.warns(FallbackWarning, match="is compiled by stock Triton"):
        ours = triton.compile(kernel_file(), target=CUDA).asm["ptx"]
    assert instructions(ours) == instructions(plain)
    assert reports[-1].outcome is Outcome.FAILED and "NotEquivalent" in (reports[-1].error or "")
    with triton_linear.enabled(strict=True), pytest.raises(PassFailure, match="assign-layouts: internal"):
        triton.compile(kernel_file(), target=CUDA)


def test_without_assignment_a_failure_of_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "assign", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(assign=False)[1].outcome is Outcome.CONVERTED


@triton.jit
def by_table(table, x, out, ROWS: tl.constexpr, N: tl.constexpr):
    at = tl.load(table + tl.arange(0, N) * 3)
    at = tl.max_contiguous(tl.multiple_of(at, N), N)
    rows = tl.arange(0, ROWS)
    tile = tl.load(x + at[None, :] + rows[:, None] * 65536)
    tl.store(out + tl.arange(0, N)[None, :] * ROWS + rows[:, None], tile)


def test_vectors_that_the_program_promises_stay() -> None:
    """Nothing else tells that the places that are loaded lie side by side."""
    kinds = {"table": "*i32", "x": "*fp32", "out": "*fp32"}
    source = aligned(by_table, kinds, {"ROWS": 32, "N": 64})

    def widths(kernel: Any) -> int:
        return len(re.findall(r"ld\.global\S*\.v4", kernel.asm["ptx"]))

    plain = widths(triton.compile(source, target=CUDA))
    with triton_linear.enabled(strict=True):
        assert widths(triton.compile(source, target=CUDA)) >= plain > 0
