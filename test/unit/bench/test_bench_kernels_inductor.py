"""The suite of whole kernels' way with Inductor, of which only what the suite touches is played here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench.kernels import inductor, modes  # noqa: E402


class Config:
    def __init__(self, block: int) -> None:
        self.kwargs, self.num_warps, self.num_stages = {"XBLOCK": block}, 4, 1


class Tuner:
    """As CachingAutotuner: compiles every configuration, then keeps the launcher that it finds best."""

    made_with: str = "stock"
    best = 64

    def __init__(self, blocks: tuple[int, ...]) -> None:
        self.launchers: list[Any] = []
        self.compile_results = [self._precompile_config(Config(block)) for block in blocks]

    def _precompile_config(self, config: Config) -> Any:
        if config.kwargs["XBLOCK"] > 1000:
            raise MemoryError("out of resources")
        kernel = SimpleNamespace(name="k", mode=Tuner.made_with, block=config.kwargs["XBLOCK"])
        return SimpleNamespace(
            config=config, kernel=kernel, make_launcher=lambda: SimpleNamespace(config=config, kernel=kernel)
        )

    def run(self) -> Any:
        if not self.launchers:
            self.launchers = [result.make_launcher() for result in self.compile_results]
        if len(self.launchers) != 1:
            self.launchers = [min(self.launchers, key=lambda x: abs(x.config.kwargs["XBLOCK"] - Tuner.best))]
        return self.launchers[0].kernel


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    names = ("torch", "torch._inductor", "torch._inductor.runtime", "torch._inductor.runtime.triton_heuristics")
    modules = {name: ModuleType(name) for name in (*names, "torch._inductor.config", "torch._dynamo")}
    fake = modules["torch"]
    modules["torch._inductor"].config = modules["torch._inductor.config"]  # type: ignore[attr-defined]
    modules["torch._inductor"].codecache = ModuleType("codecache")  # type: ignore[attr-defined]
    modules["torch._inductor"].utils = ModuleType("utils")  # type: ignore[attr-defined]
    modules["torch._inductor.runtime.triton_heuristics"].CachingAutotuner = Tuner  # type: ignore[attr-defined]
    fake._inductor = modules["torch._inductor"]  # type: ignore[attr-defined]
    fake._dynamo = modules["torch._dynamo"]  # type: ignore[attr-defined]
    fake._dynamo.reset = lambda: None  # type: ignore[attr-defined]
    fake.no_grad = modes.nullcontext  # type: ignore[attr-defined]

    def compile(function: Any, **_: Any) -> Any:
        tuners: list[Tuner] = []

        def call(*arguments: Any) -> Any:
            if not tuners:
                tuners.extend(Tuner(blocks) for blocks in function(*arguments))
            return [tuner.run() for tuner in tuners]

        return call

    fake.compile = compile  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Tuner, "made_with", "stock")
    monkeypatch.setattr(Tuner, "best", 64)
    return fake


def test_kernels_are_compiled_again_in_the_configuration_chosen_with_stock(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = inductor.Compiled(lambda: [(32, 64, 128), (16,)], ())
    assert [inductor.config_name(config) for config in compiled.chosen] == [
        "XBLOCK=64 warps=4 stages=1",
        "XBLOCK=16 warps=4 stages=1",
    ]
    assert len(compiled.tried()) == 4
    monkeypatch.setattr(Tuner, "made_with", "ours")
    monkeypatch.setattr(Tuner, "best", 128)
    kernels, configs = compiled.compile(pinned=True)
    assert [(k.mode, k.block) for k in kernels] == [("ours", 64), ("ours", 16)]
    assert configs[0] == "XBLOCK=64 warps=4 stages=1"
    assert [(k.mode, k.block) for k in compiled.call()] == [("ours", 64), ("ours", 16)]
    kernels, configs = compiled.compile(pinned=False)
    assert [(k.mode, k.block) for k in kernels] == [("ours", 128), ("ours", 16)]
    monkeypatch.setattr(Tuner, "made_with", "stock")
    compiled.compile(pinned=True)
    assert [(k.mode, k.block) for k in compiled.call()] == [("stock", 64), ("stock", 16)]


def test_only_kernels_that_a_call_launches_are_compiled(torch: ModuleType) -> None:
    """Inductor may time kernels of two ways to compute, and use one of them."""
    calls = []

    def compile(function: Any, **_: Any) -> Any:
        tuners = [Tuner((64,)), Tuner((32,))]

        def call() -> Any:
            calls.append(1)
            return [tuner.run() for tuner in (tuners if len(calls) == 1 else tuners[1:])]

        return call

    torch.compile = compile  # type: ignore[attr-defined]
    kernels, _ = inductor.Compiled(lambda: None, ()).compile(pinned=True)
    assert [kernel.block for kernel in kernels] == [32]


def test_configurations_of_another_process_are_taken(torch: ModuleType) -> None:
    compiled = inductor.Compiled(lambda: [(32, 64, 128)], (), ["XBLOCK=128 warps=4 stages=1"])
    kernels, _ = compiled.compile(pinned=True)
    assert kernels[0].block == 128


def test_one_kernel_is_configured_otherwise_and_the_rest_as_chosen(torch: ModuleType) -> None:
    compiled = inductor.Compiled(lambda: [(32, 64, 128), (16,)], ())
    assert compiled.names() == [
        [f"XBLOCK={block} warps=4 stages=1" for block in blocks] for blocks in ((32, 64, 128), (16,))
    ]
    tried = compiled.choosing(0, "XBLOCK=128 warps=4 stages=1")
    assert tried.chosen[0] is compiled._tried[0][2] and tried.chosen[1] is compiled.chosen[1]
    new = compiled.choosing(1, "XBLOCK=8 warps=2 stages=3")
    for one, blocks in ((tried, [128, 16]), (compiled, [64, 16]), (new, [64, 8]), (compiled, [64, 16])):
        kernels, _ = one.compile(pinned=True)
        assert [kernel.block for kernel in kernels] == blocks
        assert [kernel.block for kernel in one.call()] == blocks
    assert (new.chosen[1].num_warps, new.chosen[1].num_stages) == (2, 3)
    assert inductor.config_name(compiled._tried[1][0]) == "XBLOCK=16 warps=4 stages=1"
    with pytest.raises(ValueError, match="the kernel's sizes are XBLOCK"):
        compiled.choosing(0, "YBLOCK=8 warps=2 stages=1")


def test_a_configuration_that_takes_too_much_is_left_out_unless_it_is_the_one(torch: ModuleType) -> None:
    compiled = inductor.Compiled(lambda: [(32, 64)], ())
    compiled._tried[0].append(Config(2048))
    kernels, _ = compiled.compile(pinned=False)
    assert kernels[0].block == 64
    compiled.chosen[0] = Config(2048)
    with pytest.raises(MemoryError):
        compiled.compile(pinned=True)


def test_a_torch_that_is_made_otherwise_is_refused(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(inductor.Unsupported, match="no Triton kernel"):
        inductor.Compiled(lambda: [], ())
    monkeypatch.delattr(Tuner, "_precompile_config")
    with pytest.raises(inductor.Unsupported, match="has no _precompile_config"):
        inductor.Compiled(lambda: [(32,)], ())


def test_settings_that_inductor_lacks_are_told(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    config = torch._inductor.config
    config.force_disable_caches, config.compile_threads = False, 8
    for name in inductor.ENVIRONMENT:
        monkeypatch.setenv(name, "8")
    assert inductor.prepare() == ["use_static_cuda_launcher", "use_static_triton_launcher"]
    assert config.force_disable_caches and config.compile_threads == 1
