"""`install(autotune=True)`: autotuners measure kernels with the plugin and without, and take the faster.

A clock that is told what to say stands in for measuring, and a driver that launches nothing for a GPU.
"""

from __future__ import annotations

from typing import Any

import pytest
import triton
from autotune_support import Clock, LaunchingDriver, binaries, doubled, gpu, pointers, transposed
from plugin_support import triton_state
from triton.runtime import autotuner as tritons
from triton.runtime.errors import OutOfResources
from triton.runtime.interpreter import InterpretedFunction

import triton_linear
from triton_linear import hook
from triton_linear.autotuner import MARK, OFF, Autotuning, mark_of

__all__ = ["gpu"]

SMALL, LARGE = {"N": 32}, {"N": 64}
STOCK_METHODS = {**vars(tritons.Autotuner), "launch": tritons.JITFunction.run}
"""As they are before the plugin was ever on."""


def autotuned(kernel: Any, clock: Clock, *sizes: dict[str, int], **options: Any) -> Any:
    configs = [triton.Config(dict(size), num_warps=4) for size in sizes]
    return triton.autotune(configs, key=[], do_bench=clock, **options)(kernel)


def clock_for(gpu: LaunchingDriver, best: bytes) -> Clock:
    return Clock(gpu, lambda binary: 1.0 if binary == best else 2.0)


def methods() -> dict[str, object]:
    return {**vars(tritons.Autotuner), "launch": tritons.JITFunction.run}


@pytest.mark.parametrize(("winner", "size"), [("stock", SMALL), ("ours", LARGE)])
def test_the_faster_binary_is_chosen_and_launched(
    gpu: LaunchingDriver, winner: str, size: dict[str, int]
) -> None:
    best = binaries(transposed, num_warps=4, **size)[winner == "ours"]
    clock = clock_for(gpu, best)
    kernel = autotuned(transposed, clock, SMALL, LARGE)
    with triton_linear.enabled(autotune=True):
        kernel[(1,)](*pointers())
        assert clock.measured == 4
        gpu.launched.clear()
        kernel[(1,)](*pointers())
        assert (clock.measured, gpu.launched) == (4, [best])
        assert mark_of(kernel.best_config) == (None if winner == "ours" else OFF)
        assert kernel.best_config.kwargs["N"] == size["N"]


@pytest.mark.parametrize(
    ("kernel", "sizes", "block", "measured", "ours"),
    [
        (transposed, (SMALL, LARGE), triton_linear.enabled, 2, True),
        # What is the same binary both ways is measured once, one configuration alone is not.
        (doubled, (SMALL, LARGE), lambda: triton_linear.enabled(autotune=True), 2, False),
        (transposed, (SMALL,), lambda: triton_linear.enabled(autotune=True), 0, True),
        (transposed, (SMALL, LARGE), lambda: hook.pinned(None), 2, False),
    ],
    ids=["without the option", "one binary", "one configuration", "a thread under stock Triton"],
)
def test_nothing_is_measured_twice_for_nothing(
    gpu: LaunchingDriver, kernel: Any, sizes: Any, block: Any, measured: int, ours: bool
) -> None:
    stock, best = binaries(kernel, num_warps=4, **SMALL)
    assert (stock == best) == (kernel is doubled)
    clock = clock_for(gpu, best if ours else stock)
    tuned = autotuned(kernel, clock, *sizes)
    with triton_linear.enabled(autotune=True), block():
        tuned[(1,)](*pointers())
    assert clock.measured == measured
    assert gpu.launched[-1] == (best if ours else stock)


def test_what_is_pruned_to_one_configuration_is_not_measured_for_the_plugin(gpu: LaunchingDriver) -> None:
    def first(configs: list[Any], *_: object, **__: object) -> list[Any]:
        return configs[:1]

    clock = clock_for(gpu, b"")
    prune = {"early_config_prune": first}
    kernel = autotuned(transposed, clock, SMALL, LARGE, prune_configs_by=prune)
    with triton_linear.enabled(autotune=True):
        kernel[(1,)](*pointers())
        assert len(kernel.warmup(*pointers(), grid=(1,))) == 1
    assert clock.measured <= 1  # Triton before 3.9 measures it though there is nothing to choose from


def test_what_is_interpreted_is_not_compiled_both_ways(gpu: LaunchingDriver) -> None:
    interpreted = InterpretedFunction(transposed.fn)
    kernel = autotuned(interpreted, clock_for(gpu, b""), SMALL, LARGE)
    with triton_linear.enabled(autotune=True):
        assert len(kernel.prune_configs({})) == 2


def test_each_setting_chooses_for_itself(gpu: LaunchingDriver) -> None:
    clock = clock_for(gpu, b"")
    kernel = autotuned(transposed, clock, SMALL, LARGE)
    measured = []
    for limit in (None, 64, None, 64):
        with triton_linear.enabled(autotune=True, scratch_limit=limit):
            kernel[(1,)](*pointers())
            measured.append(clock.measured)
    assert measured == [4, 8, 8, 8]


@pytest.mark.parametrize("winner", ["stock", "ours"])
def test_a_choice_from_disk_holds(gpu: LaunchingDriver, winner: str) -> None:
    best = binaries(transposed, num_warps=4, **LARGE)[winner == "ours"]
    first = clock_for(gpu, best)
    with triton_linear.enabled(autotune=True):
        autotuned(transposed, first, SMALL, LARGE, cache_results=True)[(1,)](*pointers())
    again = clock_for(gpu, b"")
    with triton_linear.enabled(autotune=True):
        autotuned(transposed, again, SMALL, LARGE, cache_results=True)[(1,)](*pointers())
    assert (first.measured, again.measured) == (4, 0)
    assert gpu.launched[-1] == best
    for options in (None, {}):  # other keys: neither stock Triton nor the plugin alone follows it
        other = clock_for(gpu, b"")
        kernel = autotuned(transposed, other, SMALL, LARGE, cache_results=True)
        if options is None:
            kernel[(1,)](*pointers())
        else:
            with triton_linear.enabled():
                kernel[(1,)](*pointers())
        assert other.measured == 2


def test_everything_is_put_back(gpu: LaunchingDriver) -> None:
    stock, ours = binaries(transposed, num_warps=4, **SMALL)
    clock = clock_for(gpu, stock)
    kernel = autotuned(transposed, clock, SMALL, LARGE)
    kernel[(1,)](*pointers())
    before, choices = triton_state(), kernel.cache
    chosen = dict(choices)
    triton_linear.install(autotune=True, wait=True)
    kernel[(1,)](*pointers())
    assert (clock.measured, mark_of(kernel.best_config)) == (6, OFF)
    with triton_linear.enabled():
        assert kernel.cache is choices
        kernel[(1,)](*pointers())
        assert (clock.measured, gpu.launched[-1]) == (6, ours)
    kernel[(1,)](*pointers())
    assert (clock.measured, gpu.launched[-1]) == (6, stock)
    assert mark_of(kernel.best_config) == OFF
    triton_linear.uninstall()
    assert (triton_state(), methods()) == (before, STOCK_METHODS)
    assert kernel.cache is choices and choices == chosen
    assert kernel.best_config.all_kwargs() == {**SMALL, "num_warps": 4, "num_ctas": 1, "num_stages": 3}
    transposed[(1,)](*pointers(), **kernel.best_config.all_kwargs())
    kernel[(1,)](*pointers())
    assert (clock.measured, gpu.launched[-1]) == (6, stock)
    with triton_linear.enabled(autotune=True):
        kernel[(1,)](*pointers())
    assert clock.measured == 6


def test_choices_that_the_user_put_there_lose_their_mark(gpu: LaunchingDriver) -> None:
    stock, _ = binaries(transposed, num_warps=4, **SMALL)
    kernel = autotuned(transposed, clock_for(gpu, stock), SMALL, LARGE)
    with triton_linear.enabled(autotune=True):
        kernel[(1,)](*pointers())
        kernel.cache = dict(kernel.cache)
        assert [mark_of(config) for config in kernel.cache.values()] == [OFF]
    assert kernel.cache == {}
    kernel[(1,)](*pointers())


def test_heuristics_and_models_see_what_they_know(gpu: LaunchingDriver) -> None:
    def model(x: Any, out: Any, N: int, grid: Any, warmup: bool, **options: Any) -> int:
        assert MARK not in options
        return N

    clock = clock_for(gpu, binaries(transposed, num_warps=4, **SMALL)[False])
    pruned = autotuned(
        transposed, clock, SMALL, LARGE, {"N": 128}, prune_configs_by={"perf_model": model, "top_k": 2}
    )
    with triton_linear.enabled(autotune=True):
        pruned[(1,)](*pointers())
        assert (clock.measured, mark_of(pruned.best_config)) == (4, OFF)
    heuristic = triton.heuristics({"N": lambda arguments: 32})(transposed)
    configs = [triton.Config({}, num_warps=warps) for warps in (2, 4)]
    kernel = triton.autotune(configs, key=[], do_bench=clock)(heuristic)
    with triton_linear.enabled(autotune=True):
        kernel[(1,)](*pointers())
        assert (kernel.best_config.num_warps, mark_of(kernel.best_config)) == (4, OFF)


def test_what_cannot_be_launched_one_way_is_taken_the_other(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock, ours = binaries(transposed, num_warps=4, **SMALL)
    load = gpu.load_binary

    def refuse(name: str, kernel: bytes, shared: int, device: int) -> Any:
        if kernel != stock:
            raise OutOfResources(1, 0, "registers")
        return load(name, kernel, shared, device)

    monkeypatch.setattr(gpu, "load_binary", refuse)
    kernel = autotuned(transposed, clock_for(gpu, ours), SMALL, LARGE)
    with triton_linear.enabled(autotune=True):
        kernel[(1,)](*pointers())
    assert gpu.launched[-1] == stock


def test_warming_up_compiles_both_ways(gpu: LaunchingDriver) -> None:
    kernel = autotuned(transposed, clock_for(gpu, b""), SMALL, LARGE)
    expected = [binaries(transposed, num_warps=4, **size) for size in (SMALL, LARGE)]
    with triton_linear.enabled(autotune=True):
        found = [bytes(each.kernel) for each in kernel.warmup(*pointers(), grid=(1,))]
    assert found == [ours for _, ours in expected] + [stock for stock, _ in expected]


def strange(self: Any, *args: Any, config: Any, again: bool, **meta: Any) -> None: ...


@pytest.mark.parametrize("owner", ["Autotuner", "JITFunction"])
def test_an_unknown_autotuner_is_left_alone_with_one_warning(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    monkeypatch.setattr(hook._state, "autotuning", Autotuning(hook._state))
    if owner == "Autotuner":
        monkeypatch.setattr(tritons.Autotuner, "_bench", strange)
    else:
        monkeypatch.setattr(tritons.JITFunction, "run", strange)
    before, found_methods = triton_state(), methods()
    with pytest.warns(triton_linear.LimitWarning, match="measuring both ways does nothing") as found:
        for _ in range(2):
            with triton_linear.enabled(autotune=True):
                assert methods() == found_methods
    assert len([each for each in found if "autotune" in str(each.message)]) == 1
    assert triton_state() == before
