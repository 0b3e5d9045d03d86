"""Operands of products of doubles: a module that Triton 3.6 does not compile computes the same after."""

from __future__ import annotations

from pathlib import Path

import pytest
from module_equivalence import ran, stays_the_same, upstream

from triton_linear.dialect import ll
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.passes.fixes.narrow_operands import NarrowOperands
from triton_linear.passes.framework.run import run_passes
from triton_linear.tools.support.compile import DEFAULTS, compile_text
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.functions import LOWERING

BYTES = (Path(__file__).parents[2] / "data" / "doubles" / "bytes.ttgir").read_text()
"""Bytes [16, 64] as doubles, times doubles [64, 32]."""


def test_the_narrowed_module_stores_the_same() -> None:
    root = stays_the_same(BYTES, [NarrowOperands()], ran(upstream(BYTES)))
    assert ll.NARROWED in root.operation.attributes
    assert "kWidth = 4" not in str(root)


@pytest.mark.skipif(installed_release() >= (3, 9), reason="Triton compiles it")
def test_it_compiles_where_triton_does_not() -> None:
    with pytest.raises(ToolError):
        compile_text(BYTES, "bytes.ttgir", None, "ptx", LOWERING)
    root = upstream(BYTES)
    assert run_passes(root, [NarrowOperands()], verify=True).succeeded
    for text, options in ((str(root), LOWERING), (BYTES, DEFAULTS)):
        (compiled,) = compile_text(text, "bytes.ttgir", None, "ptx", options).kernels
        assert ".f64.f64.f64.f64" in compiled.lowered.text("ptx")


def test_narrow_operands_stay_as_they_are() -> None:
    root = upstream(BYTES.replace("kWidth = 4", "kWidth = 1"))
    before = str(root)
    assert run_passes(root, [NarrowOperands()], verify=True).succeeded
    assert str(root) == before
