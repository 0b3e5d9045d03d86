"""The pipeline and its passes; what a pass does to IR, FileCheck tests say under test/lit/passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bridge_kernels import ttgir
from pass_modules import CONVERSION, CUDA, DATA, MODULES, module, named, upstream
from plugin_processes import python

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Type, operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import STUB_PREFIX, StubError, stubs_of
from triton_linear.passes.framework import layouts
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.parse import PipelineError, parse_pipeline
from triton_linear.passes.pipeline import PassFailure, rewrite
from triton_linear.passes.registry import PASSES
from triton_linear.tools.support.compile import LOWERING

# --- the whole pipeline -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_conversion_of_real_modules_is_taken_or_free(path: Path) -> None:
    root = upstream(path)
    before = len(named(root, "ttg.convert_layout"))
    prepared = rewrite(root, LOWERING, CUDA, verify=True)
    kinds = [conversion.kind for conversion in prepared.conversions]
    left = [conversion for conversion in prepared.conversions if conversion.kind == "stock"]
    assert len(prepared.run.diagnostics) == len(left) == 0
    assert all(conversion.detail for conversion in prepared.conversions)
    assert {c.detail for c in prepared.conversions if c.kind not in ("noop", "stock")} == {
        stub.plan.summary() for stub in prepared.stubs.values()
    }
    assert 0 < len(kinds) <= before
    calls = [op for op in named(root, "tt.call") if op.attributes["callee"].value.startswith(STUB_PREFIX)]
    assert len(calls) == sum(kind not in ("noop", "stock") for kind in kinds)
    assert {call.attributes["callee"].value for call in calls} == set(prepared.stubs)
    assert len(named(root, "ttg.convert_layout")) == kinds.count("noop") + len(left)
    bridge.to_triton(root, bridge.triton_context())


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("matmul", "cuda:80"), ("control_flow", "cuda:90"), ("shapes", "hip:gfx942"), ("descriptors", "cuda:100")],
)
def test_kernels_of_every_vendor_pass_with_all_checks(name: str, gpu: str) -> None:
    triton_module = ttgir(name, gpu)
    root = bridge.to_upstream(triton_module, bridge.upstream_context())
    prepared = rewrite(root, LOWERING, target(gpu), verify=True)
    assert not prepared.run.diagnostics
    bridge.to_triton(root, triton_module.context)


def test_functions_stay_in_front_of_stubs() -> None:
    root = upstream(DATA / "quant_cols-3.ttgir")
    rewrite(root, LOWERING, CUDA)
    names = [op.attributes["sym_name"].value for op in named(root, "tt.func")]
    assert len(names) > 1
    assert [name.startswith(STUB_PREFIX) for name in names] == [False] + [True] * (len(names) - 1)


@pytest.mark.parametrize(("name", "least"), [("quant_cols-3", 1), ("bn_nhwc-1", 4)])
def test_a_call_is_at_the_place_of_its_conversion(name: str, least: int) -> None:
    path = DATA / f"{name}.ttgir"
    root = bridge.text_to_upstream(path.read_text(), bridge.upstream_context(), path.name)
    places = [str(op.location) for op in named(root, "ttg.convert_layout")]
    lines = [n for n, line in enumerate(path.read_text().splitlines(), 1) if "= ttg.convert_layout" in line]
    assert [place.rsplit(":", 1)[0] for place in places] == [f'loc("{path.name}":{line}' for line in lines]
    prepared = rewrite(root, LOWERING, CUDA)
    assert [conversion.location for conversion in prepared.conversions] == places
    moved = [conversion.location for conversion in prepared.conversions if conversion.kind != "noop"]
    assert [str(op.location) for op in named(root, "tt.call")] == moved
    assert len(moved) >= least


ROUNDS = """
#rows = #ttg.linear<{register = [[1, 0], [2, 0], [8, 0], [16, 0], [32, 0]],
  lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[4, 0]], block = []}>
#columns = #ttg.linear<{register = [[0, 8], [0, 16], [8, 0], [16, 0], [32, 0]],
  lane = [[1, 0], [2, 0], [4, 0], [0, 1], [0, 2]], warp = [[0, 4]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func @f(%x: tensor<64x32xf32, #rows>) -> tensor<64x32xf32, #columns> {
  %0 = ttg.convert_layout %x : tensor<64x32xf32, #rows> -> tensor<64x32xf32, #columns>
  tt.return %0 : tensor<64x32xf32, #columns>
}
}
"""


@pytest.mark.parametrize(("limit", "scratch"), [(None, 8192), (4096, 4096)])
def test_plans_are_found_again_from_the_stubs(limit: int | None, scratch: int) -> None:
    root = bridge.text_to_upstream(ROUNDS, bridge.upstream_context())
    prepared = rewrite(root, replace(LOWERING, scratch_limit=limit), CUDA)
    assert [stub.plan.scratch_bytes for stub in prepared.stubs.values()] == [scratch]
    text = root.operation.get_asm(print_generic_op_form=True)
    again = bridge.text_to_upstream(text, bridge.upstream_context())
    assert stubs_of(operations(again.operation), CUDA, Plans()) == prepared.stubs


def test_stubs_planned_for_another_target_are_refused() -> None:
    root = upstream(DATA / "rowsum_small-0.ttgir")
    rewrite(root, LOWERING, CUDA)
    with pytest.raises(StubError, match=r"@__ll_cvt_0 was planned as .*, hip:gfx942 gives none"):
        stubs_of(operations(root.operation), target("hip:gfx942"), Plans())


def test_the_pipeline_is_deterministic() -> None:
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from triton_linear.dialect import bridge\nfrom triton_linear.passes.pipeline import rewrite\n"
        "from bench.whole_kernels import LOWERING\n"
        "from triton_linear.lowering.target.targets import target\n"
        "for path in sys.argv[1:]:\n"
        "    module = bridge.parse_triton(Path(path), bridge.triton_context())\n"
        "    root = bridge.to_upstream(module, bridge.upstream_context())\n"
        "    rewrite(root, LOWERING, target('cuda:90'), verify=True)\n"
        "    print(root.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))\n"
    )
    outputs = []
    for seed in ("1", "2"):
        done = python("-c", script, *MODULES, PYTHONHASHSEED=seed)
        assert (done.returncode, done.stderr) == (0, ""), "something outlived the interpreter"
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert "__ll_cvt_0" in outputs[0]


def test_the_pipeline_raises_what_its_passes_report() -> None:
    root = module(CONVERSION)
    with pytest.raises(PassFailure, match=r"f\.ttgir.*error: linear-select-lowering: .*cuda:x"):
        rewrite(root, LOWERING, replace(CUDA, name="cuda:x"))


# --- textual pipelines ------------------------------------------------------------------------------------


def test_a_pipeline_is_read_from_text() -> None:
    select_text = "linear-select-lowering{ scratch-limit=64 target=cuda:80 }"
    text = f"builtin.module( linear-await-operands, cse,{select_text})"
    waits, cse, select = parse_pipeline(text)
    assert waits == PASSES["linear-await-operands"]()
    assert cse == "cse"
    assert select == SelectLowering("cuda:80", 64)
    assert parse_pipeline("linear-select-lowering") == [SelectLowering()]
    assert parse_pipeline("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fold", "no pass 'fold'; ours are linear-assign-layouts, linear-await-operands"),
        ("linear-await", "no pass 'linear-await'; did you mean 'linear-await-operands'"),
        ("canonicalise", "no pass 'canonicalise'; did you mean 'canonicalize'"),
        ("canonicalize{max=yes}", "canonicalize: upstream MLIR refuses the options 'max=yes'"),
        ("linear-select-lowering{tarjet=b}", "no option 'tarjet'; did you mean 'target'"),
        ("linear-outline-conversions{a=b}", "linear-outline-conversions: no option 'a'; it has none"),
        ("linear-select-lowering{a=b}", "no option 'a'; it has target, scratch-limit, exact"),
        ("linear-select-lowering{target}", "linear-select-lowering: option 'target' has no value"),
        ("linear-select-lowering{scratch-limit=-1}", "option 'scratch-limit' takes a number, got '-1'"),
        ("linear-select-lowering{target=cuda:90", "cannot read 'linear-select-lowering{target=cuda:90'"),
        ("builtin.module(linear-select-lowering", "cannot read"),
        ("linear-select-lowering linear-outline-conversions", "cannot read"),
    ],
)
def test_what_is_wrong_with_a_pipeline_is_said(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        parse_pipeline(text)


# --- attaching, selecting ---------------------------------------------------------------------------------


def test_a_view_of_memory_has_the_layout_of_what_was_allocated() -> None:
    shared = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    layout = layouts.LayoutTable()
    context = bridge.upstream_context()

    def sizes(memory: str) -> list[int]:
        found = layout.of(Type.parse(f"!ttg.memdesc<{memory}>", context))
        assert isinstance(found, LinearLayout)
        return [size for _, size in found.out_dims]

    assert sizes(f"4x8xf16, {shared}, #ttg.shared_memory") == [4, 8]
    assert sizes(f"3x4x8xf16, {shared}, #ttg.shared_memory, mutable") == [4, 8]
    assert sizes(f"4x8xf16, {shared}, #ttg.shared_memory, mutable, 16x8") == [16, 8]


def test_a_decision_is_made_anew_when_asked_again() -> None:
    root = module(CONVERSION)
    (conversion,) = named(root, "ttg.convert_layout")
    for limit in (512, None):
        run_passes(root, [SelectLowering(scratch_limit=limit)])
        assert (ll.SCRATCH_LIMIT in conversion.attributes) == (limit is not None)
        assert ll.PLAN in conversion.attributes
    run_passes(root, [SelectLowering("hip:gfx942")])
    assert ll.STOCK in conversion.attributes
    assert ll.PLAN not in conversion.attributes
