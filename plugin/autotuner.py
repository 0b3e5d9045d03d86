"""Triton's autotuner: each configuration with the plugin and without, where a setting asks for that.

While such a setting is in force (`install(autotune=True)`), four methods of Triton's are wrapped:

- `Autotuner.prune_configs` gives each configuration twice, the second time marked (`tuned_configs.OFF`). One
  configuration alone stays one: nobody measures it, and its kernel need not bear to be run again;
- `JITFunction.run` takes the mark out of its arguments, and has stock Triton compile and launch where it was.
  Caches of kernels, in the process and on disk, have keys for that already;
- `Autotuner._bench` measures a configuration once if both ways give the same binary;
- `Autotuner.run` has the autotuner choose among both, whatever it chose before: it gets a `cache` of its own
  for each setting. The choices on disk have the mark, and keys that say what they are between.

Where the setting is no longer in force, methods and choices are again what they were.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from triton_linear.patch import Patch
from triton_linear.report import LimitWarning
from triton_linear.tuned_configs import MARK, OFF, mark_of, marked, with_and_without

if TYPE_CHECKING:
    from triton_linear.setting import Setting

_Choices = dict[Any, Any]
"""What an autotuner has chosen, by its key."""

_PARAMETERS = {
    "run": ("self", "args", "kwargs"),
    "prune_configs": ("self", "kwargs"),
    "_bench": ("self", "args", "config", "meta"),
}
"""Methods of `Autotuner` that are wrapped, in the releases that are known."""
_RUN = ("self", "args", "grid", "warmup", "kwargs")
"""And of `JITFunction.run`."""


class Switch(Protocol):
    """What is in force, for the process and for each of its threads."""

    def current(self) -> Setting | None:
        """The setting that this thread compiles under."""

    def stock(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with stock Triton in force in this thread."""


class _Trial(threading.local):
    """What a thread knows of the configurations that it measures.

    both: it measures them both ways. running: one with the plugin is, and it is not known yet whether it has
    another binary without; `same` then says so. timings: of those that have the same.
    """

    def __init__(self) -> None:
        self.both = False
        self.running = False
        self.same = False
        self.timings: dict[Any, Any] = {}


class Autotuning:
    """The wrapped methods, and the autotuners that have choices of ours."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._patches: tuple[Patch, ...] = ()
        self._lock = threading.RLock()
        self._trial = _Trial()
        self._chosen: WeakKeyDictionary[Any, dict[str, _Choices]] = WeakKeyDictionary()
        self._before: WeakKeyDictionary[Any, tuple[_Choices, _Choices]] = WeakKeyDictionary()
        self._reason = ""
        self._told = False

    def follow(self, setting: Setting | None) -> None:
        """Wrap what is to be wrapped under `setting`, and put back what is not. Called when another setting is
        in force."""
        self._give_back()
        if setting is None or not setting.options.autotune:
            for patch in reversed(self._patches):
                patch.undo()
            self._patches = ()
        elif not self._patches:
            self._patches = self._made()
            for patch in self._patches:
                patch.apply()

    def warn(self) -> None:
        """Say once why autotuners try nothing more than ever, if that was asked for and they do not."""
        if not self._reason or self._told:
            return
        self._told = True
        text = f"autotune=True does nothing for triton.autotune: {self._reason}"
        warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=3)

    def forked(self) -> None:
        """In a child process: no other thread holds the lock."""
        self._lock = threading.RLock()

    def _made(self) -> tuple[Patch, ...]:
        from triton.runtime.autotuner import Autotuner  # type: ignore[import-untyped, unused-ignore]
        from triton.runtime.jit import JITFunction  # type: ignore[import-untyped, unused-ignore]

        self._reason = _unknown(Autotuner, JITFunction)
        if self._reason:
            return ()
        return (
            Patch(Autotuner, "prune_configs", self._pruning(Autotuner.prune_configs)),
            Patch(Autotuner, "_bench", self._measuring(Autotuner._bench)),
            Patch(Autotuner, "run", self._choosing(Autotuner.run)),
            Patch(JITFunction, "run", self._launching(JITFunction.run)),
        )

    def _applies(self) -> bool:
        setting = self._switch.current()
        return setting is not None and setting.options.autotune

    def _pruning(self, stock: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        @functools.wraps(stock)
        def prune_configs(tuner: Any, kwargs: Any) -> list[Any]:
            configs = stock(tuner, kwargs)
            self._trial.timings = {}
            self._trial.both = len(configs) > 1 and self._applies() and _compiles(tuner)
            return with_and_without(configs, None) if self._trial.both else configs

        return prune_configs

    def _measuring(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def _bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            trial = self._trial
            if mark_of(config) == OFF:
                known = trial.timings.get(marked(config, None))
                return stock(tuner, *args, config=config, **meta) if known is None else known
            trial.running, trial.same = trial.both, False
            try:
                timing = stock(tuner, *args, config=config, **meta)
            finally:
                trial.running = False
            if trial.same:
                trial.timings[config] = timing
            return timing

        return _bench

    def _choosing(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            if tuner not in self._before:
                self._take(tuner)
            return stock(tuner, *args, **kwargs)

        return run

    def _launching(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.pop(MARK, None) == OFF:
                return self._switch.stock(stock, function, *args, **kwargs)
            kernel = stock(function, *args, **kwargs)
            if self._trial.running:
                self._trial.running = False
                self._trial.same = self._is_stock(kernel, stock, function, *args, **kwargs)
            return kernel

        return run

    def _is_stock(self, kernel: Any, run: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether stock Triton compiles a launch to the same kernel. It is compiled here, and not launched."""
        try:
            other = self._switch.stock(run, function, *args, **{**kwargs, "warmup": True})
        except Exception:  # which is measured as Triton has it: it fails again
            return False
        return _binary(kernel) is not None and _binary(kernel) == _binary(other)

    def _take(self, tuner: Any) -> None:
        """Give an autotuner the choices that it has made under the setting in force."""
        setting = self._switch.current()
        if setting is None or not setting.options.autotune:
            return
        with self._lock:
            if tuner not in self._before:
                chosen = self._chosen.setdefault(tuner, {}).setdefault(setting.fingerprint, {})
                self._before[tuner] = tuner.cache, chosen
                tuner.cache = chosen

    def _give_back(self) -> None:
        """Give all autotuners the choices that they had."""
        with self._lock:
            for tuner, (theirs, ours) in list(self._before.items()):
                if tuner.cache is ours:
                    tuner.cache = theirs
                else:  # which somebody else has put there
                    for key in [key for key, config in tuner.cache.items() if mark_of(config)]:
                        del tuner.cache[key]
                best = vars(tuner).get("best_config")
                if best is not None and mark_of(best):
                    tuner.best_config = marked(best, None)
            self._before.clear()


def _unknown(autotuner: type, function: Any) -> str:
    """Why it is not known how to have an autotuner try both; empty where it is."""
    for name, parameters in _PARAMETERS.items():
        method = vars(autotuner).get(name)
        if method is None or tuple(inspect.signature(method).parameters) != parameters:
            return f"its autotuner has no {name}({', '.join(parameters)})"
    if tuple(inspect.signature(function.run).parameters) != _RUN:
        return f"its kernels have no run({', '.join(_RUN)})"
    return ""


def _compiles(tuner: Any) -> bool:
    """Whether an autotuner launches what is compiled, and not interpreted."""
    from triton.runtime.jit import JITFunction

    found = tuner
    while found is not None and not isinstance(found, JITFunction):
        found = getattr(found, "fn", None)
    return found is not None


def _binary(kernel: Any) -> tuple[object, object] | None:
    """What is launched for a kernel; None for one that is still being compiled."""
    code = getattr(kernel, "kernel", None)
    return None if code is None else (code, getattr(getattr(kernel, "metadata", None), "shared", None))
