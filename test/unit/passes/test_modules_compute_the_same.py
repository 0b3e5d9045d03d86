"""Modules store the same everywhere as before the passes: half of the data, and kernels like attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from assign_support import MODULES, path_of
from attention_kernels import Variation, attention, backward, carried, one_turn_late
from module_equivalence import PASSES, ran, stays_the_same, upstream
from module_machine import Machine, run
from wrong_orders import WRONG_ORDERS

from triton_linear.dialect import ll
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.passes.contraction import contract, ties
from triton_linear.passes.framework.run import run_passes


@pytest.mark.parametrize("path", MODULES[::2], ids=[path.stem for path in MODULES[::2]])
def test_a_real_module_stores_what_it_did(path: Path) -> None:
    text = path.read_text()
    before = ran(upstream(text))
    assert any(len(memory.addresses) for memory in before.stored)
    assert not before.broken
    for passes in PASSES.values():
        stays_the_same(text, passes, before)


@pytest.mark.parametrize(
    "name", ["ampere", "hopper_causal", "gfx942_causal", "matmul_mixed", "layer_norm_forward"]
)
def test_masks_leave_some_out_and_some_not(name: str) -> None:
    assert ran(upstream(path_of(name).read_text())).masked == {True, False}


def f8(
    gpu: str, kernel: Any = attention, /, options: Mapping[str, int] | None = None, **constants: Any
) -> Variation:
    element = {"cuda:80": "fp8e5", "hip:gfx942": "fp8e4b8"}.get(gpu, "fp8e4nv")
    return Variation(kernel, gpu, element, constants, options or {})


CHANGED = [
    f8("cuda:89"),
    f8("cuda:90", N=128, D=128, M=128, CAUSAL=True, options={"num_warps": 8}),
    f8("hip:gfx942", M=128, D=128, MASK=True),
    Variation(attention, "cuda:120", "i8", {"K_ROWS": True}),
    # What else uses P, or values that come to it.
    f8("cuda:90", LAST=True, MASK=True),
    f8("cuda:80", TWICE=True, PAGED=1),
    # Rows by a table; one conversion of two that lies within what is put in order; a bias that both dots add.
    f8("cuda:90", TWICE=True, PAGED=2, BIAS=True, V_TURNED=True, K_ROWS=True),
    # Pointers and values that loops carry.
    f8("cuda:89", one_turn_late, options={"num_stages": 2}),
    f8("cuda:89", carried, MASK=True),
    f8("cuda:89", carried, SHARED=True, K_ROWS=True),
]
LEFT = [
    # Promises of elements next to each other.
    f8("cuda:90", HINT=2, K_ROWS=True),
    f8("cuda:89", HINT=1, V_TURNED=True, SUMS=True),
    f8("cuda:89", PAGED=1, K_ROWS=True),
    f8("hip:gfx942", backward),
    Variation(attention, "cuda:80", "bf16", {"V_TURNED": True, "MASK": True}),
]
# Since 3.8 Triton looks up the rows of K and V once: both sides of the first dot would come in the order.
(LEFT if installed_release() >= (3, 8) else CHANGED).append(f8("cuda:90", PAGED=1, K_ROWS=True, V_TURNED=True))


def _name(variation: Variation) -> str:
    values = [f"{key}={value}" for key, value in variation.constants.items()]
    return "-".join([variation.kernel.__name__, variation.gpu, variation.element, *values])


@pytest.mark.parametrize("variation", [*CHANGED, *LEFT], ids=_name)
def test_a_kernel_like_attention_stores_what_it_did(variation: Variation) -> None:
    text = variation.ttgir()
    before = ran(upstream(text))
    assert all(len(memory.addresses) for memory in before.stored)
    roots = {name: stays_the_same(text, passes, before) for name, passes in PASSES.items()}
    assert (ll.PERMUTED in roots["permuted"].operation.attributes) == (variation in CHANGED)


# Passes that go wrong, and whether the machine sees it.


def _unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract.proof, "check", lambda *_: {})
    monkeypatch.setattr(contract.Numbering, "of", lambda *_: ())


@pytest.mark.parametrize(("place", "name", "wrong"), WRONG_ORDERS)
@pytest.mark.parametrize("module", ["ampere", "gfx942_causal", "attention_fp8"])
def test_a_wrong_rewriting_stores_something_else(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, wrong: Any, module: str
) -> None:
    _unproved(monkeypatch)
    monkeypatch.setattr(place, name, wrong)
    root = upstream(path_of(module).read_text())
    before = ran(root)
    assert run_passes(root, PASSES["permuted"]).succeeded
    assert not ran(root).stores_what(before)


def test_a_wrong_tie_is_proved_and_stores_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof rests on what is tied; the machine does not."""
    monkeypatch.setitem(ties._RULES, "tt.scan", ties._elementwise)
    root = upstream(path_of("running_sum_transposed").read_text())
    before = ran(root)
    assert run_passes(root, PASSES["permuted"]).succeeded
    assert ll.PERMUTED in root.operation.attributes
    assert not ran(root).stores_what(before)


def test_promises_that_are_not_kept_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f8("cuda:89", HINT=1, V_TURNED=True, SUMS=True).ttgir()
    monkeypatch.setattr("triton_linear.passes.contraction.contract.dearer", lambda *_: 0.0)
    for module in ("contraction.contract", "contraction.proof"):
        monkeypatch.setattr(f"triton_linear.passes.{module}.HINTS", ())
    root = upstream(text)
    assert not ran(root).broken
    assert run_passes(root, PASSES["permuted"]).succeeded
    assert any("not of vectors" in broken for broken in ran(root).broken)


REDUCED = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%p: !tt.ptr<f32>) {
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #b>
  %mask = arith.constant dense<{MASK}> : tensor<32xi32, #b>
  %i = arith.xori %r, %mask : tensor<32xi32, #b>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>, #b>
  %at = tt.addptr %ps, %i : tensor<32x!tt.ptr<f32>, #b>, tensor<32xi32, #b>
  %x = tt.load %at : tensor<32x!tt.ptr<f32>, #b>
  %sum = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = {COMBINE} %a, %b : f32
    tt.reduce.return %c : f32
  }) : (tensor<32xf32, #b>) -> f32
  tt.store %p, %sum : !tt.ptr<f32>
  tt.return
}
}
"""


@pytest.mark.parametrize(
    ("combine", "alike"), [("arith.addf", True), ("arith.maxnumf", True), ("arith.subf", False)]
)
def test_the_machine_sums_in_any_order_and_subtracts_in_one(combine: str, alike: bool) -> None:
    memories = []
    for mask in ("0", "21"):
        machine = Machine()
        text = REDUCED.replace("{COMBINE}", combine).replace("{MASK}", mask)
        memories.append(run(upstream(text), [1000], machine))
    assert memories[0].same(memories[1]) == alike
