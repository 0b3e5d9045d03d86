"""What `wgmma` left in registers, where our code selects among them: ptxas must see what is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import triton
from accumulator_kernels import ACC, HEAD, MMA, MOVED, POINTERS, WITHIN_WARPS, kernel
from machine_code import shown

import triton_linear
from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis import residency
from triton_linear.passes.analysis.accumulators import accumulators, changed_signs
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import STUB_PREFIX, stubs_of
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.run import run_passes
from triton_linear.tools.support.compile import LOWERING, compile_text
from triton_linear.tools.verify.command import check

PROGRAMS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
PTXAS = "ptxas-blackwell" if installed_release() >= (3, 9) else "ptxas"


SCALED = f"%scaled = arith.addf %next, %next : {ACC}"


def shuffles(ptx: str, folder: Path) -> tuple[int, int]:
    """How many shuffles are in the PTX, and how many ptxas leaves."""
    source, binary = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    subprocess.run([PROGRAMS / PTXAS, "--gpu-name", "sm_90a", source, "-o", binary], check=True)
    return len(re.findall(r"shfl\.sync", ptx)), len(re.findall(r"\bSHFL\b", shown(binary.read_bytes(), "-c")))


UNITS = f"%ones = arith.constant dense<1.0> : {ACC}\n"
WIDE, BITS = ACC.replace("f32", "f64"), ACC.replace("f32", "i32")
COMPUTED = {
    "selected": f"%m = arith.select %go, %next, %zeros : {ACC}",
    "wide and back": f"%n1 = arith.extf %next : {ACC} to {WIDE}\n%m = arith.truncf %n1 : {WIDE} to {ACC}",
    "bits and back": f"%n1 = tt.bitcast %next : {ACC} -> {BITS}\n%m = tt.bitcast %n1 : {BITS} -> {ACC}",
}


@pytest.fixture(autouse=True)
def many_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop reads what it carries, and would be converted through memory; shuffles are what is tested."""
    monkeypatch.setattr(residency, "carries_state", lambda _: False)


@pytest.mark.parametrize("name", ["as it is", *COMPUTED])
def test_shuffles_of_accumulators_reach_the_gpu(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever kernel would be faster: `occupancy` might take stock Triton's."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernel.ttgir"
    between = f"%go = arith.cmpi slt, %i, %one : i32\n{COMPUTED.get(name, '')}"
    path.write_text(kernel(between, "%m" if name in COMPUTED else "%next"))
    with triton_linear.enabled(strict=True, assign=False, occupancy=False) as reports:
        made = triton.compile(str(path), target=gpu_target("cuda:90"))
    assert [c.lowering for report in reports for c in report.conversions] == ["shuffle"]
    written, left = shuffles(made.asm["ptx"], tmp_path)
    assert written > 0
    assert left == written
    assert "mov.b32 {low, high}" in made.asm["ptx"]


LESS = f"%minus = arith.constant dense<-1.0> : {ACC}\n"
SIGNS = {
    "absolute": f"%m = math.absf %next : {ACC}",
    "times minus one": f"{LESS}%m = arith.mulf %next, %minus : {ACC}",
    "over minus one": f"{LESS}%m = arith.divf %next, %minus : {ACC}",
    "doubled absolute": f"%n1 = math.absf %next : {ACC}\n%m = arith.addf %n1, %n1 : {ACC}",
}


def signs_changed(text: str) -> bool:
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")
    return bool(changed_signs(operations(module.operation)))


def test_signs_change_by_each_of_these() -> None:
    assert all(signs_changed(kernel(between, "%m")) for between in SIGNS.values())


@pytest.mark.parametrize("name", ["absolute", "over minus one"])
def test_changed_signs_are_left_to_triton(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock Triton stores floats, and reads them right: the product is there, and adds to its registers."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernel.ttgir"
    path.write_text(kernel(SIGNS[name], "%m"))
    with triton_linear.enabled(assign=False) as reports:
        made = triton.compile(str(path), target=gpu_target("cuda:90"))
    (found,) = [conversion for report in reports for conversion in report.conversions]
    assert (found.lowering, "wgmma" in found.detail) == ("triton", True)
    shuffles(made.asm["ptx"], tmp_path)
    assert re.search(r"HGMMA\S* R\d+,", shown((tmp_path / "kernel.cubin").read_bytes(), "-c"))


def test_other_signs_are_ours() -> None:
    ones = f"{UNITS}%m = arith.mulf %next, %ones : {ACC}"
    less = f"%m = arith.subf %zeros, %next : {ACC}"
    doubled = f"%m = arith.addf %next, %next : {ACC}"
    texts = [kernel(between, "%m") for between in (doubled, ones, less)]
    assert not any(signs_changed(text) for text in (*texts, LOADED))


@pytest.mark.skipif(installed_release() >= (3, 9), reason="this ptxas is right")
def test_ptxas_takes_accumulators_for_what_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all this is for; once a ptxas is right here, it can go."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernel.ttgir"
    path.write_text(kernel())
    with triton_linear.enabled(strict=True, assign=False):
        ptx = triton.compile(str(path), target=gpu_target("cuda:90")).asm["ptx"]
    settled = re.compile(
        r"\{ \.reg \.b16 low, high; mov\.b32 \{low, high\}, (%r\d+); mov\.b32 (%r\d+),[^}]*\}; \}"
    )
    assert settled.search(ptx)
    written, left = shuffles(settled.sub(r"mov.b32 \2, \1;", ptx), tmp_path)
    assert left < written


def test_the_code_is_right_in_the_interpreter() -> None:
    (found,) = check(compile_text(kernel(), "kernel.ttgir", None, "llvm", LOWERING))
    assert found.ok
    assert found.plan.startswith("shuffle")


# Where registers of products go


def count(text: str) -> int:
    """How many values may be accumulators."""
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")
    return len(accumulators(operations(module.operation)))


def test_accumulators_are_followed_through_loops_branches_and_moves() -> None:
    # The product, the argument it becomes, the loop's result; the conversion's result, its argument and result.
    assert count(kernel()) == 6
    assert count(kernel(SCALED, "%scaled")) == 7
    chosen = f"""%c = arith.cmpi slt, %i, %n : i32
      %branch = scf.if %c -> ({ACC}) {{
        scf.yield %next : {ACC}
      }} else {{
        scf.yield %zeros : {ACC}
      }}"""
    assert count(kernel(chosen, "%branch")) == 7
    twice = f"""%turned = scf.while (%w = %next) : ({ACC}) -> ({ACC}) {{
        %go = arith.cmpi slt, %i, %n : i32
        scf.condition(%go) %w : {ACC}
      }} do {{
      ^bb0(%v: {ACC}):
        scf.yield %v : {ACC}
      }}"""
    assert count(kernel(twice, "%turned")) == 9
    assert count(LOADED) == 0
    narrow = ACC.replace("f32", "bf16")
    assert count(kernel(f"%narrow = arith.truncf %next : {ACC} to {narrow}")) == 6


def test_accumulators_are_followed_into_functions_and_blocks() -> None:
    called = f"%m = tt.call @other(%next) : ({ACC}) -> {ACC}"
    other = f"""
  tt.func private @other(%x: {ACC}) -> {ACC} attributes {{noinline = true}} {{
    tt.return %x : {ACC}
  }}
}}
"""
    assert count(kernel(called, "%m").rstrip().removesuffix("}") + other) == 8
    jumps = f"""    }}
    %go = arith.cmpi slt, %zero, %n : i32
    cf.cond_br %go, ^bb1, ^bb2(%r#0 : {ACC})
  ^bb1:
    cf.br ^bb2(%zeros : {ACC})
  ^bb2(%b: {ACC}):
    %c = ttg.convert_layout %b : {ACC} -> {MOVED}
    tt.return"""
    assert count(kernel().replace("    }\n    tt.return", jumps)) == 8


LOADED = f"""{HEAD}
  tt.func public @kernel(%p: tensor<64x64x!tt.ptr<f32>, {MMA}>, %q: {POINTERS}) {{
    %x = tt.load %p : tensor<64x64x!tt.ptr<f32>, {MMA}>
    %y = ttg.convert_layout %x : {ACC} -> {MOVED}
    tt.store %q, %y : {POINTERS}
    tt.return
  }}
}}
"""


def marked(module: Module) -> list[bool]:
    """Whether the stub of each conversion takes accumulators."""
    passes = [SelectLowering("cuda:90"), OutlineConversions()]
    assert run_passes(module, passes, remarks=False).succeeded
    stubs = stubs_of(operations(module.operation), target("cuda:90"), Plans())
    called = [stubs[name] for name in re.findall(rf"callee = @({STUB_PREFIX}\w+)", str(module.operation))]
    return [stub.accumulators for stub in called]


def test_only_calls_that_take_accumulators_have_such_stubs() -> None:
    for text, expected in ((kernel(), True), (kernel(SCALED, "%scaled"), True), (LOADED, False)):
        assert marked(bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")) == [expected]


def test_what_comes_by_way_of_another_conversion_is_an_accumulator_too() -> None:
    """The first one renames registers, and its result is another value once it is outlined."""
    renamed = WITHIN_WARPS.replace("[[0, 1], [8, 0], ", "[[8, 0], [0, 1], ")
    middle = f"tensor<64x64xf32, {renamed}>"
    first = f"%first = ttg.convert_layout %next : {ACC} -> {MOVED}"
    text = kernel(f"{first}\n      %second = ttg.convert_layout %first : {MOVED} -> {middle}")
    text = text.replace(
        f"%moved = ttg.convert_layout %next : {ACC}", f"%moved = ttg.convert_layout %second : {middle}"
    )
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")
    assert marked(module) == [True] * 3
