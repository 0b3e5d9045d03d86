"""Have Triton's autotuner measure each configuration with the plugin and without it.

While a setting with the option `autotune` is in force, four of Triton's methods are wrapped:

- `Autotuner.prune_configs` returns each configuration twice, the second time marked (`OFF`). A
  single configuration stays single: Triton does not measure it, and its kernel may not be safe to run twice;
- `JITFunction.run` removes the mark from its arguments, and has stock Triton compile and launch if there was
  one: while configurations are measured, and always with `wait`. Else the chosen kernel of stock Triton's
  enters a contest, as what the autotuner saw are few launches. The keys of the kernel caches, in memory and on
  disk, tell the kernels apart;
- `Autotuner._bench` measures a configuration only once if the binary is the same with the plugin and without;
- `Autotuner.run` gives the autotuner a separate `cache` for each setting, so that it chooses anew among both.
  The choices on disk have the mark, and their keys contain the marked configurations.

When no such setting is in force any more, methods and caches are restored.

The mark is one of a configuration's `kwargs`. Triton's and Inductor's autotuners copy, print and cache these
with the configuration. The wrapped functions that launch or compile a configuration remove the mark first.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from triton_linear.patch import Patch
from triton_linear.report import LimitWarning

if TYPE_CHECKING:
    from triton_linear.setting import Setting
    from triton_linear.state import State

MARK: Final = "triton_linear"
"""The name of the mark among `kwargs`; its value is ON or OFF."""
ON: Final = "on"
OFF: Final = "off"


def mark_of(config: Any) -> str | None:
    """The mark of a configuration; None if it has none."""
    found: str | None = (getattr(config, "kwargs", None) or {}).get(MARK)
    return found


def marked(config: Any, mark: str | None) -> Any:
    """A copy of a configuration with this mark, or without a mark if None."""
    made = copy.copy(config)
    made.kwargs = {name: value for name, value in config.kwargs.items() if name != MARK}
    if mark is not None:
        made.kwargs[MARK] = mark
    return made


def with_and_without(configs: Sequence[Any], on: str | None) -> list[Any]:
    """All configurations with the plugin, then all without it; so of equally fast ones, that with it is chosen.

    on: the mark of those with the plugin; None: they are the objects in `configs`, without a mark.

    >>> from types import SimpleNamespace
    >>> [mark_of(each) for each in with_and_without([SimpleNamespace(kwargs={"BLOCK": 64})], ON)]
    ['on', 'off']
    """
    first = list(configs) if on is None else [marked(config, on) for config in configs]
    return first + [marked(config, OFF) for config in configs]


def missing(owner: Any, functions: Mapping[str, tuple[str, ...]]) -> str:
    """The first of these functions that an autotuner lacks; "" if it has all.

    functions: by their path from `owner`, the first parameters of each. All others must have defaults."""
    for path, names in functions.items():
        found = functools.reduce(lambda holder, name: getattr(holder, name, None), path.split("."), owner)
        given = [] if found is None else list(inspect.signature(found).parameters.values())
        rest = given[len(names) :]
        if tuple(each.name for each in given[: len(names)]) != names or any(
            each.default is each.empty for each in rest
        ):
            return f"{path}({', '.join(names)})"
    return ""


def wrapped(stock: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `ours` with `stock` before the arguments."""

    @functools.wraps(stock)
    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(stock, *args, **kwargs)

    return call


def warn_unsupported(whose: str, reason: str) -> None:
    """Warn that an autotuner measures as without the plugin."""
    text = f"measuring both ways does nothing for {whose}: {reason}"
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=4)


_ConfigCache = dict[Any, Any]
"""`Autotuner.cache`: the chosen configuration for each key."""

_METHODS = {
    "run": ("self", "args", "kwargs"),
    "prune_configs": ("self", "kwargs"),
    "_bench": ("self", "args", "config", "meta"),
}
_RUN = {"run": ("self", "args", "grid", "warmup", "kwargs")}
"""The parameters of the wrapped methods of `Autotuner` and `JITFunction` in supported releases."""


class _Trial(threading.local):
    """The state of one thread that measures configurations.

    doubled: each configuration is measured with the plugin and without. measures: one is being measured with
    the plugin. benching: one is being measured. comparing: the function whose kernel is not yet compared with
    stock Triton's. same_binary: the result of that comparison. timings: of the configurations whose binary
    is the same. off: a configuration is launched that was chosen without the plugin."""

    def __init__(self) -> None:
        self.doubled = False
        self.comparing: Any = None
        self.measures = False
        self.benching = False
        self.off = False
        self.same_binary = False
        self.timings: dict[Any, Any] = {}


class Autotuning:
    """The wrapped methods, and the autotuners whose caches are replaced."""

    def __init__(self, switch: State) -> None:
        self._switch = switch
        self._patches: tuple[Patch, ...] = ()
        self._lock = threading.RLock()
        self._trial = _Trial()
        self._own_caches: WeakKeyDictionary[Any, dict[str, _ConfigCache]] = WeakKeyDictionary()
        self._replaced_caches: WeakKeyDictionary[Any, tuple[_ConfigCache, _ConfigCache]] = WeakKeyDictionary()
        self._reason = ""
        self._warned = False

    @property
    def measures(self) -> bool:
        """True if this thread measures configurations both ways, or launches the one that it has chosen."""
        return self._trial.measures

    @property
    def off(self) -> bool:
        """True if this thread launches a configuration that an autotuner has chosen without the plugin."""
        return self._trial.off

    def follow(self, setting: Setting | None) -> None:
        """Wrap Triton's methods if `setting` asks for it; else restore them. Called when it changes."""
        self._restore_caches()
        if setting is None or not setting.options.autotunes:
            for patch in reversed(self._patches):
                patch.undo()
            self._patches = ()
        elif not self._patches:
            self._patches = self._make_patches()
            for patch in self._patches:
                patch.apply()

    def warn(self) -> None:
        """Warn once if the option is on but this Triton's autotuner is not supported."""
        if not self._reason or self._warned:
            return
        self._warned = True
        warn_unsupported("triton.autotune", self._reason)

    def forked(self) -> None:
        """Called in a child process, where no thread may hold the old lock any more."""
        self._lock = threading.RLock()

    def _make_patches(self) -> tuple[Patch, ...]:
        from triton.runtime.autotuner import Autotuner  # type: ignore[import-untyped, unused-ignore]
        from triton.runtime.jit import JITFunction  # type: ignore[import-untyped, unused-ignore]

        if lacking := missing(Autotuner, _METHODS):
            self._reason = f"its autotuner has no {lacking}"
        elif lacking := missing(JITFunction, _RUN):
            self._reason = f"its kernels have no {lacking}"
        if lacking:
            return ()
        return (
            Patch(Autotuner, "prune_configs", wrapped(Autotuner.prune_configs, self._prune_configs)),
            Patch(Autotuner, "_bench", wrapped(Autotuner._bench, self._bench)),
            Patch(Autotuner, "run", self._wrap_autotuner_run(Autotuner.run)),
            Patch(JITFunction, "run", self._wrap_jit_run(JITFunction.run)),
        )

    def _applies(self) -> bool:
        setting = self._switch.current()
        return setting is not None and setting.options.autotunes

    def _prune_configs(
        self, stock: Callable[..., list[Any]], tuner: Any, *args: Any, **kwargs: Any
    ) -> list[Any]:
        configs = stock(tuner, *args, **kwargs)
        self._trial.timings = {}
        self._trial.doubled = len(configs) > 1 and self._applies() and _compiled_function(tuner) is not None
        if len(configs) == 1:
            self._trial.measures = False  # Triton takes it as it is
        return with_and_without(configs, None) if self._trial.doubled else configs

    def _bench(self, stock: Callable[..., Any], tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
        trial, off = self._trial, mark_of(config) == OFF
        if off and (known := trial.timings.get(marked(config, None))) is not None:
            return known
        trial.comparing = _compiled_function(tuner) if trial.doubled and not off else None
        trial.same_binary = False
        benching, trial.benching = trial.benching, True
        try:
            timing = stock(tuner, *args, config=config, **meta)
        finally:
            trial.comparing, trial.benching = None, benching
        if trial.same_binary:
            trial.timings[config] = timing
        return timing

    def _wrap_autotuner_run(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            if tuner not in self._replaced_caches:
                self._replace_cache(tuner)
            trial = self._trial  # a configuration's hook may launch what tunes itself too
            before = dict(vars(trial))
            trial.measures, trial.comparing, trial.timings, trial.off = len(tuner.configs) > 1, None, {}, False
            try:
                return stock(tuner, *args, **kwargs)
            finally:
                vars(trial).update(before)

        return run

    def _wrap_jit_run(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.pop(MARK, None) == OFF:
                return self._launch_off(stock, function, *args, **kwargs)
            kernel = stock(function, *args, **kwargs)
            if self._trial.comparing is function:
                self._trial.comparing = None
                self._trial.same_binary = self._is_stock_binary(kernel, stock, function, *args, **kwargs)
            return kernel

        return run

    def _launch_off(self, stock: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        trial, setting = self._trial, self._switch.current()
        if trial.benching or setting is None or setting.options.wait:
            return self._switch.stock(stock, function, *args, **kwargs)
        before = trial.measures, trial.off
        trial.measures, trial.off = False, True
        try:
            return stock(function, *args, **kwargs)
        finally:
            trial.measures, trial.off = before

    def _is_stock_binary(
        self, kernel: Any, run: Callable[..., Any], function: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """True if stock Triton compiles a launch to the same binary. It is compiled here, and not launched."""
        try:
            other = self._switch.stock(run, function, *args, **{**kwargs, "warmup": True})
        except Exception:  # it is raised again when stock Triton's kernel is measured
            return False
        return _binary(kernel) is not None and _binary(kernel) == _binary(other)

    def _replace_cache(self, tuner: Any) -> None:
        """Replace an autotuner's cache by the one for the setting in force."""
        setting = self._switch.current()
        if setting is None or not self._applies():
            return
        with self._lock:
            if tuner not in self._replaced_caches:
                chosen = self._own_caches.setdefault(tuner, {}).setdefault(setting.fingerprint, {})
                self._replaced_caches[tuner] = tuner.cache, chosen
                tuner.cache = chosen

    def _restore_caches(self) -> None:
        """Give all autotuners back their own caches."""
        with self._lock:
            for tuner, (theirs, ours) in list(self._replaced_caches.items()):
                if tuner.cache is ours:
                    tuner.cache = theirs
                else:  # other code has replaced it meanwhile
                    for key in [key for key, config in tuner.cache.items() if mark_of(config)]:
                        del tuner.cache[key]
                best = vars(tuner).get("best_config")
                if best is not None and mark_of(best):
                    tuner.best_config = marked(best, None)
            self._replaced_caches.clear()


def _compiled_function(tuner: Any) -> Any:
    """The `JITFunction` that an autotuner launches; None if it launches interpreted ones."""
    from triton.runtime.jit import JITFunction

    found = tuner
    while found is not None and not isinstance(found, JITFunction):
        found = getattr(found, "fn", None)
    return found


def _binary(kernel: Any) -> tuple[object, object] | None:
    """The code of a kernel and its bytes of shared memory; None if it is still being compiled."""
    code = getattr(kernel, "kernel", None)
    return None if code is None else (code, getattr(getattr(kernel, "metadata", None), "shared", None))
