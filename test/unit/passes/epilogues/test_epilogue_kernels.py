"""Whole kernels through the plugin and ptxas: what spilled does so no more."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton._C.libtriton")

import triton
from epilogue_kernels import BLACKWELL, source

import triton_linear
from triton_linear.dialect import encodings
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT
from triton_linear.ptxas.cubin import usage

pytestmark = pytest.mark.skipif(
    encodings.installed_release() not in TENSOR_MEMORY_BY_LAYOUT,
    reason="accesses by layout are of Triton 3.8 on",
)


@pytest.mark.parametrize("residual", [False, True], ids=["bias", "residual"])
def test_an_epilogue_in_parts_does_not_spill(
    residual: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for own in (False, True):
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / str(own)))
        options = {"num_warps": 4, "num_stages": 2}
        if own:
            with triton_linear.enabled(strict=True):
                kernel = triton.compile(source(residual), target=BLACKWELL, options=options)
        else:
            kernel = triton.compile(source(residual), target=BLACKWELL, options=options)
        used = usage(kernel.asm["cubin"])
        assert used is not None
        found.append((used, kernel.metadata.shared, kernel.asm["ptx"].count("tcgen05.ld.sync")))
    (stock, shared, _), (ours, own_shared, loads) = found
    assert stock.stack > 500 and ours.stack == 0
    assert ours.registers <= stock.registers
    assert own_shared == shared
    assert loads == 4
