"""What reductions take of shared memory, and that on AMD GPUs other layouts do not make it more."""

from __future__ import annotations

import itertools

import pytest

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import Module
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, installed_release
from triton_linear.examples import specs
from triton_linear.examples.spec import gpu_target
from triton_linear.passes.assignment import assign, candidates
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.reductions.costs import scratch_as_triton
from triton_linear.tools.support.backend import lower, ttgir_of
from triton_linear.tools.support.compile import to_triton

TARGET = "hip:gfx942"
SHAPES = ((16, 256), (2, 64), (64, 64))
MODULE = """
#b = #ttg.blocked<{{sizePerThread = [1, 2], threadsPerWarp = [2, 32], warpsPerCTA = {warps}, order = [1, 0]}}>
#s = #ttg.slice<{{dim = {axis}, parent = #b}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{target}",
                   "ttg.threads-per-warp" = 64 : i32}} {{
  tt.func public @reduce(%x: tensor<{shape}x{element}, #b>, %p: tensor<{left}x!tt.ptr<{element}>, #s>) {{
    %y = "tt.reduce"(%x) <{{axis = {axis} : i32}}> ({{
    ^bb0(%a: {element}, %b: {element}):
      %c = arith.maxsi %a, %b : {element}
      tt.reduce.return %c : {element}
    }}) : (tensor<{shape}x{element}, #b>) -> tensor<{left}x{element}, #s>
    tt.store %p, %y : tensor<{left}x!tt.ptr<{element}>, #s>
    tt.return
  }}
}}
"""


def allocated(text: str) -> int:
    """The bytes of shared memory that Triton allocates for a kernel."""
    return int(lower(to_triton(text), TARGET, "llvm").metadata["shared"])


@pytest.mark.parametrize("warps", [[4, 1], [2, 2], [1, 4]], ids=str)
def test_it_is_what_triton_allocates(warps: list[int]) -> None:
    found = set()
    for axis, element, shape in itertools.product((0, 1), ("i8", "i16", "i64"), SHAPES):
        names = {"shape": "x".join(map(str, shape)), "left": shape[1 - axis], "axis": axis, "element": element}
        text = MODULE.format(warps=warps, target=TARGET, **names)
        encoding = (
            "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [2, 32], "
            f"warpsPerCTA = {warps}, order = [1, 0]}}>"
        )
        taken = scratch_as_triton(layout_of(encoding, shape), axis, (int(element[1:]),), installed_release())
        assert taken == allocated(text)
        found.add(taken)
    assert len(found) > 3


@pytest.fixture(scope="module")
def layer_norm() -> str:
    """The TTGIR of a kernel whose loop would be shorter if no reduction of it went across warps."""
    (spec,) = (spec for spec in specs(gpu_target(TARGET)) if spec.name == "layer_norm_backward")
    return str(ttgir_of(spec.source(), gpu_target(TARGET), dict(spec.options)))


def assigned(text: str) -> Module:
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "layer_norm")
    assert run_passes(root, [AssignLayouts(TARGET)], verify=True).succeeded
    return root


def shared(root: Module) -> int:
    return allocated(bridge.triton_text(root))


def test_other_layouts_take_no_more_of_it(layer_norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = allocated(layer_norm)
    # However little it saves.
    monkeypatch.setattr(assign, "_pays", lambda found, _: found.after.clocks < found.before.clocks)
    assert shared(assigned(layer_norm)) <= stock
    if installed_release() in REDUCTIONS_CONVERT:
        return  # it takes little as it is
    monkeypatch.setattr(candidates, "scratch_as_triton", lambda *_: 0)
    root = assigned(layer_norm)
    assert ll.ASSIGNED in root.operation.attributes
    assert shared(root) > stock
