"""The example kernels: right in Triton's interpreter, and every conversion that moves data is lowered by us."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from compiled_examples import compiled_with_plugin
from plugin_processes import printed

from triton_linear.dialect.triton_versions import installed_release
from triton_linear.examples import AMD_EXAMPLES, EXAMPLES, examples, specs
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.report import NOOP, Outcome
from triton_linear.tools.support.compile import lower, to_triton

NVIDIA = ("cuda:80", "cuda:90")
AMD = ("hip:gfx90a", "hip:gfx942", "hip:gfx950")
KERNELS = (
    "matmul",
    "attention",
    "fp8_attention",
    "layer_norm_forward",
    "layer_norm_backward",
    "int4_matmul",
    "transpose8",
)
ON_AMD = (*KERNELS, "mfma_matmul")
COMPILED = [
    *zip(KERNELS, itertools.cycle(NVIDIA), strict=False),
    *zip(ON_AMD, itertools.cycle(AMD), strict=False),
]
"""Each kernel for one GPU of either vendor."""


def spec_of(kernel: str, target: str) -> KernelSpec:
    (spec,) = (spec for spec in specs(gpu_target(target)) if spec.name == kernel)
    return spec


def test_kernels_compute_what_they_say() -> None:
    script = Path(__file__).parents[1] / "support" / "interpreted_examples.py"
    errors = json.loads(printed(script, TRITON_INTERPRET="1"))
    assert len(errors) == 15
    assert all(error < 2e-3 for error in errors.values()), errors


def test_there_are_six_examples_of_seven_kernels() -> None:
    assert len(EXAMPLES) == 6
    assert tuple(spec.name for spec in specs(gpu_target("cuda:90"))) == KERNELS


@pytest.mark.parametrize("target", AMD)
def test_amd_has_one_more(target: str) -> None:
    assert tuple(spec.name for spec in specs(gpu_target(target))) == ON_AMD
    assert [example.__name__.rpartition(".")[2] for example in AMD_EXAMPLES] == ["mfma_matmul"]
    assert examples(gpu_target(target)) == EXAMPLES + AMD_EXAMPLES


@pytest.mark.parametrize(("kernel", "target"), COMPILED)
def test_every_conversion_that_moves_data_is_ours(
    kernel: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And on AMD GPUs the kernel takes no more of the LDS than with stock Triton."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compiled, report = compiled_with_plugin(spec_of(kernel, target), target)
    ttgir = compiled.asm["ttgir"]  # as Triton makes it: the plugin works behind this stage
    if target in AMD:
        stock = lower(to_triton(ttgir), target, "llvmir").metadata["shared"]
        assert compiled.metadata.shared <= stock
    assert report.seen == ttgir.count("ttg.convert_layout")
    assert report.left == ()
    if target in AMD and installed_release() >= (3, 8) and not report.emitted:
        # Triton itself needs none there, or none that moves data.
        assert report.outcome is (Outcome.LEFT if report.seen else Outcome.NOTHING_TO_DO)
        assert all(conversion.lowering == NOOP for conversion in report.conversions)
        return
    assert report.outcome is Outcome.CONVERTED
    assert report.emitted >= 1
    assert report.emitted + sum(c.lowering == NOOP for c in report.conversions) == len(report.conversions)


@pytest.mark.parametrize("name", ["sm90", "cuda:gfx942", "hip:90", "cuda:"])
def test_an_unknown_target_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        gpu_target(name)
