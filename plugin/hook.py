"""Turning the plugin on and off.

While it is on, four things of Triton's are ours:

- `knobs.runtime.add_stages_inspection_hook`: wraps stages of each compile (`llir`; `ptx` and `cubin`); a hook
  that was there before is called first, and what it returns counts;
- `hash` of the NVIDIA and AMD backends: adds the setting's fingerprint, which keeps kernels on disk apart;
- `triton.runtime.jit.compute_cache_key` and `JITFunction._do_compile`: the same for a process's own kernel
  cache.

With the option `autotune`, what `triton_linear.autotuner` names is too. Nothing of all that is left when it is
off (and no thread is compiling for a launch made while it was on). A compile keeps the setting under which its
cache key was made, also if another thread turns the plugin on or off meanwhile, or if Triton's asynchronous
mode runs it later in a thread of its own; so no cache entry holds a kernel of another setting.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any, cast

from triton_linear import environment, limited, user_passes
from triton_linear.decisions import NONE
from triton_linear.dialect import triton_versions
from triton_linear.interfaces import Backend, Stages
from triton_linear.lowering.plan.strategies import LINEAR
from triton_linear.patch import Patch
from triton_linear.report import Report
from triton_linear.setting import FINGERPRINT, Options, Setting
from triton_linear.state import State
from triton_linear.user_passes import UserPass
from triton_linear.wrapping import are_own, wrap_stages


def install(
    *,
    strict: bool = False,
    scratch_limit: int | None = None,
    assign: bool = True,
    lower: bool = True,
    occupancy: bool = True,
    reductions: bool = True,
    lowering: str = LINEAR,
    dump: str | os.PathLike[str] = "",
    only: str | Iterable[str] = "",
    skip: str | Iterable[str] = "",
    decisions: str | os.PathLike[str] = "",
    exact: bool = False,
    autotune: bool = False,
    passes: UserPass | str | os.PathLike[str] | Iterable[UserPass | str | os.PathLike[str]] = (),
    gluon: bool | str | Iterable[str] = False,
    report: str | os.PathLike[str] = "",
    cache: bool = True,
    on_report: Callable[[Report], object] | None = None,
) -> None:
    """Compile every kernel of this process with the plugin from here on.

    strict: raise where the plugin fails, rather than warn and compile with stock Triton.
    scratch_limit: most bytes of shared memory one conversion may use as scratch; None leaves it to the
    target.
    assign: choose the layouts of a kernel's tensors anew, where that saves conversions.
    lower: emit code for the conversions that are left, rather than leave them to Triton.
    occupancy: assemble a kernel within fewer registers where a multiprocessor then takes another CTA.
    reductions: take reductions across warps apart, where that costs less; not without `lower`.
    lowering: "linear", or "legacy" for conversions as they were before linear layouts, to measure against.
    dump: a folder that gets the TTGIR of each kernel that is compiled, before and after the passes.
    only: patterns, as of file names, of kernels that are compiled with the plugin; none of them for all.
    skip: patterns of kernels that are left to stock Triton.
    decisions: the file or URL of what `triton-linear tune` decided; "" for the user's own, "none" for none.
    exact: give the bits that stock Triton gives: no sum of floats in another order, none rounded elsewhere.
    autotune: have `triton.autotune` and Inductor measure each configuration with the plugin and without.
    passes: passes of your own (`ttgir_pass`), or names of files that have some, to run before or after ours.
    gluon: change the layouts of Gluon kernels too, of all or of those whose name matches one of these patterns.
    report: a file to which each compile, in whatever process, adds its `Report` as a line of JSON.
    cache: keep what the passes make of a kernel on disk, in Triton's cache, and take it from there.
    on_report: called with the `Report` of each compile, in the thread that compiled.

    Raises `UnsupportedTriton` where the installed Triton is none that this package works with.

    Again after `install`, the new options replace the old ones; one `uninstall` undoes both. Processes that are
    started later get the options in the environment variable `TRITON_LINEAR`, but neither `on_report` nor
    passes that the script that was started defines itself.
    """
    options = Options(
        strict,
        scratch_limit,
        assign,
        lower,
        occupancy,
        reductions,
        lowering,
        os.path.abspath(dump) if dump else "",
        _patterns(only),
        _patterns(skip),
        _place(decisions),
        exact,
        autotune,
        user_passes.chosen(passes),
        _patterns(gluon),
        os.path.abspath(report) if report else "",
        cache,
    )
    setting = Setting(options, _listeners(on_report))
    environment.come_first()
    triton_versions.require()
    with _state.lock:
        _state.installed = setting
        _state.settle()
        environment.exported.put(lambda _: environment.text_of(options))
    limited.warn()
    _state.autotuning.warn()


def uninstall() -> None:
    """Undo `install`; without one, do nothing. An `enabled` block that is open stays in force until it
    ends.
    """
    environment.come_first()
    with _state.lock:
        _state.installed = None
        _state.settle()
        environment.exported.undo()


def enabled(
    *,
    strict: bool = False,
    scratch_limit: int | None = None,
    assign: bool = True,
    lower: bool = True,
    occupancy: bool = True,
    reductions: bool = True,
    lowering: str = LINEAR,
    dump: str | os.PathLike[str] = "",
    only: str | Iterable[str] = "",
    skip: str | Iterable[str] = "",
    decisions: str | os.PathLike[str] = "",
    exact: bool = False,
    autotune: bool = False,
    passes: UserPass | str | os.PathLike[str] | Iterable[UserPass | str | os.PathLike[str]] = (),
    gluon: bool | str | Iterable[str] = False,
    report: str | os.PathLike[str] = "",
    cache: bool = True,
    on_report: Callable[[Report], object] | None = None,
) -> AbstractContextManager[list[Report]]:
    """Compile with the plugin within the block, which gets the list of reports of what is compiled in it.

    The options are those of `install`. Blocks nest; the innermost one counts, for every thread of the
    process.
    """
    options = Options(
        strict,
        scratch_limit,
        assign,
        lower,
        occupancy,
        reductions,
        lowering,
        os.path.abspath(dump) if dump else "",
        _patterns(only),
        _patterns(skip),
        _place(decisions),
        exact,
        autotune,
        user_passes.chosen(passes),
        _patterns(gluon),
        os.path.abspath(report) if report else "",
        cache,
    )
    return _block(options, _listeners(on_report))


@contextmanager
def pinned(options: Options | None) -> Iterator[list[Report]]:
    """Compile under `options` within the block, None for stock Triton: in this thread alone, whatever is in
    force; for tools of this package.
    """
    triton_versions.require()
    reports: list[Report] = []
    with _state.pinned(None if options is None else Setting(options, (reports.append,))):
        yield reports


@contextmanager
def _block(options: Options, listeners: tuple[Callable[[Report], object], ...]) -> Iterator[list[Report]]:
    reports: list[Report] = []
    setting = Setting(options, (reports.append, *listeners))
    environment.come_first()
    triton_versions.require()
    with _state.lock:
        _state.blocks.append(setting)
        _state.settle()
    try:
        limited.warn()
        _state.autotuning.warn()
        yield reports
    finally:
        with _state.lock:
            _state.blocks.remove(setting)
            _state.settle()


def _patterns(given: bool | str | Iterable[str]) -> str:
    if isinstance(given, bool):
        return "*" if given else ""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return given  # `Options` says what is wrong with others
    return ":".join(given)


def _place(decisions: str | os.PathLike[str]) -> str:
    """Where decisions are, for processes in other folders too."""
    place = os.fspath(decisions)
    if place in ("", NONE) or "://" in place:
        return place
    return os.path.abspath(os.path.expanduser(place))


def _listeners(on_report: Callable[[Report], object] | None) -> tuple[Callable[[Report], object], ...]:
    if on_report is None:
        return ()
    if not callable(on_report):
        raise TypeError(f"on_report takes a function or None, got {on_report!r}")
    return (on_report,)


def _patches() -> tuple[Patch, ...]:
    """What turning on replaces. Requires: the plugin is off, so what is found is not ours."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]
    from triton.backends import backends  # type: ignore[import-untyped, unused-ignore]
    from triton.runtime import jit  # type: ignore[import-untyped, unused-ignore]

    runtime: Any = knobs.runtime
    patches = [
        Patch(runtime, "add_stages_inspection_hook", StagesHook(runtime.add_stages_inspection_hook)),
        Patch(jit, "compute_cache_key", _keyed(jit.compute_cache_key)),
        Patch(jit.JITFunction, "_do_compile", _pinning(jit.JITFunction._do_compile)),
    ]
    for name in ("nvidia", "amd"):
        if name in backends:
            compiler: Any = backends[name].compiler
            patches.append(Patch(compiler, "hash", _hashed(compiler.hash)))
    return tuple(patches)


_state = State(_patches)
if hasattr(os, "register_at_fork"):
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
        """Forget what was decided when the backend was hashed before."""
        if vars(backend).pop(cls.ATTRIBUTE, None) is not None:
            del vars(backend)["add_stages"]

    def keep(self) -> None:
        vars(self.backend)[self.ATTRIBUTE] = self
        vars(self.backend)["add_stages"] = self.add_stages

    def add_stages(self, stages: Stages, options: object, language: object) -> None:
        """The backend's own `add_stages`; then the wrapping, if no hook of ours did it."""
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
    return key if setting is None else f"{key}-{setting.fingerprint}"


def _pinning(stock: Callable[..., object]) -> Callable[..., object]:
    """Compile and remember under one setting, also where `key` was made under another one (as by
    `preload`).
    """

    @functools.wraps(stock)
    def _do_compile(self: object, key: str, *args: object, **kwargs: object) -> object:
        setting = _state.current()
        with _state.pinned(setting), _pinned_submissions(setting):
            return stock(self, _key_under(setting, key.partition(f"-{FINGERPRINT}-")[0]), *args, **kwargs)

    return _do_compile


@contextmanager
def _pinned_submissions(setting: Setting | None) -> Iterator[None]:
    """Within the block, what is submitted to Triton's asynchronous mode, if one is active, is pinned too."""
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
    """An asynchronous mode of Triton's, as one launch sees it: compiles that it submits run under `setting`."""

    def __init__(self, mode: Any, setting: Setting | None) -> None:
        self._mode = mode
        self._setting = setting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mode, name)

    def submit(self, key: object, compile_fn: Callable[[], object], *rest: object) -> object:
        """What the mode gives for a compile that is pinned in whatever thread runs it."""

        def pinned() -> object:
            with _state.pinned(self._setting):
                return compile_fn()

        return self._mode.submit(key, pinned, *rest)


class StagesHook:
    """The hook of `knobs.runtime.add_stages_inspection_hook`, over one that may have been there before."""

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
        hook = self.before if are_own(backend, stages) else None
        result = self.before(backend, stages, options, language, capability) if self.before else None
        decision = _Decision.of(backend)
        if decision is not None:
            decision.applied = True
            setting: Setting | None = decision.setting
        else:
            setting = None if _called_by_compile() else _state.current()
        if setting is not None:
            wrap_stages(backend, stages, options, language, setting, hook)
        return result

    def _key(self) -> tuple[str, str]:
        """What Tritons after 3.6 ask for: a key and a hash of what the hook does to the stages."""
        key, digest = self.before() if self.before else ("", "")
        setting = _state.current()
        return (key, digest) if setting is None else (key + setting.fingerprint, digest + setting.fingerprint)


def _called_by_compile() -> bool:
    """Whether `triton.compile` is asking: its cache key is made already, and not under a setting of ours."""
    from triton.compiler import compiler  # type: ignore[import-untyped, unused-ignore]

    return _is_called_by(compiler.compile)


def _launched_while_off() -> bool:
    """Whether this is for a launch that came to Triton's own `_do_compile`, not through the one that pins.

    An asynchronous compile runs a function that `_do_compile` has defined, in a thread of the executor.
    """
    from triton.runtime import jit  # type: ignore[import-untyped, unused-ignore]

    stock = inspect.unwrap(jit.JITFunction._do_compile)
    return not _state.is_pinned() and _is_called_by(stock)


def _is_called_by(function: Callable[..., object]) -> bool:
    """Whether this thread is inside a call of a function written in Python, or of one defined in its body."""
    code = getattr(function, "__code__", None)
    codes = {code, *(c for c in getattr(code, "co_consts", ()) if isinstance(c, CodeType))}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None
