"""Inductor's kernels in a process: which are launched in a step, and in which configurations.

Each kernel is a `CachingAutotuner`, which after its first launch has one launcher, of the configuration that it
found fastest. The process that has the plugin can launch each kernel in its own choice (`FREE`) or in the one
that stock Triton's process made (`EQUAL`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..kernels.inductor import changed, config_name
from ..torch_compile_process import code_digest

STOCK, PLUGIN = "stock", "plugin"
"""The two processes of a case."""
FREE, EQUAL = "free", "equal"
"""What the one that has the plugin runs; the other runs STOCK."""

_OWN = re.compile(r"'(?:backend_hash|kernel_hash)': (?:'[^']*'|None),?")
"""What is in the source of a kernel, and differs between settings of the plugin."""


def digest(source: str) -> str:
    """Equal for a kernel that Inductor has generated under whichever setting.

    >>> digest("{'backend_hash': 'A', 'x': 1}") == digest("{'backend_hash': 'B', 'x': 1}")
    True
    """
    return hashlib.sha256(_OWN.sub("", source).encode()).hexdigest()[:12]


def _source(tuner: Any) -> str:
    try:
        return Path(tuner.filename).read_text()
    except (TypeError, OSError):
        return str(getattr(tuner.fn, "src", ""))


class Tuners:
    """The kernels of a step, each once, in the order of their first launch.

    launched: every launch of the step, as an index of `tuners`.
    keys: what tells kernels apart, the same in the processes of all settings.
    """

    def __init__(self, tuners: Sequence[Any], launched: Sequence[int]) -> None:
        self.tuners, self.launched = list(tuners), list(launched)
        seen: Counter[str] = Counter()
        self.keys = []
        for tuner in self.tuners:
            key = digest(_source(tuner))
            seen[key] += 1
            self.keys.append(f"{key}.{seen[key]}" if seen[key] > 1 else key)
        self._way = FREE
        self._launchers = {FREE: [list(tuner.launchers) for tuner in self.tuners]}

    @property
    def names(self) -> list[str]:
        """Those that the profiler sees."""
        return [str(tuner.fn.__name__) for tuner in self.tuners]

    def choices(self) -> dict[str, str]:
        """The configuration that each kernel chose, by key."""
        return {key: _name_of(mine[0]) for key, mine in zip(self.keys, self._launchers[FREE], strict=True)}

    def facts(self) -> list[dict[str, Any]]:
        """What there is to know of each kernel."""
        times = Counter(self.launched)
        return [
            {
                "name": name,
                "key": key,
                "launches": times[number],
                "config": _name_of(tuner.launchers[0]),
                "tried": len(tuner.compile_results),
                **_facts(tuner.launchers[0], _result_of(tuner, tuner.launchers[0])),
            }
            for number, (tuner, key, name) in enumerate(zip(self.tuners, self.keys, self.names, strict=True))
        ]

    def adopt(self, choices: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Make the launchers of EQUAL; gives facts of the kernels that are others than those of FREE, by key.

        Where the configuration was compiled with the plugin and without it, the autotuner measures both in the
        first step of EQUAL; the facts are those of the first. A kernel without such a choice, or that cannot be
        compiled in it, keeps its own; the facts say why.
        """
        self._launchers[EQUAL] = list(self._launchers[FREE])
        found: dict[str, dict[str, Any]] = {}
        for number, (tuner, key) in enumerate(zip(self.tuners, self.keys, strict=True)):
            name = choices.get(key)
            if name is None:
                found[key] = {"error": "stock Triton's process has no such kernel"}
            elif name != _name_of(self._launchers[FREE][number][0]):
                try:
                    made = _results(tuner, name) or [_compiled(tuner, name)]
                    launchers = [each.make_launcher() for each in made]
                except Exception as error:
                    found[key] = {"error": f"{type(error).__name__}: {error}"[:300]}
                    continue
                self._launchers[EQUAL][number] = launchers
                found[key] = {"config": name, **_facts(launchers[0], made[0])}
        return found

    def use(self, way: str) -> None:
        """Have the kernels launched so from here on."""
        self._launchers[self._way] = [
            list(tuner.launchers) for tuner in self.tuners
        ]  # what it has chosen since
        self._way = FREE if way == STOCK else way
        for tuner, launchers in zip(self.tuners, self._launchers[self._way], strict=True):
            tuner.launchers = list(launchers)


def _name_of(launcher: Any) -> str:
    return config_name(launcher.config)


def _results(tuner: Any, name: str) -> list[Any]:
    return [each for each in tuner.compile_results if config_name(each.config) == name]


def _result_of(tuner: Any, launcher: Any) -> Any:
    return next((each for each in tuner.compile_results if each.config == launcher.config), None)


def _compiled(tuner: Any, name: str) -> Any:
    """A kernel in a configuration that was not tried: how many registers it needs decides what is tried."""
    if tuner.fn.fn is None:  # A worker compiled it.
        tuner.fn = tuner._reload_kernel().fn
    return tuner._precompile_config(changed(tuner.compile_results[0].config, name))


def _facts(launcher: Any, result: Any) -> dict[str, Any]:
    """Registers, spilled ones and shared memory of a compiled kernel, and what its code is."""
    assembly = getattr(getattr(result, "kernel", None), "asm", None) or {}
    return {
        "registers": getattr(launcher, "n_regs", None),
        "spilled": getattr(launcher, "n_spills", None),
        "shared": getattr(launcher, "shared", None),
        "code": code_digest(assembly["ptx"]) if "ptx" in assembly else None,
    }


@contextmanager
def launches() -> Iterator[list[Any]]:
    """Every autotuner that runs in the block, once for each launch."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    seen: list[Any] = []
    stock = CachingAutotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(self)
        return stock(self, *args, **kwargs)

    CachingAutotuner.run = run
    try:
        yield seen
    finally:
        CachingAutotuner.run = stock


def of_step(step: Callable[[], object]) -> Tuners:
    """The kernels that a step launches. Requires: it was called before, so that all have chosen."""
    with launches() as seen:
        step()
    tuners: dict[int, Any] = {id(each): each for each in seen}
    order = {each: number for number, each in enumerate(tuners)}
    return Tuners(list(tuners.values()), [order[id(each)] for each in seen])


@contextmanager
def alone(held: Callable[[], Any]) -> Iterator[None]:
    """In the block, graphs that Inductor has compiled run, and its autotuners measure, while `held()` is."""
    import torch
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def guarded(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with held():
                result = stock(self, *args, **kwargs)
                torch.cuda.synchronize()
                return result

        return call

    places = ((CompiledFxGraph, "__call__"), (CachingAutotuner, "autotune_to_one_config"))
    before = [(owner, name, getattr(owner, name)) for owner, name in places]
    for owner, name, stock in before:
        setattr(owner, name, guarded(stock))
    try:
        yield
    finally:
        for owner, name, stock in before:
            setattr(owner, name, stock)
