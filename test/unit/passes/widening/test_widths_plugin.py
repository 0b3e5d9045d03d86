"""Kernels that have no conversion, but rows shorter than a vector, through the plugin."""

from __future__ import annotations

import re
from typing import Any

import pytest
import triton
import width_kernels
from aligned_sources import aligned
from bridge_kernels import TARGETS
from plugin_support import fail
from triton.compiler import ASTSource

import triton_linear
from triton_linear.passes import attempts
from triton_linear.report import Outcome

pytestmark = pytest.mark.usefixtures("fresh")


def source(K: int, element: str = "fp16", strided: bool = False) -> ASTSource:
    constants = {"K": K, "ROWS": 512, "MASK": False, "STRIDE": strided}
    kinds = {"X": f"*{element}", "Y": f"*{element}", "rows": "i32", "stride": "i32"}
    return aligned(width_kernels.copy, kinds, constants, integers=False)


def compiled(given: ASTSource, gpu: str = "cuda:90", **options: Any) -> tuple[str, Any]:
    """The assembly, and the report."""
    with triton_linear.enabled(**{"strict": True, **options}) as reports:
        kernel = triton.compile(given, target=TARGETS[gpu])
    return kernel.asm.get("ptx") or kernel.asm["amdgcn"], reports[-1]


def stock(given: ASTSource) -> str:
    return str(triton.compile(given, target=TARGETS["cuda:90"]).asm["ptx"])


def accesses(ptx: str) -> list[str]:
    return re.findall(r"\b(?:ld|st)\.global\S*", ptx)


def test_a_kernel_without_conversions_gets_wider_accesses() -> None:
    ptx, report = compiled(source(2))
    assert accesses(ptx) == ["ld.global.v4.b32", "st.global.v4.b32"]
    assert accesses(stock(source(2))) == ["ld.global.b32"] * 4 + ["st.global.b32"] * 4
    assert (report.outcome, report.seen, report.conversions) == (Outcome.CONVERTED, 0, ())


@pytest.mark.parametrize("given", [source(16), source(1), source(8)], ids=["long", "flat", "a vector"])
def test_nothing_is_imported_where_rows_are_long(given: ASTSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "prepare", fail)
    _, report = compiled(given)
    assert (report.outcome, report.error) == (Outcome.NOTHING_TO_DO, None)


def test_accesses_stay_where_layouts_are_to_stay() -> None:
    ptx, report = compiled(source(2), assign=False)
    assert report.outcome is Outcome.NOTHING_TO_DO
    assert accesses(ptx) == accesses(stock(source(2)))
