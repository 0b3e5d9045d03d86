"""The Gluon matmul for AMD's matrix cores: it computes the product, and every conversion of it is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
from machine_operations import mixed, named
from module_machine import Machine, Memory, run

from triton_linear.dialect import bridge
from triton_linear.examples.mfma_matmul import BLOCK_K, BLOCK_M, BLOCK_N, INSTRUCTIONS, compile_specs
from triton_linear.examples.spec import gpu_target
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.run import run_passes
from triton_linear.tools.support.compile import compile_text, lower, to_triton
from triton_linear.tools.verify.command import check

TARGETS = [f"hip:{arch}" for arch in INSTRUCTIONS]
HALF = 2
"""Bytes of an element."""


@pytest.fixture(scope="module", params=TARGETS)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """A target, and the kernel as stock Triton compiles it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        (spec,) = compile_specs(gpu_target(request.param))
        kernel = triton.compile(spec.source(), target=gpu_target(request.param), options=dict(spec.options))
    return request.param, kernel


def test_it_is_for_three_gpus() -> None:
    assert TARGETS == ["hip:gfx90a", "hip:gfx942", "hip:gfx950"]
    assert compile_specs(gpu_target("cuda:90")) == ()


def test_it_stores_the_product(compiled: tuple[str, Any]) -> None:
    """Three blocks of K, and strides that are no size of a block, in the machine that tells elements apart."""
    _, kernel = compiled
    a, b, out = (place << 44 for place in (1, 2, 3))
    k, stride_a, stride_b, stride_out = 3 * BLOCK_K, 3 * BLOCK_K + 16, 5 * BLOCK_N + 32, 7 * BLOCK_N
    program = (2, 1, 0)
    rows = program[0] * BLOCK_M + np.arange(BLOCK_M)[:, None]
    columns = program[1] * BLOCK_N + np.arange(BLOCK_N)[None, :]
    inner = np.arange(k)
    with np.errstate(over="ignore"):
        left = mixed(a + HALF * (rows * stride_a + inner[None, :]))
        right = mixed(b + HALF * (inner[:, None] * stride_b + columns))
        zero = mixed(named(0.0))  # to this machine a float is where it comes from
        expected = mixed(named("arith.truncf", "f16"), zero + left @ right)
    addresses = out + HALF * (rows * stride_out + columns)
    wanted = Memory()
    wanted.store(addresses.ravel(), expected.ravel())

    root = bridge.text_to_upstream(kernel.asm["ttgir"], bridge.upstream_context(), "mfma_matmul")
    stored = run(root, (a, b, out, k, stride_a, stride_b, stride_out), Machine(program=program))
    assert len(stored.addresses) == BLOCK_M * BLOCK_N
    assert stored.same(wanted)


@pytest.mark.parametrize("assigned", [False, True])
def test_every_conversion_is_right(compiled: tuple[str, Any], assigned: bool) -> None:
    """Those that it has, and those between the layouts that are chosen for it; with no more LDS than stock."""
    target, kernel = compiled
    text = kernel.asm["ttgir"]
    assert text.count("ttg.convert_layout") == 3
    if assigned:
        root = bridge.text_to_upstream(text, bridge.upstream_context(), "mfma_matmul")
        assert run_passes(root, [AssignLayouts(target)], verify=True).succeeded
        text = root.operation.get_asm(enable_debug_info=True)
    compilation = compile_text(text, "mfma_matmul.ttgir", target, "llvmir")
    checked = check(compilation)
    assert len(checked) >= 2
    assert all(one.verdict is not None and one.ok for one in checked)
    (ours,) = (kernel.lowered.metadata["shared"] for kernel in compilation.kernels)
    stock = lower(to_triton(kernel.asm["ttgir"]), target, "llvmir").metadata["shared"]
    assert stock == kernel.metadata.shared
    assert 0 < ours <= stock


def test_it_uses_the_matrix_cores(compiled: tuple[str, Any]) -> None:
    target, kernel = compiled
    k = {"hip:gfx90a": 8, "hip:gfx942": 8, "hip:gfx950": 16}[target]
    name = f"v_mfma_f32_32x32x{k}{'' if target == 'hip:gfx90a' else '_'}f16"
    # A warp has 2 x 2 instructions for each k of them.
    assert kernel.asm["amdgcn"].count(name) == 4 * BLOCK_K // k
