"""One function through `torch.compile`, its kernels compiled anew for each mode in the code around them.

Inductor compiles the function once, with stock Triton, and chooses each kernel's configuration. For a mode its
kernels are compiled again, in that configuration (pinned) or in all that were tried, of which the next call
chooses, and take their places in the compiled function. So nothing differs but the kernels.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from triton_linear.autotuner import MARK

# Of CachingAutotuner, in torch 2.11.
NEEDED = ("_precompile_config", "run")
ENVIRONMENT = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",
    "TORCHINDUCTOR_USE_STATIC_TRITON_LAUNCHER": "0",
}
SETTINGS = {
    "force_disable_caches": True,
    "compile_threads": 1,
    # Its launchers keep no assembly; named for CUDA before torch 2.11.
    "use_static_cuda_launcher": False,
    "use_static_triton_launcher": False,
}


class Unsupported(RuntimeError):
    """This version of PyTorch is not made as the suite expects."""


def prepare() -> list[str]:
    """Set Inductor up for the process; gives the settings that this version of it lacks.

    Requires: Inductor is not imported yet.
    """
    os.environ.update(ENVIRONMENT)
    from torch._inductor import config

    missing = []
    for name, value in SETTINGS.items():
        if hasattr(config, name):
            setattr(config, name, value)
        else:
            missing.append(name)
    return missing


def check() -> None:
    """Raise Unsupported where Inductor's autotuner has not what is used of it."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    lacking = [name for name in NEEDED if not hasattr(CachingAutotuner, name)]
    if lacking:
        raise Unsupported(f"CachingAutotuner has no {', '.join(lacking)}")


def forget() -> None:
    """Drop what Dynamo and Inductor keep of functions that were compiled."""
    import torch._dynamo
    from torch._inductor import codecache, utils

    torch._dynamo.reset()
    for holder, name in (
        (utils, "clear_caches"),
        (getattr(codecache, "PyCodeCache", None), "cache_clear"),
    ):
        clear = getattr(holder, name, None)
        if clear is not None:
            clear()


@contextmanager
def running() -> Iterator[list[Any]]:
    """The list of Inductor's autotuners, one a kernel, that run in the block, in the order of their launch."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    seen: list[Any] = []
    stock = CachingAutotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if all(self is not other for other in seen):
            seen.append(self)
        return stock(self, *args, **kwargs)

    CachingAutotuner.run = run
    try:
        yield seen
    finally:
        CachingAutotuner.run = stock


class Compiled:
    """A function that Inductor has compiled with stock Triton, and called once.

    `configs` names the configurations of its kernels that are taken rather than those that Inductor chooses.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], configs: Sequence[str] = ()
    ) -> None:
        import torch

        forget()
        check()
        compiled = torch.compile(function, dynamic=False, fullgraph=True)
        self.call = lambda: compiled(*arguments)
        with torch.no_grad():
            self.call()  # Inductor may run kernels that it then does not use.
            with running() as self._tuners:
                self.call()
        if not self._tuners:
            raise Unsupported("the function has no Triton kernel")
        launchers = [launcher for tuner in self._tuners for launcher in tuner.launchers]
        if len(launchers) != len(self._tuners) or not all(hasattr(one, "config") for one in launchers):
            raise Unsupported("a kernel of Inductor's has not one launcher with a config")
        self.chosen = [tuner.launchers[0].config for tuner in self._tuners]
        self._tried = [
            [result.config for result in getattr(tuner, "compile_results", ())] or [config]
            for tuner, config in zip(self._tuners, self.chosen, strict=True)
        ]
        for number, name in enumerate(configs[: len(self.chosen)]):
            named = (config for config in self._tried[number] if config_name(config) == name)
            self.chosen[number] = next(named, self.chosen[number])

    def compile(self, pinned: bool) -> tuple[list[Any], list[str]]:
        """Put kernels that are compiled now into the function, as Triton is set up now.

        Gives the compiled kernels, in the order of their launch, and their configurations.
        """
        if pinned:
            for tuner, config in zip(self._tuners, self.chosen, strict=True):
                self._fill(tuner, [config])
        else:
            for tuner, configs in zip(self._tuners, self._tried, strict=True):
                self._fill(tuner, configs)
            self.call()
        kernels, names = [], []
        for tuner in self._tuners:
            (launcher,) = tuner.launchers
            result = next(r for r in tuner.compile_results if r.config is launcher.config)
            kernels.append(result.kernel)
            names.append(config_name(launcher.config))
        return kernels, names

    @staticmethod
    def _fill(tuner: Any, configs: list[Any]) -> None:
        results, launchers, error = [], [], None
        for config in configs:
            try:
                result = tuner._precompile_config(config)
                launchers.append(result.make_launcher())
                results.append(result)
            except Exception as problem:  # Inductor too leaves out configurations that take too much.
                error = problem
        if error is not None and not launchers:
            raise error
        tuner.compile_results, tuner.launchers = results, launchers

    def choosing(self, number: int, name: str) -> Compiled:
        """The same function with its kernel `number` in the configuration `name`, the others as they are here.

        One that Inductor did not try is made of one that it did. Raises ValueError where their sizes have
        other names.
        """
        other = copy.copy(self)
        other.chosen = list(self.chosen)
        other.chosen[number] = next(
            (config for config in self._tried[number] if config_name(config) == name), None
        ) or changed(self._tried[number][0], name)
        return other

    def names(self) -> list[list[str]]:
        """Of each kernel the configurations that Inductor tried."""
        return [list(dict.fromkeys(map(config_name, configs))) for configs in self._tried]

    def tried(self) -> list[Any]:
        """Every kernel that Inductor compiled to choose from. Requires: `compile` was not called yet."""
        return [result.kernel for tuner in self._tuners for result in getattr(tuner, "compile_results", ())]


def config_name(config: Any) -> str:
    """A configuration in words, `XBLOCK=64 R0_BLOCK=8 warps=4 stages=1`, with the plugin or without it."""
    sizes = [f"{name}={value}" for name, value in getattr(config, "kwargs", {}).items() if name != MARK]
    return " ".join([*sizes, f"warps={config.num_warps}", f"stages={config.num_stages}"])


def parse_config(name: str) -> tuple[dict[str, int], int, int]:
    """Sizes, warps and stages of a configuration in words: the inverse of `config_name`. Raises ValueError.

    >>> parse_config("XBLOCK=64 R0_BLOCK=8 warps=4 stages=1")
    ({'XBLOCK': 64, 'R0_BLOCK': 8}, 4, 1)
    """
    found: dict[str, int] = {}
    for part in name.split():
        pair = re.fullmatch(r"([A-Za-z_]\w*)=(\d+)", part)
        if pair is None or pair[1] in found:
            raise ValueError(f"configuration '{name}': '{part}' is not a new NAME=NUMBER")
        found[pair[1]] = int(pair[2])
    if not {"warps", "stages"} <= found.keys():
        raise ValueError(f"configuration '{name}' lacks warps= or stages=")
    warps, stages = found.pop("warps"), found.pop("stages")
    return found, warps, stages


def changed(config: Any, name: str) -> Any:
    """The configuration `name`, in all that the name does not say as `config`.

    Raises ValueError unless their sizes have the same names.
    """
    sizes, warps, stages = parse_config(name)
    if sizes.keys() != config.kwargs.keys() - {MARK}:
        raise ValueError(f"configuration '{name}': the kernel's sizes are {', '.join(config.kwargs) or 'none'}")
    other = copy.deepcopy(config)
    other.kwargs.update(sizes)
    other.num_warps, other.num_stages = warps, stages
    return other
