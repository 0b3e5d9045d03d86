"""Kernels whose conversions Triton lowers alike, which are left to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from assign_support import path_of
from triton.compiler import ASTSource

import triton_linear
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target.targets import target
from triton_linear.passes.conversions.leave import ALIKE
from triton_linear.passes.framework.plans import STOCK
from triton_linear.passes.options import PipelineOptions
from triton_linear.pipeline import EXHAUSTED, Prepared, prepare
from triton_linear.ptxas.occupancy import bound
from triton_linear.report import Outcome
from triton_linear.setting import Options, Setting
from triton_linear.stage import LLIRStage

ALIGNED = {(n,): [["tt.divisibility", 16]] for n in range(2)}
BUFFER = (
    "!ttg.memdesc<{}xi8, #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>, "
    "#ttg.shared_memory, mutable>"
)


@triton.jit
def turn(source, destination, N: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())


def compiled() -> Any:
    source = ASTSource(turn, {"source": "*fp16", "destination": "*fp16", "N": "constexpr"}, {"N": 64}, ALIGNED)
    return triton.compile(source, target=gpu_target("cuda:90"))


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel `turn` in TTGIR."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "text"))
    return str(compiled().asm["ttgir"])


def holding(text: str, size: int) -> str:
    """The kernel while it holds a buffer of `size` bytes."""
    alloc = f"%held = ttg.local_alloc : () -> {BUFFER.format(size)}"
    dealloc = f"ttg.local_dealloc %held : {BUFFER.format(size)}"
    head, body = re.split(r"(?<=attributes {noinline = false} {\n)", text)
    return f"{head}{alloc}\n{re.sub('tt.return', dealloc + chr(10) + 'tt.return', body)}"


def prepared(text: str, gpu: str = "cuda:90", **options: Any) -> Prepared:
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")
    return prepare(module, PipelineOptions(**options), target(gpu))


def is_left(found: Prepared) -> bool:
    """Whether the kernel is left, as a whole or not at all."""
    left = [one.kind == STOCK and one.detail == ALIKE for one in found.conversions(None)]
    assert any(left) == all(left) == found.rewritten.alike == (not found.differs)
    assert not (found.differs and not found.rewritten.stubs)
    return not found.differs


def test_a_tile_that_is_transposed(text: str) -> None:
    assert is_left(prepared(text))
    assert not is_left(prepared(text, "cuda:90{leaves_alike=0}"))
    assert not is_left(prepared(text, assign=False))
    assert not is_left(prepared(text, scratch_limit=1 << 14))
    module = prepared(text).module.operation
    assert ll.ALIKE in module.attributes
    assert not any(op.name == "tt.call" for op in operations(module))


@pytest.mark.parametrize("name", ["emb_sum-0", "matmul_fp8_b_transposed"])
def test_a_kernel_that_changes_otherwise_is_ours(name: str) -> None:
    assert not is_left(prepared(path_of(name).read_text()))


def test_a_kernel_whose_memory_may_not_suffice_for_triton_is_ours(text: str) -> None:
    assert target("cuda:90").max_shared_bytes - 64 * 64 * 2 in range(1 << 17, 1 << 18)
    assert is_left(prepared(holding(text, 1 << 17)))
    assert not is_left(prepared(holding(text, 1 << 18)))


def test_the_plugin_gives_the_code_of_triton_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = compiled()
    for again in range(2):  # the second time from what the first has kept
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / str(again)))
        with triton_linear.enabled(strict=True) as reports:
            kernel = compiled()
        (report,) = reports
        assert report.outcome is Outcome.LEFT
        assert [one.detail for one in report.left] == [ALIKE]
        assert kernel.asm["ptx"] == stock.asm["ptx"]


@triton.jit
def turn_beside(source, destination, x, y, N: tl.constexpr, M: tl.constexpr):  # type: ignore[no-untyped-def]
    """`turn`, and a load that becomes wider, as its places are neighbours along two dimensions."""
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())
    places = tl.reshape(tl.arange(0, M // 8)[:, None] * 8 + tl.arange(0, 8)[None, :], (M,))
    tl.store(y + tl.arange(0, M), tl.load(x + places) + 1)


def test_a_kernel_whose_accesses_become_wider_is_compiled_by_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    names = "source", "destination", "x", "y"
    signature = {**dict.fromkeys(names, "*fp16"), "N": "constexpr", "M": "constexpr"}
    aligned = {(n,): [["tt.divisibility", 16]] for n in range(len(names))}
    source = ASTSource(turn_beside, signature, {"N": 64, "M": 1024}, aligned)
    found = prepared(triton.compile(source, target=gpu_target("cuda:90")).asm["ttgir"])
    assert found.differs and not found.rewritten.alike
    assert {one.detail for one in found.conversions(None) if one.kind == STOCK} <= {ALIKE, EXHAUSTED}


def test_ptxas_may_be_told_of_more_registers_but_of_no_bound() -> None:
    stage = LLIRStage(lambda *_: "", "cuda:90", Setting(Options()))
    assert bound(168, 8, 2, target(stage.assembled_for)) == 128
    stage.alike = True
    assert bound(168, 8, 2, target(stage.assembled_for)) is None
    assert target(stage.assembled_for).policy.serial_loads == target("cuda:90").policy.serial_loads
