"""Kernels of Inductor, which is played here, are compiled again in the configuration that was chosen."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bench.kernels import inductor, modes


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
