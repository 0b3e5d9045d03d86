"""The warp-specialised examples: specialised, every conversion ours, no barrier of other warps, verified."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from compiled_examples import compiled_by_triton, compiled_with_plugin

from triton_linear.dialect.triton_versions import installed_release
from triton_linear.examples import specialised, specialised_gluon
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.lowering.target.targets import TARGETS as GPUS
from triton_linear.report import NOOP, Outcome, Report
from triton_linear.tools.measuring import child as measuring
from triton_linear.tools.support.backend import ttgir_of
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


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Other tests have compiled nothing of this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@functools.cache
def stock(kernel: str, target: str) -> Any:
    return compiled_by_triton(spec_of(kernel, target), target)


@functools.cache
def ours(kernel: str, target: str) -> tuple[Any, Report]:
    return compiled_with_plugin(spec_of(kernel, target), target)


def regions(ttgir: str) -> str:
    """What `ttg.warp_specialize` holds."""
    begin = ttgir.index("ttg.warp_specialize(")
    return ttgir[begin : ttgir.index("ttg.warp_return", ttgir.rindex("partition"))]


@pytest.mark.parametrize(("kernel", "target"), CASES)
def test_it_is_specialised_and_every_conversion_is_ours(kernel: str, target: str) -> None:
    compiled, report = ours(kernel, target)
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
def test_the_code_of_its_conversions_is_run(kernel: str, target: str) -> None:
    spec = spec_of(kernel, target)
    text = str(ttgir_of(spec.source(), gpu_target(target), dict(spec.options)))
    checked = check(compile_text(text, f"{kernel}.ttgir", target, "llvm", LOWERING))
    assert checked
    assert all(one.verdict is None or one.ok for one in checked)
    assert any(one.verdict is not None for one in checked)


@pytest.mark.parametrize("kernel", ["specialised_matmul", "gluon_attention"])
def test_measuring_compiles_it_again_with_its_own_warps(kernel: str) -> None:
    first, own = stock(kernel, "cuda:90"), spec_of(kernel, "cuda:90").options["num_warps"]
    assert own < first.metadata.num_warps, "Triton counts the warps of regions too"
    again, _ = measuring.compiled(first, "stock")
    assert again.hash == first.hash
    variant, reports = measuring.compiled(first, "latency")
    assert variant.asm["ttgir"].count(f'"ttg.num-warps" = {own} ') == 1
    assert [report.outcome for report in reports] == [Outcome.CONVERTED]


@pytest.mark.parametrize(("kernel", "saved"), [("gluon_matmul", 2), ("gluon_attention", 1)])
def test_scratch_shares_no_bytes_where_the_ring_of_stages_bounds_the_ctas_anyway(
    kernel: str, saved: int
) -> None:
    gpu, made = GPUS["cuda:90"], (stock(kernel, "cuda:90"), ours(kernel, "cuda:90")[0])
    barriers = [each.asm["ptx"].count("bar.sync") for each in made]
    assert barriers[1] == barriers[0] - saved
    whole = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    taken = [each.metadata.shared for each in made]
    ctas = [whole // (each + gpu.reserved_shared_bytes) for each in taken]
    assert taken[0] < taken[1] and ctas[0] == ctas[1]


def test_other_gpus_have_none() -> None:
    for target in ("cuda:80", "hip:gfx942"):
        gpu = gpu_target(target)
        assert specialised.compile_specs(gpu) == specialised_gluon.compile_specs(gpu) == ()
