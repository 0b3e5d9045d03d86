"""What measuring has decided holds from the first launch on, and has no contest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from autotune_support import LaunchingDriver, gpu, pointers, transposed
from contests_support import SIZE, kept_jobs, launch
from plugin_support import CUDA, HIP, compile_kernel, row_sums
from triton import knobs

import triton_linear
from triton_linear import contest_job, decisions, hook
from triton_linear.decisions import Circumstances, Decision, DecisionFile, Decisions
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found
from triton_linear.setting import Options, Setting

__all__ = ["gpu"]


def code_and_key(options: Options | None) -> tuple[bytes, str]:
    with hook.pinned(options) as reports, knobs.compilation.scope():
        knobs.compilation.always_compile = True
        transposed.device_caches.clear()
        kernel: Any = transposed.warmup(*pointers(), grid=(1,), **SIZE)
    return kernel.kernel, reports[0].key if reports else ""


@pytest.mark.parametrize("variant", ["stock", "ours"])
def test_a_decided_kernel_has_no_contest(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variant: str
) -> None:
    stock, _ = code_and_key(None)
    ours, key = code_and_key(Options(decisions="none", measured=True))
    place = tmp_path / "decisions.jsonl"
    target = "cuda:90"
    about = Circumstances(key, "", target, found() or "", decisions.ptxas_version(target), CODE_VERSION)
    DecisionFile(place).put([Decision(about, variant, "transposed", 1.1, 1.0, 1.2, "2026-11-23")])
    jobs = kept_jobs(monkeypatch, gpu)
    transposed.device_caches.clear()
    triton_linear.install(decisions=place, strict=True)
    try:
        launch(times=2)
    finally:
        triton_linear.uninstall()
    assert gpu.launched == [stock if variant == "stock" else ours] * 2
    assert stock != ours and not jobs


def test_others_have_one(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "decisions.jsonl"
    about = Circumstances("another", "", "cuda:90", found() or "", "", CODE_VERSION)
    DecisionFile(place).put([Decision(about, "ours", "transposed", 1.1, 1.0, 1.2, "2026-11-23")])
    jobs = kept_jobs(monkeypatch, gpu)
    transposed.device_caches.clear()
    triton_linear.install(decisions=place, strict=True)
    try:
        launch()
    finally:
        triton_linear.uninstall()
    assert len(jobs) == 1


@pytest.mark.parametrize("target", [CUDA, HIP], ids=str)
def test_a_kernel_from_the_cache_has_the_key_that_its_compile_had(target: Any, tmp_path: Path) -> None:
    """Metadata that comes from JSON has lists for tuples."""
    with hook.pinned(Options(decisions="none", measured=True)) as reports, knobs.compilation.scope():
        knobs.compilation.always_compile = True
        compile_kernel(row_sums, target)
    with hook.pinned(None):
        compile_kernel(row_sums, target)
        again = compile_kernel(row_sums, target)
    name = f"{target.backend}:{target.arch}"
    known = Decisions({(reports[0].key, name, decisions.ptxas_version(name)): "ours"}, "digest")
    assert contest_job.is_decided(again, Setting(Options(), decided=known))
    gone = Decisions(dict.fromkeys(known.variants, "second+bounded"), "digest")
    assert not contest_job.is_decided(again, Setting(Options(), decided=gone)), "a variant of another version"
