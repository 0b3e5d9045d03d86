"""Turning the plugin on and off.

While the plugin is on, it replaces these things in Triton:

- `knobs.runtime.add_stages_inspection_hook`: ours wraps stages of each compile (`llir`; `ptx` and `cubin`). It
  first calls the hook that was installed before, and returns that hook's result;
- `hash` of the NVIDIA and AMD backends: ours adds the setting's fingerprint, so that kernels compiled under
  different settings have different keys in the cache on disk;
- `triton.runtime.jit.compute_cache_key` and `JITFunction._do_compile`: ours add the fingerprint to the keys of
  the kernel cache in memory. Ours of `JITFunction._pack_args` keeps what `unit_arguments` reads.

With the option `autotune`, it also replaces what `triton_linear.autotuner` lists. All of this is undone when
the plugin is off and no thread is still compiling for a launch made while it was on. A compile keeps the
setting under which its cache key was made, even if another thread turns the plugin on or off meanwhile, or if
Triton's asynchronous mode runs it later in another thread. So no cache entry holds a kernel of another setting.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, cast

from triton_linear import environment, fallback, unit_arguments
from triton_linear.checked import check_launches, parameters
from triton_linear.dialect import triton_versions
from triton_linear.dialect.interfaces import Backend, Stages
from triton_linear.patch import Patch
from triton_linear.report import Report
from triton_linear.setting import FINGERPRINT, Given, Listener, Options, Setting, options_of, takes_options
from triton_linear.state import State
from triton_linear.unit_arguments import UnitArguments
from triton_linear.wrapping import wrap_stages

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from triton_linear.contest import Contests


_log = logging.getLogger("triton_linear")


@takes_options(wait=False)
def install(*, on_report: Listener | None = None, **given: Unpack[Given]) -> None:
    """Compile every kernel of this process with the plugin from here on.

    on_report: a function that is called with the `Report` of each compile, in the thread that compiled.

    Raises `UnsupportedTriton` if this package does not work with the installed Triton.

    A second `install` replaces the options of the first; one `uninstall` undoes both. Processes started later
    get the options through the environment variable `TRITON_LINEAR`, without `on_report` and without passes
    defined in the script that was started.
    """
    options = options_of({"wait": False, **given})
    setting = Setting(options, _listeners(on_report))
    environment.come_first()
    triton_versions.require()
    with _state.lock:
        _state.installed = setting
        _state.settle()
        environment.exported.put(lambda _: environment.text_of(options))
    _log.info("on with Triton %s: %s", triton_versions.found(), environment.text_of(options))
    fallback.warn_of_tiles()
    _state.autotuning.warn()


def uninstall() -> None:
    """Undo `install`; do nothing if it was not called. An open `enabled` block stays in force until it ends."""
    environment.come_first()
    with _state.lock:
        _state.installed = None
        _state.settle()
        environment.exported.undo()


@takes_options(wait=True)
def enabled(
    *, on_report: Listener | None = None, **given: Unpack[Given]
) -> AbstractContextManager[list[Report]]:
    """Compile with the plugin within the block. The block gets a list that fills with the reports of its
    compiles.

    The options are those of `install`, but a first launch waits for ours unless told otherwise. Blocks nest;
    the innermost one holds for every thread of the process.
    """
    return _block(options_of({"wait": True, **given}), _listeners(on_report))


@contextmanager
def pinned(options: Options | None) -> Iterator[list[Report]]:
    """Compile under `options` within the block, or with stock Triton if None. This holds for this thread alone,
    whatever setting is in force for the process, and launches wait for what is compiled. Tools of this package
    use it."""
    triton_versions.require()
    reports: list[Report] = []
    setting = None if options is None else Setting(replace(options, wait=True), (reports.append,))
    with _state.pinned(setting):
        yield reports


@contextmanager
def _block(options: Options, listeners: tuple[Listener, ...]) -> Iterator[list[Report]]:
    reports: list[Report] = []
    setting = Setting(options, (reports.append, *listeners))
    environment.come_first()
    triton_versions.require()
    with _state.lock:
        _state.blocks.append(setting)
        _state.settle()
    try:
        fallback.warn_of_tiles()
        _state.autotuning.warn()
        yield reports
    finally:
        with _state.lock:
            _state.blocks.remove(setting)
            _state.settle()


def _listeners(on_report: Listener | None) -> tuple[Listener, ...]:
    if on_report is None:
        return ()
    if not callable(on_report):
        raise TypeError(f"on_report takes a function or None, got {on_report!r}")
    return (on_report,)


def _patches() -> tuple[Patch, ...]:
    """The patches that turn the plugin on. Requires: it is off, so none of the originals is ours."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]
    from triton.backends import backends  # type: ignore[import-untyped, unused-ignore]
    from triton.runtime import jit  # type: ignore[import-untyped, unused-ignore]

    runtime: Any = knobs.runtime
    pack_args = unit_arguments.marking(jit.JITFunction._pack_args, _contests_begin)
    patches = [
        Patch(runtime, "add_stages_inspection_hook", StagesHook(runtime.add_stages_inspection_hook)),
        Patch(jit, "compute_cache_key", _keyed(jit.compute_cache_key)),
        Patch(jit.JITFunction, "_pack_args", pack_args),
        Patch(jit.JITFunction, "_do_compile", _pinning(jit.JITFunction._do_compile)),
    ]
    for name in ("nvidia", "amd"):
        if name in backends:
            compiler: Any = backends[name].compiler
            patches.append(Patch(compiler, "hash", _hashed(compiler.hash)))
    return tuple(patches)


_state = State(_patches)
os.register_at_fork(after_in_child=_state.forked)


class _Decision:
    """The setting under which a backend object was hashed, kept on the object itself.

    Triton makes a backend object for each compile, hashes it for the cache key, and asks it for the stages
    later. By then another thread may have turned the plugin off, or a knob scope may have dropped the hook.
    """

    ATTRIBUTE = "_triton_linear_decision"

    def __init__(self, backend: Backend, setting: Setting) -> None:
        self.backend = backend
        self.setting = setting
        self.applied = False

    @classmethod
    def of(cls, backend: Backend) -> _Decision | None:
        return cast("_Decision | None", vars(backend).get(cls.ATTRIBUTE))

    @classmethod
    def drop(cls, backend: Backend) -> None:
        """Forget the setting of an earlier hash of this backend."""
        if vars(backend).pop(cls.ATTRIBUTE, None) is not None:
            del vars(backend)["add_stages"]

    def keep(self) -> None:
        vars(self.backend)[self.ATTRIBUTE] = self
        vars(self.backend)["add_stages"] = self.add_stages

    def add_stages(self, stages: Stages, options: object, language: object) -> None:
        """Call the backend's own `add_stages`; then wrap the stages, unless our hook has done so."""
        self.applied = False
        type(self.backend).add_stages(self.backend, stages, options, language)
        if not self.applied:
            wrap_stages(self.backend, stages, options, language, self.setting)


def _hashed(stock: Callable[[Backend], str]) -> Callable[[Backend], str]:
    @functools.wraps(stock)
    def hash(self: Backend) -> str:
        setting = None if _launched_while_off() else _state.current()
        if setting is None:
            _Decision.drop(self)
            return stock(self)
        _Decision(self, setting).keep()
        return f"{stock(self)}-{setting.fingerprint}"

    return hash


def _keyed(stock: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(stock)
    def compute_cache_key(*args: object) -> str:
        return _key_under(_state.current(), stock(*args))

    return compute_cache_key


def _key_under(setting: Setting | None, key: str) -> str:
    if setting is None:
        return key
    return f"{key}-{setting.fingerprint}{'-off' if _state.autotuning.off else ''}"


def _pinning(stock: Callable[..., object]) -> Callable[..., object]:
    """Compile and cache under one setting, even if `key` was made under another one (as by `preload`)."""

    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def _do_compile(self: object, key: str, *args: object, **kwargs: object) -> object:
        setting = _state.current()
        key = _key_under(setting, key.partition(f"-{FINGERPRINT}-")[0])
        bound = signature.bind(self, key, *args, **kwargs)
        given = bound.arguments
        units = unit_arguments.units_of(given["attrs"])
        if setting is not None and not setting.options.wait and _may_contest(setting, given):
            attributes = given["attrs"]
            # Where there is a hook of stages, Triton adds an attribute of no parameter, and so would compile
            # again what its cache has from before the plugin was on.
            count = len(given["signature"])
            given["attrs"] = {path: found for path, found in attributes.items() if path[0] < count}
            with _state.pinned(None):
                kernel = stock(*bound.args, **bound.kwargs)
            if kernel is None or _state.autotuning.off or not _is_decided(kernel, setting):
                if kernel is not None:
                    _enter(kernel, setting, given, units)
                return kernel
            given["self"].device_caches[given["device"]][0].pop(given["key"], None)  # it is not what stays
            given["attrs"] = attributes
        if _state.autotuning.off:
            setting = None
        if setting is not None and _are_checked(given):
            with _state.pinned(setting.checked):
                kernel = stock(*bound.args, **bound.kwargs)
            if kernel is not None:
                check_launches(kernel, _stock_of(kernel, given["options"]))
            return kernel
        with _state.pinned(setting), _pinned_submissions(setting):
            return stock(*bound.args, **bound.kwargs)

    return _do_compile


def _are_checked(given: Mapping[str, Any]) -> bool:
    """True if the launches of a kernel can be checked for arguments that lead to one memory. Hooks may compile
    as well, for launches that nobody checks. given: the arguments of `_do_compile` by name."""
    from triton.knobs import runtime
    from triton.runtime import _async_compile

    hooked = runtime.jit_cache_hook is not None or runtime.jit_post_compile_hook is not None
    return (
        not hooked and _async_compile.active_mode.get() is None and parameters(given["signature"]) is not None
    )


def _stock_of(kernel: Any, options: Any) -> Callable[[], object]:
    """What gives stock Triton's kernel beside one of ours, compiled when it is asked for first. options: those
    of the backend. A graph may have captured either, so neither takes the place of the other."""
    source, target = kernel.src, kernel.metadata.target

    @functools.cache
    def compiled() -> object:
        from triton_linear.contests.events import driver_clock

        clock = driver_clock(target.backend)
        with _state.pinned(None), nullcontext() if clock is None else clock.relaxed():
            made = source.fn.compile(source, target=target, options=vars(options))
            made._init_handles()
        return made

    return compiled


def _contests_begin() -> bool:
    """True if kernels that this thread compiles for launches may enter contests."""
    setting = _state.current()
    return setting is not None and not setting.options.wait


def _may_contest(setting: Setting, given: Mapping[str, Any]) -> bool:
    """True if a kernel that is compiled for a launch may enter a contest: a worker compiles from its TTGIR what
    this process would. given: the arguments of `_do_compile` by name."""
    from triton import knobs
    from triton.runtime import _async_compile

    hook, compilation = knobs.runtime.add_stages_inspection_hook, knobs.compilation
    return not (
        given["warmup"]
        or setting.options.passes
        or _state.autotuning.measures
        or _state.is_pinned()
        or not isinstance(hook, StagesHook)
        or hook.before is not None
        or compilation.override
        or getattr(compilation, "instrumentation_mode", "")
        or getattr(given["options"], "ir_override", None)
        or _async_compile.active_mode.get() is not None
    )


def _enter(kernel: Any, setting: Setting, given: Mapping[str, Any], units: UnitArguments) -> None:
    """Begin the contest of a kernel of stock Triton's. given: the arguments of `_do_compile` by name."""
    from triton_linear.contest import Place

    with fallback.guarded(setting, kernel.name, str(kernel.metadata.target)):
        place = Place(given["self"], given["device"], given["key"])
        _contests().enter(kernel, given["options"], setting, place, units)


def _is_decided(kernel: Any, setting: Setting) -> bool:
    """True if measuring has decided how a kernel of stock Triton's is compiled."""
    from triton_linear.contest_job import is_decided

    found = False
    with fallback.guarded(setting, kernel.name, str(kernel.metadata.target)):
        found = is_decided(kernel, setting)
    return found


@functools.cache
def _contests() -> Contests:
    from triton_linear.contest import Contests

    return Contests()


@contextmanager
def _pinned_submissions(setting: Setting | None) -> Iterator[None]:
    """Within the block, pin compiles submitted to an asynchronous mode of Triton's to `setting`."""
    from triton.runtime import _async_compile  # type: ignore[import-untyped, unused-ignore]

    mode = _async_compile.active_mode.get()
    if mode is None:
        yield
        return
    token = _async_compile.active_mode.set(_PinnedMode(mode, setting))
    try:
        yield
    finally:
        _async_compile.active_mode.reset(token)


class _PinnedMode:
    """Triton's asynchronous mode for one launch: the compiles that it submits run under `setting`."""

    def __init__(self, mode: Any, setting: Setting | None) -> None:
        self._mode = mode
        self._setting = setting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mode, name)

    def submit(self, key: object, compile_fn: Callable[[], object], *rest: object) -> object:
        """Submit a compile that runs under the setting in whichever thread runs it."""

        def pinned() -> object:
            with _state.pinned(self._setting):
                return compile_fn()

        return self._mode.submit(key, pinned, *rest)


class StagesHook:
    """Our `knobs.runtime.add_stages_inspection_hook`. `before`: the hook that was installed earlier, if any."""

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self.before = before

    def __call__(
        self,
        backend: Backend | None = None,
        stages: Stages | None = None,
        options: object = None,
        language: object = None,
        capability: object = None,
    ) -> Any:
        if backend is None or stages is None:
            return self._key()
        result = self.before(backend, stages, options, language, capability) if self.before else None
        decision = _Decision.of(backend)
        if decision is not None:
            decision.applied = True
            setting: Setting | None = decision.setting
        else:
            from triton.compiler import compiler  # type: ignore[import-untyped, unused-ignore]

            # `triton.compile` has already made its cache key, without our fingerprint.
            setting = None if _is_called_by(compiler.compile) else _state.current()
        if setting is not None:
            wrap_stages(backend, stages, options, language, setting)
        return result

    def _key(self) -> tuple[str, str]:
        """A key and a hash of what the hook does to the stages; releases after Triton 3.6 ask for them."""
        key, digest = self.before() if self.before else ("", "")
        setting = _state.current()
        return (key, digest) if setting is None else (key + setting.fingerprint, digest + setting.fingerprint)


def _launched_while_off() -> bool:
    """True if the launch called Triton's own `_do_compile`, not the replacement that pins the setting.

    An asynchronous compile runs a function defined inside `_do_compile`, in a thread of the executor.
    """
    from triton.runtime import jit  # type: ignore[import-untyped, unused-ignore]

    stock = inspect.unwrap(jit.JITFunction._do_compile)
    return not _state.is_pinned() and _is_called_by(stock)


def _is_called_by(function: Callable[..., object]) -> bool:
    """True if this thread is inside a call of a Python function, or of a function defined in its body."""
    code = getattr(function, "__code__", None)
    codes = {code, *(c for c in getattr(code, "co_consts", ()) if isinstance(c, CodeType))}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None
