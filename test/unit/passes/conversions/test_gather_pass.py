"""Gathers in kernels: the pass, and what Triton makes of what it leaves."""

from __future__ import annotations

import itertools
import re

import accumulator_kernels
import numpy as np
import pytest
from gather_cases import TARGETS

from bench.whole_kernels import LOWERING, lower_kernel, sink
from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.lowering.interpreter.verify import held_elements
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.conversions.gather import LowerGathers, _Choice
from triton_linear.passes.conversions.stubs import StubError, stubs_of
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.pipeline import Rewritten, rewrite
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.support.compile import compile_text

KERNELS = [name for name in TARGETS if name != "hip:gfx1200" or installed_release() < (3, 7)]
"""Newer Tritons lower gfx1200's barriers to operations that the interpreter does not know."""
ELEMENTS = (("f32", "i32"), ("f16", "i64"), ("i8", "i8"), ("f64", "i16"))
IN_TURN = [(name, *types) for name, types in zip(KERNELS, itertools.cycle(ELEMENTS), strict=False)]
"""Each target with one of these pairs."""
CUDA, HIP = target("cuda:90"), target("hip:gfx942")


def module_text(name: str, body: str, arguments: str) -> str:
    lanes = target(name).lanes
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{name}", '
        f'"ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"tt.func public @kernel({arguments}) {{\n{body}\ntt.return\n}}\n}}\n"
    )


def blocked(per_thread: tuple[int, int], lanes: tuple[int, int], warps: tuple[int, int] = (4, 1)) -> str:
    shapes = (
        f"{key} = [{a}, {b}]"
        for key, (a, b) in zip(
            ("sizePerThread", "threadsPerWarp", "warpsPerCTA"), (per_thread, lanes, warps), strict=True
        )
    )
    return f"#ttg.blocked<{{{', '.join(shapes)}, order = [1, 0]}}>"


def around(name: str, element: str, index: str) -> tuple[str, str, str]:
    """A kernel that gathers along 16 columns in layouts that Triton prefers, between conversions; the layouts
    of what it is given and gives."""
    wide = target(name).lanes
    loaded, taken = blocked((1, 4), (wide // 4, 4)), blocked((1, 1), (wide // 16, 16))
    types = [f"tensor<64x16x{kind}, {place}>" for kind in (element, index) for place in (loaded, taken)]
    body = f"""%a = ttg.convert_layout %x : {types[0]} -> {types[1]}
    %b = ttg.convert_layout %i : {types[2]} -> {types[3]}
    %c = tt.gather %a[%b] {{axis = 1 : i32, efficient_layout}} : ({types[1]}, {types[3]}) -> {types[1]}
    %d = ttg.convert_layout %c : {types[1]} -> {types[0]}
    {sink("%d", types[0], "result")}"""
    return module_text(name, body, f"%x: {types[0]}, %i: {types[2]}"), types[0], types[2]


@pytest.mark.parametrize(("name", "element", "index"), IN_TURN)
@pytest.mark.parametrize("ours", [False, True], ids=["stock", "ours"])
def test_kernels_gather_what_numpy_does(ours: bool, name: str, element: str, index: str) -> None:
    text, source_type, _ = around(name, element, index)
    kernel = lower_kernel(text, "kernel.ttgir", name, LOWERING if ours else None)
    encoding = source_type.partition(", ")[2][:-1]
    gpu, bits = target(name), element_type(element).bits
    place = encodings.held_layout_of(encoding, (64, 16), bits)
    held = held_elements(place, gpu.lanes, 4, 0)
    rng = np.random.default_rng(3)
    values = rng.permutation(1 << min(bits, 16))[: 64 * 16] if bits > 8 else rng.integers(0, 256, 64 * 16)
    numbers = rng.integers(0, 16, 64 * 16)
    wanted = np.take_along_axis(values.reshape(16, 64), numbers.reshape(16, 64), 0).reshape(-1)
    outcome = kernel.run([[v[None].astype(np.uint64) for v in given[held]] for given in (values, numbers)])
    given, undefined = outcome.sinks["result"]
    assert not (undefined & np.uint64(2**bits - 1)).any()
    assert np.array_equal(given[:, 0], wanted[held].astype(np.uint64))
    assert not outcome.races
    if ours:
        assert ("__ll_gather" in kernel.embedded) and "tt.gather" not in kernel.embedded


def prepared(text: str, name: str = "cuda:90") -> tuple[Rewritten, str]:
    root = bridge.text_to_upstream(text, bridge.upstream_context())
    found = rewrite(root, LOWERING, target(name), verify=True)
    return found, str(root)


def test_conversions_around_a_gather_go_where_all_is_cheaper_without() -> None:
    found, text = prepared(around("cuda:90", "i8", "i32")[0])
    (gather,) = found.gathers
    assert gather.stub is not None
    assert gather.source.endswith(f"{blocked((1, 4), (8, 4))}>")
    assert found.conversions == ()
    assert "ttg.convert_layout" not in text


def test_a_gather_across_warps_is_left() -> None:
    place = blocked((1, 4), (32, 1), (1, 4))
    values, numbers = f"tensor<64x16xf32, {place}>", f"tensor<64x16xi32, {place}>"
    body = f"""%c = tt.gather %x[%i] {{axis = 1 : i32}} : ({values}, {numbers}) -> {values}
    {sink("%c", values, "result")}"""
    found, _ = prepared(module_text("cuda:90", body, f"%x: {values}, %i: {numbers}"))
    (gather,) = found.gathers
    assert gather.kind == "stock" and gather.detail == "index bit 4 names an element of another warp"


def test_stubs_are_shared_and_have_plans_for_their_target_only() -> None:
    place = blocked((1, 1), (2, 16))
    values, numbers = f"tensor<64x16xf32, {place}>", f"tensor<64x16xi32, {place}>"
    types = f"({values}, {numbers}) -> {values}"
    body = f"""%c = tt.gather %x[%i] {{axis = 1 : i32}} : {types}
    %d = tt.gather %c[%i] {{axis = 1 : i32}} : {types}
    {sink("%d", values, "result")}"""
    root = bridge.text_to_upstream(
        module_text("cuda:90", body, f"%x: {values}, %i: {numbers}"), bridge.upstream_context()
    )
    assert run_passes(root, [LowerGathers()], verify=True).succeeded
    calls = [op for op in operations(root.operation) if op.name == "tt.call"]
    assert len(calls) == 2
    assert list(stubs_of(operations(root.operation), CUDA, Plans())) == ["__ll_gather_0"]
    with pytest.raises(StubError, match="@__ll_gather_0 has no plan for hip:gfx942: the source layout has 32"):
        stubs_of(operations(root.operation), HIP, Plans())
    assert len(re.findall(r"callee = @__ll_gather_0", str(root))) == 2


@pytest.mark.parametrize(("element", "mask"), [("f16", 65535), ("i8", 255)])
@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942"])
def test_what_one_gather_gave_is_not_masked_for_the_next(name: str, element: str, mask: int) -> None:
    """Shuffles move words; above the element they are zero in all lanes, which LLVM cannot see by itself."""
    place = blocked((1, 1), (target(name).lanes // 16, 16))
    values, numbers = f"tensor<64x16x{element}, {place}>", f"tensor<64x16xi32, {place}>"
    types = f"({values}, {numbers}) -> {values}"
    body = f"""%c = tt.gather %x[%i] {{axis = 1 : i32, efficient_layout}} : {types}
    %d = tt.gather %c[%i] {{axis = 1 : i32, efficient_layout}} : {types}
    {sink("%d", values, "result")}"""
    text = module_text(name, body, f"%x: {values}, %i: {numbers}")
    compilation = compile_text(text, "k", None, "llvmir", LOWERING)
    (kernel,) = compilation.kernels
    text = str(kernel.lowered.stages["llvmir"])
    shuffled = re.findall(r"(%\d+) = tail call .*@llvm\.(?:nvvm\.shfl\.sync\.idx|amdgcn\.ds\.bpermute)", text)
    assert len(shuffled) >= 2 * 64 * 16 // (4 * target(name).lanes)
    masked = re.findall(rf"= and i32 (%\d+), {mask}\b", text)
    assert not set(masked) & set(shuffled)


def test_explain_has_gathers_and_the_conversions_that_are_left_around_them() -> None:
    report = explained(around("cuda:90", "f32", "i32")[0], "k.ttgir", None, options=LOWERING)
    (line,) = report.gathers
    assert line.startswith("k.ttgir:")
    assert "plan proved" in line
    away = explained(around("cuda:90", "i8", "i32")[0], "k.ttgir", None, options=LOWERING)
    assert away.conversions == ()
    assert away.folded == 3


def test_conversions_beside_a_gather_are_explained_by_it() -> None:
    """What is gathered from serves something else too: that conversion stays."""
    here, other = blocked((1, 1), (2, 16)), blocked((4, 1), (2, 16), (4, 1))
    types = [f"tensor<64x16xf32, {place}>" for place in (other, here)]
    numbers = f"tensor<64x16xi32, {here}>"
    body = f"""%a = ttg.convert_layout %x : {types[0]} -> {types[1]}
    %c = tt.gather %a[%i] {{axis = 1 : i32}} : ({types[1]}, {numbers}) -> {types[1]}
    {sink("%c", types[1], "result")}
    {sink("%a", types[1], "source")}"""
    text = module_text("cuda:90", body, f"%x: {types[0]}, %i: {numbers}")
    report = explained(text, "k.ttgir", None, options=LOWERING)
    (conversion,) = report.conversions
    assert conversion.to_anchor is not None
    assert conversion.to_anchor.operation == "tt.gather"


def test_a_gather_of_accumulators_is_left() -> None:
    numbers = accumulator_kernels.ACC.replace("f32", "i32")
    between = f"""%numbers = arith.constant dense<1> : {numbers}
      %taken = tt.gather %next[%numbers] {{axis = 1 : i32}}
        : ({accumulator_kernels.ACC}, {numbers}) -> {accumulator_kernels.ACC}"""
    found, _ = prepared(accumulator_kernels.kernel(between, "%taken"))
    (gather,) = found.gathers
    assert (gather.kind, gather.detail) == ("stock", "it takes what `wgmma` left in its registers")


def test_a_gather_that_some_warps_run_is_ours() -> None:
    place = blocked((1, 1), (2, 16))
    values, numbers = f"tensor<64x16xf32, {place}>", f"tensor<64x16xi32, {place}>"
    taken = f"tt.gather %a[%b] {{axis = 1 : i32}} : ({values}, {numbers}) -> {values}"
    body = f"""ttg.warp_specialize(%x, %i)
    default {{
      ttg.warp_yield
    }}
    partition0(%a: {values}, %b: {numbers}) num_warps(4) {{
      %c = {taken}
      ttg.warp_return
    }} : ({values}, {numbers}) -> ()"""
    found, _ = prepared(module_text("cuda:90", body, f"%x: {values}, %i: {numbers}"))
    (gather,) = found.gathers
    assert gather.kind == "gather"


def test_throughput_counts_for_the_warps_of_a_cta_at_least() -> None:
    """A kernel with a large tensor is priced for no other warps than those of its CTA."""
    few = Situation.on(target("cuda:90")).with_warps(0)
    choice = _Choice(few, warps=4)
    cost = Cost(100.0, latency=50.0)
    assert choice.clocks(cost) == cost.expected(4) > cost.expected(0)
