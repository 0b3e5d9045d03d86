"""Registers that products in flight read are not written: by the PTX of kernels, and by what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
import triton_linear
from module_equivalence import ran, stays_the_same, upstream
from plugin_support import CUDA
from registers_in_flight import overwritten as overwritten_in_ptx
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Attribute, operations
from triton_linear.dialect.triton_versions import OPERANDS_OVERWRITTEN, installed_release
from triton_linear.passes import driver
from triton_linear.passes.await_operands import WAIT, AwaitOperands, overwritten
from triton_linear.tools.compile import lower, to_triton

KERNELS = Path(__file__).parents[1] / "data" / "ttgir" / "kernels"
MIXED = (KERNELS / "matmul_mixed.ttgir").read_text()
"""Bytes times bf16, whose product Triton 3.6 cuts in four along k."""
IN_REGISTERS = ("attention", "attention_fp8", "chained_dot", "matmul_mixed")
"""Those with products in flight whose left operand is in registers."""

OVERWRITES = pytest.mark.skipif(
    installed_release() not in OPERANDS_OVERWRITTEN, reason="this Triton copies the operands first"
)


def _ptx(text: str) -> str:
    """What Triton makes of a module, without the plugin."""
    return lower(to_triton(text), "cuda:90", "ptx").text("ptx")


@OVERWRITES
def test_ptx_of_triton_writes_to_registers_that_products_read() -> None:
    assert len(overwritten_in_ptx(_ptx(MIXED))) == 12  # four of each part but the first


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_ptx_after_the_pass_does_not(name: str) -> None:
    root = upstream((KERNELS / f"{name}.ttgir").read_text())
    assert driver.run(root, [AwaitOperands()], verify=True).succeeded
    assert not overwritten(root.operation)
    ptx = _ptx(bridge.triton_text(root))
    assert "wgmma.mma_async" in ptx
    assert not overwritten_in_ptx(ptx)


@pytest.mark.parametrize("name", ["attention", "attention_fp8", "chained_dot"])
def test_products_that_are_waited_for_stay_as_they_are(name: str) -> None:
    root = upstream((KERNELS / f"{name}.ttgir").read_text())
    before = str(root)
    assert driver.run(root, [AwaitOperands()], verify=True).succeeded
    assert str(root) == before


def test_the_module_stores_the_same() -> None:
    root = stays_the_same(MIXED, [AwaitOperands()], ran(upstream(MIXED)))
    assert ll.AWAITED in root.operation.attributes
    assert not overwritten(root.operation)


@OVERWRITES
def test_a_wait_for_fewer_does_not_do() -> None:
    root = upstream(MIXED)
    assert driver.run(root, [AwaitOperands()], verify=True).succeeded
    first, _ = (
        op for op in operations(root.operation) if op.name == WAIT and int(op.attributes["pendings"]) == 0
    )
    first.attributes["pendings"] = Attribute.parse("1 : i32", root.context)
    assert overwritten(root.operation)
    assert overwritten_in_ptx(_ptx(bridge.triton_text(root)))


def test_where_the_accumulator_is_used_before_each_product_is_waited_for_at_once() -> None:
    text = MIXED.replace("scf.yield %98#0,", "scf.yield %97,")
    line = next(line for line in text.splitlines() if "= ttg.async_wait %arg15" in line)
    peek = "      %peek = arith.addf %arg9, %arg9 : tensor<64x128xf32, #mma>"
    root = upstream(text.replace(line, f"{line}\n{peek}"))
    before = sum(op.name == WAIT for op in operations(root.operation))
    assert driver.run(root, [AwaitOperands()], verify=True).succeeded
    assert not overwritten(root.operation)
    assert sum(op.name == WAIT for op in operations(root.operation)) > before


@OVERWRITES
@pytest.mark.parametrize("options", [{}, {"assign": False, "lowering": "legacy"}, {"lower": False}])
def test_the_plugin_waits_and_says_so(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with triton_linear.enabled(strict=True, **options) as reports:
        made = triton.compile(str(KERNELS / "matmul_mixed.ttgir"), target=CUDA)
    (report,) = reports
    assert "products are waited for" in report.remarks[0]
    assert not overwritten_in_ptx(made.asm["ptx"])
