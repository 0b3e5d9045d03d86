"""Kernels that fill shared memory: the plugin is never what makes one need more than there is."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
from filled_kernels import filled_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import Language, make_backend

import triton_linear
from triton_linear.dialect import bridge
from triton_linear.lowering.target.targets import target
from triton_linear.passes import attempts
from triton_linear.report import Outcome, Report

pytestmark = pytest.mark.usefixtures("fresh")

GPUS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:86": GPUTarget("cuda", 86, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:120": GPUTarget("cuda", 120, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
    "hip:gfx950": GPUTarget("hip", "gfx950", 64),
}


@dataclass(frozen=True)
class Made:
    llir: str
    shared: int
    report: Report | None


def made(gpu: str, text: str, plugin: dict[str, Any] | None) -> Made:
    """A module up to LLVM IR; `plugin`: its options, None where it is off."""
    if plugin is None:
        return _made(gpu, text)
    with warnings.catch_warnings(), triton_linear.enabled(strict=True, assign=False, **plugin) as reports:
        warnings.simplefilter("error")
        found = _made(gpu, text)
    return Made(found.llir, found.shared, reports[0])


def _made(gpu: str, text: str) -> Made:
    backend: Any = make_backend(GPUS[gpu])
    backend.hash()
    options = backend.parse_options({})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata: dict[str, Any] = {"target": GPUS[gpu], **options.__dict__}
    llir = stages["llir"](bridge.parse_triton(text, bridge.triton_context()), metadata)
    return Made(str(llir), metadata["shared"], None)


@functools.cache
def scratch(gpu: str, loop: bool) -> tuple[int, int, int]:
    """What stock Triton takes, the plugin where it would like some more, and the plugin at least.

    Half of the memory is in use, so no exchange keeps its scratch for longer than it needs it.
    """
    own = target(gpu).max_shared_bytes // 2
    stock, usual, least = (
        made(gpu, filled_kernel(gpu, own, 64, 64, loop), given).shared - own
        for given in (None, {}, {"scratch_limit": 0})
    )
    return stock, usual, least


@pytest.mark.parametrize(("gpu", "loop"), [("cuda:86", False), ("cuda:90", True), ("hip:gfx942", True)])
def test_where_memory_is_full_the_plan_is_smaller_then_the_kernel_stock_tritons(gpu: str, loop: bool) -> None:
    most, (stock, usual, least) = target(gpu).max_shared_bytes, scratch(gpu, loop)
    assert least < min(stock, usual)
    outcomes = set()
    for room in sorted({room for at in (stock, usual, least) for room in (at - 16, at)} | {0, 2 * usual}):
        text = filled_kernel(gpu, most - room, 64, 64, loop)
        found = made(gpu, text, {})
        assert found.report is not None
        outcomes.add((found.report.outcome, bool(found.report.remarks)))
        if room >= least:
            assert found.report.outcome is Outcome.CONVERTED
            assert found.shared <= most
        else:
            plain = made(gpu, text, None)
            assert (found.llir, found.shared) == (plain.llir, plain.shared)
            assert {c.detail for c in found.report.left} == {"shared memory is exhausted"}
        if room >= 2 * usual:
            assert not found.report.remarks
    full = {(Outcome.CONVERTED, False), (Outcome.CONVERTED, True), (Outcome.LEFT, True)}
    assert outcomes == full


@pytest.mark.parametrize("gpu", GPUS)
def test_more_scratch_than_there_is_goes_in_rounds(gpu: str) -> None:
    """A tile of 128 KiB."""
    text = filled_kernel(gpu, 0, 256, 128, False)
    chosen = target(gpu)
    for plugin, most in (
        ({}, chosen.scratch_bytes),
        ({"scratch_limit": 4096}, 4096),
        ({"scratch_limit": 0}, 4096),
    ):
        found = made(gpu, text, plugin)
        assert found.report is not None
        assert (found.report.outcome, found.report.emitted) == (Outcome.CONVERTED, 1)
        assert 0 < found.shared <= most


def test_without_the_second_try_a_kernel_would_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what the tests above would show of a stage that gives up at once."""
    gpu = "hip:gfx942"
    most, (_, usual, least) = target(gpu).max_shared_bytes, scratch(gpu, False)
    monkeypatch.setattr(attempts, "LEAST_SCRATCH", usual)
    found = made(gpu, filled_kernel(gpu, most - least, 64, 64, False), {})
    assert found.report is not None and found.report.outcome is Outcome.LEFT
