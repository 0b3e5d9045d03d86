"""The warp-specialised examples: specialised, every conversion ours, no barrier of other warps, verified."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from compiled_examples import compiled_by_triton, compiled_with_plugin

from triton_linear.dialect.triton_versions import installed_release
from triton_linear.examples import specialised, specialised_gluon
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.lowering.target.targets import TARGETS as GPUS
from triton_linear.report import NOOP, Outcome
from triton_linear.tools.measuring import child as measuring
from triton_linear.tools.support.compile import LOWERING, compile_text
from triton_linear.tools.verify.command import check

TARGETS = ("cuda:90", "cuda:100")
KERNELS = ("specialised_matmul", "specialised_attention", "gluon_matmul", "gluon_attention")
CASES = list(zip(KERNELS, itertools.cycle(TARGETS), strict=False))
"""Each kernel for one of the targets."""
OTHERS = list(zip(KERNELS, itertools.cycle(reversed(TARGETS)), strict=False))
"""Each for the other one."""

pytestmark = pytest.mark.skipif(
    installed_release() < (3, 9), reason="which loops are specialised, and Gluon's names, differ before 3.9"
)


def spec_of(kernel: str, target: str) -> KernelSpec:
    gpu = gpu_target(target)
    found = (*specialised.compile_specs(gpu), *specialised_gluon.compile_specs(gpu))
    (spec,) = (spec for spec in found if spec.name == kernel)
    return spec


def regions(ttgir: str) -> str:
    """What `ttg.warp_specialize` holds."""
    begin = ttgir.index("ttg.warp_specialize(")
    return ttgir[begin : ttgir.index("ttg.warp_return", ttgir.rindex("partition"))]


@pytest.mark.parametrize(("kernel", "target"), CASES)
def test_it_is_specialised_and_every_conversion_is_ours(
    kernel: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compiled, report = compiled_with_plugin(spec_of(kernel, target), target)
    ttgir = compiled.asm["ttgir"]
    assert ttgir.count("ttg.warp_specialize(") == 1
    assert report.outcome is Outcome.CONVERTED
    assert report.left == ()
    assert report.seen == ttgir.count("ttg.convert_layout") >= 2
    assert report.emitted + sum(c.lowering == NOOP for c in report.conversions) == len(report.conversions)
    if kernel == "gluon_attention":
        # The weights come to the second dot without memory.
        assert "shuffle" in [c.lowering for c in report.conversions]
    # On Blackwell Triton moves the epilogues of its own loops behind the partitions.
    if kernel.startswith("gluon") or target == "cuda:90":
        assert regions(ttgir).count("ttg.convert_layout") == report.seen


@pytest.mark.parametrize(("kernel", "target"), OTHERS)
def test_the_code_of_its_conversions_is_run(
    kernel: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    text = compiled_by_triton(spec_of(kernel, target), target).asm["ttgir"]
    checked = check(compile_text(text, f"{kernel}.ttgir", target, "llvm", LOWERING))
    assert checked
    assert all(one.verdict is None or one.ok for one in checked)
    assert any(one.verdict is not None for one in checked)


@pytest.mark.parametrize("kernel", KERNELS)
def test_measuring_compiles_it_again_with_its_own_warps(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    spec = spec_of(kernel, "cuda:90")
    first = compiled_by_triton(spec, "cuda:90")
    own = spec.options["num_warps"]
    assert own < first.metadata.num_warps, "Triton counts the warps of regions too"
    again, _ = measuring.compiled(first, "stock")
    assert again.hash == first.hash
    variant, reports = measuring.compiled(first, "variant:latency")
    assert variant.asm["ttgir"].count(f'"ttg.num-warps" = {own} ') == 1
    assert [report.outcome for report in reports] == [Outcome.CONVERTED]


@pytest.mark.parametrize(("kernel", "saved"), [("gluon_matmul", 2), ("gluon_attention", 1)])
def test_scratch_shares_no_bytes_where_the_ring_of_stages_bounds_the_ctas_anyway(
    kernel: str, saved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    spec, gpu = spec_of(kernel, "cuda:90"), GPUS["cuda:90"]
    stock, ours = compiled_by_triton(spec, "cuda:90"), compiled_with_plugin(spec, "cuda:90")[0]
    barriers = [kernel.asm["ptx"].count("bar.sync") for kernel in (stock, ours)]
    assert barriers[1] == barriers[0] - saved
    whole = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    ctas = [whole // (kernel.metadata.shared + gpu.reserved_shared_bytes) for kernel in (stock, ours)]
    assert stock.metadata.shared < ours.metadata.shared and ctas[0] == ctas[1]


def test_other_gpus_have_none() -> None:
    for target in ("cuda:80", "hip:gfx942"):
        gpu = gpu_target(target)
        assert specialised.compile_specs(gpu) == specialised_gluon.compile_specs(gpu) == ()
