"""`install(autotune=True)` and torch.compile: Inductor's autotuner gets configurations both ways.

A few lines stand in for `torch._inductor.runtime.triton_heuristics`; what the plugin sees of them is as in
PyTorch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton
from aligned_sources import aligned
from autotune_support import binaries, doubled, gpu, transposed
from plugin_support import CUDA
from torch_stand_in import stand_in

import triton_linear
from triton_linear import inductor
from triton_linear.autotuner import MARK, OFF, ON, mark_of

__all__ = ["gpu"]

MODULE = "torch._inductor.runtime.triton_heuristics"
FOLDERS = ("torch", "torch/_inductor", "torch/_inductor/runtime")
HEURISTICS = """
import json
import os

class CachingAutotuner:
    def __init__(self, compile, configs, save):
        self.compile, self.configs, self.save = compile, configs, save
        self.compile_results = []

    def _precompile_worker(self):
        if self.compile_results:
            return
        self.compile_results = [self._precompile_config(c) for c in self.configs]

    def _precompile_config(self, cfg):
        return self.compile(cfg)

def check_autotune_cache(configs, filename, inductor_meta):
    digest = str([str(c) for c in configs])
    path = filename and filename + ".best_config"
    if path and len(configs) > 1 and os.path.exists(path):
        best = json.loads(open(path).read())
        if best.pop("configs_hash") == digest:
            matching = [
                c for c in configs
                if all(v == best.get(k) for k, v in c.kwargs.items()) and c.num_warps == best["num_warps"]
            ]
            if len(matching) == 1:
                configs = matching
    def save(config):
        said = {**config.kwargs, "num_warps": config.num_warps, "configs_hash": digest}
        open(path, "w").write(json.dumps(said))
    return configs, save, {}

def cached_autotune(compile, configs, filename, inductor_meta):
    configs, save, _ = check_autotune_cache(configs, filename, inductor_meta)
    return CachingAutotuner(compile, configs, save)
"""

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture(autouse=True)
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    packages = {f"{folder}/__init__.py": "" for folder in FOLDERS}
    with stand_in({**packages, f"{MODULE.replace('.', '/')}.py": HEURISTICS}, tmp_path, monkeypatch):
        yield


def compile_config(kernel: Any) -> Any:
    """What compiles a configuration of a kernel, as `_precompile_config` does."""

    def compiled(config: Any) -> Any:
        source = aligned(kernel, {"x": "*i8", "out": "*i8"}, config.kwargs)
        options = {"num_warps": config.num_warps}
        return SimpleNamespace(config=config, kernel=triton.compile(source, target=CUDA, options=options))

    return compiled


def generated(kernel: Any, *sizes: int, folder: Path, **meta: object) -> Any:
    """The autotuner of a kernel that Inductor has generated, with all compiled."""
    module = importlib.import_module(MODULE)
    configs = [triton.Config({"N": size}, num_warps=4) for size in sizes]
    tuner = module.cached_autotune(compile_config(kernel), configs, str(folder / kernel.__name__), meta)
    tuner._precompile_worker()
    return tuner


def kept(tuner: Any) -> list[tuple[int, str | None]]:
    return [(each.config.kwargs["N"], mark_of(each.config)) for each in tuner.compile_results]


@pytest.mark.parametrize("first", ["torch", "install"])
def test_each_configuration_is_compiled_both_ways(first: str, tmp_path: Path) -> None:
    expected = binaries(transposed, num_warps=4, N=64)
    if first == "torch":
        importlib.import_module(MODULE)
    triton_linear.install(autotune=True)
    tuner = generated(transposed, 32, 64, folder=tmp_path)
    assert kept(tuner) == [(32, ON), (64, ON), (32, OFF), (64, OFF)]
    _, ours, _, stock = (bytes(each.kernel.kernel) for each in tuner.compile_results)
    assert (stock, ours) == expected


def test_what_is_the_same_binary_both_ways_stays_one(tmp_path: Path) -> None:
    triton_linear.install(autotune=True)
    assert kept(generated(doubled, 32, 64, folder=tmp_path)) == [(32, ON), (64, ON)]


@pytest.mark.parametrize("mark", [ON, OFF])
def test_the_choice_on_disk_says_which(tmp_path: Path, mark: str) -> None:
    triton_linear.install(autotune=True)
    tuner = generated(transposed, 32, 64, folder=tmp_path)
    (best,) = (each for each in tuner.compile_results if each.config.kwargs == {"N": 64, MARK: mark})
    tuner.save(best.config)
    module = importlib.import_module(MODULE)
    found, _, _ = module.check_autotune_cache([each.config for each in tuner.compile_results], "file", {})
    assert [config.kwargs for config in found] == [each.config.kwargs for each in tuner.compile_results]
    (again,) = generated(transposed, 32, 64, folder=tmp_path).compile_results
    assert again.config.kwargs == {"N": 64, MARK: mark}
    assert again.kernel.kernel == best.kernel.kernel
    triton_linear.install(wait=True)
    assert kept(generated(transposed, 32, 64, folder=tmp_path)) == [(32, None), (64, None)]


@pytest.mark.parametrize("where", ["no file", "deterministic", "interpreted", "off", "another setting"])
def test_nothing_is_added(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton_linear.install(autotune=True)
    module = importlib.import_module(MODULE)
    meta = {"deterministic": True} if where == "deterministic" else {}
    if where == "interpreted":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    elif where == "off":
        triton_linear.uninstall()
    elif where == "another setting":
        triton_linear.install(wait=True)
    configs = [triton.Config({"N": 32}), triton.Config({"N": 64})]
    found, _, _ = module.check_autotune_cache(configs, None if where == "no file" else "file", meta)
    assert found is configs


def test_what_was_generated_goes_on_when_the_plugin_is_off(tmp_path: Path) -> None:
    stock, _ = binaries(transposed, num_warps=4, N=64)
    triton_linear.install(autotune=True)
    tuner = generated(transposed, 64, folder=tmp_path)
    configs, tuner.compile_results = [each.config for each in tuner.compile_results], []
    triton_linear.uninstall()
    found = [tuner._precompile_config(config) for config in configs]
    assert [bytes(each.kernel.kernel) for each in found] == [stock, stock]
    assert [each.config for each in found] == configs


def test_a_worker_is_told(tmp_path: Path) -> None:
    triton_linear.install(autotune=True)
    setting_options = triton_linear.hook._state.active.options  # type: ignore[union-attr]
    triton_linear.uninstall()
    job = inductor.Job(lambda: kept(generated(transposed, 64, folder=tmp_path)), setting_options, None)
    assert job() == [(64, ON), (64, OFF)]


def test_an_inductor_that_is_not_known_is_left_alone_with_one_warning() -> None:
    module = importlib.import_module(MODULE)
    del module.CachingAutotuner._precompile_worker
    functions = module.check_autotune_cache, module.CachingAutotuner._precompile_config
    with pytest.warns(triton_linear.LimitWarning, match="nothing for torch.compile") as found:
        triton_linear.install(autotune=True)
        triton_linear.install(autotune=True, strict=True)
    assert len([each for each in found if "torch.compile" in str(each.message)]) == 1
    assert (module.check_autotune_cache, module.CachingAutotuner._precompile_config) == functions
