"""Whole kernels of torch.compile: what the plugin must not make worse than stock, whatever it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import triton
import triton_linear
from triton import knobs
from triton.backends.compiler import GPUTarget

MODULES = sorted((Path(__file__).parent.parent / "data" / "ttgir").glob("*.ttgir"))


def facts(path: Path) -> tuple[int, int]:
    """Global accesses in the PTX, and bytes of shared memory."""
    kernel = triton.compile(str(path), target=GPUTarget("cuda", 90, 32))
    return len(re.findall(r"\b(?:ld|st)\.global", kernel.asm["ptx"])), kernel.metadata.shared


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_accesses_stay_as_wide_and_shared_memory_as_small(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))
    stock = facts(path)
    with triton_linear.enabled(strict=True) as reports:
        ours = facts(path)
    assert reports[-1].seen
    assert ours[0] == stock[0]
    assert ours[1] <= stock[1]


def test_the_modules_have_conversions_on_the_way_to_an_address(tmp_path: Path) -> None:
    """Else the first assertion above could not fail."""
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        with triton_linear.enabled(strict=True) as reports:
            for path in MODULES:
                facts(path)
    left = [conversion for report in reports for conversion in report.left]
    assert any("address" in conversion.detail for conversion in left)
