"""Have torch.compile follow the setting in force.

Inductor has its own caches above Triton's, and compiles in worker processes. It uses the kernels of a worker
without making Triton's cache key for them. So:

- the setting's fingerprint is appended to `torch.compiler.config.cache_key_tag`, which is in the keys of
  Inductor's graph caches;
- the cached result of `torch.utils._triton.triton_hash_with_backend` is cleared when the setting changes. That
  function calls the backend's `hash`, which has the fingerprint. Its result is in the source of each generated
  kernel, and so in the names of the kernel's files, modules and autotuning results;
- the `submit` of Inductor's two kinds of pools sends the setting along with each job. The worker runs the job
  under that setting, whatever setting it was started with.

If torch lacks one of these, that part does nothing. This file never imports torch.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from triton_linear import environment
from triton_linear import inductor_autotuner as tuning
from triton_linear.decisions import DecisionError, Decisions, DecisionWarning
from triton_linear.dialect.records import dataclass
from triton_linear.environment import BorrowedText
from triton_linear.setting import FINGERPRINT, Options, Setting

_log = logging.getLogger("triton_linear")
_CONFIG = "torch.compiler.config"
_POOLS = (
    ("torch._inductor.compile_worker.subproc_pool", "SubprocPool"),
    ("torch._inductor.compile_worker.tracked_process_pool", "TrackedProcessPoolExecutor"),
)


def _read_tag() -> str | None:
    return getattr(sys.modules.get(_CONFIG), "cache_key_tag", None)


def _write_tag(tag: str | None) -> None:
    config: Any = sys.modules[_CONFIG]
    config.cache_key_tag = tag


_tag = BorrowedText(_read_tag, _write_tag)
_followed: str | None = None
_patched: set[type] = set()


def follow(setting: Setting | None) -> None:
    """Have the imported parts of torch follow `setting`, the one in force. Called when the setting changes and
    when another part of torch is imported."""
    global _followed  # noqa: PLW0603
    if "torch" not in sys.modules:
        return
    try:
        fingerprint = setting.fingerprint if setting is not None else None
    except (DecisionError, DecisionWarning):  # each compile raises it too, so nothing is cached under this key
        fingerprint = f"{FINGERPRINT}-unreadable"
    try:
        if fingerprint is None:
            _tag.undo()
        elif _read_tag() is not None:
            _tag.put(lambda tag: f"{tag}-{fingerprint}" if tag else fingerprint)
        elif _CONFIG in sys.modules:
            _log.debug("%s has no cache_key_tag", _CONFIG)
        if fingerprint != _followed:
            _clear(getattr(sys.modules.get("torch.utils._triton"), "triton_hash_with_backend", None))
        if setting is not None:
            _patch_pools()
            if setting.options.autotunes:
                tuning.wrap()
    except Exception:
        _log.debug("torch.compile is not as expected", exc_info=True)
    _followed = fingerprint


def _clear(cached: Any) -> bool:
    """Empty the cache of a function; False if there is no such function."""
    clear = getattr(cached, "cache_clear", None)
    if clear is not None:
        clear()
    return clear is not None


def _patch_pools() -> None:
    """Have pools send the setting with each job. This is not undone: workers that were started while the plugin
    was on need to learn that it is off."""
    for module, name in _POOLS:
        pool = getattr(sys.modules.get(module), name, None)
        if pool is not None and pool not in _patched:
            _patched.add(pool)
            pool.submit = _submitting(pool.submit)
            _retire_pool()


def _submitting(stock: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(stock)
    def submit(self: object, job: Callable[..., object], /, *args: object, **kwargs: object) -> object:
        from triton_linear.hook import _state

        setting = _state.current()
        if setting is None:
            return stock(self, Job(job, None, _read_tag()), *args, **kwargs)
        return stock(self, Job(job, setting.options, _read_tag(), setting.decisions), *args, **kwargs)

    return submit


def _retire_pool() -> None:
    """Have Inductor start a new pool: workers of an older one may not be able to import this package."""
    asynchronous: Any = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
    if _clear(getattr(asynchronous, "process_pool", None)):
        asynchronous._ready_future = None  # it belongs to the old pool


@dataclass(frozen=True)
class Job:
    """A call to run in a worker under the setting and the cache key tag of the submitting process.

    decided: the decisions that the submitting process follows; they replace the worker's own, as the file may
    have changed or may have another path there. None: the worker reads the file."""

    function: Callable[..., object]
    options: Options | None
    tag: str | None
    decided: Decisions | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        with ExitStack() as stack:
            for context in self._contexts():
                stack.enter_context(context)
            return self.function(*args, **kwargs)

    def _contexts(self) -> list[AbstractContextManager[object]]:
        from triton_linear.hook import _state

        environment.come_first()  # the job may be what imports Triton
        contexts: list[AbstractContextManager[object]] = []
        if self.options is not None and self.options.autotunes:
            environment.after_import(tuning.MODULE, tuning.wrap)
        if self.options is not None or _state.current() is not None:
            contexts.append(
                _state.pinned(None if self.options is None else _setting(self.options, self.decided))
            )
        if self.tag is not None and _read_tag() not in (None, self.tag):
            config: Any = sys.modules[_CONFIG]
            contexts.append(config.patch(cache_key_tag=self.tag))
        return contexts


_settings: dict[tuple[Options, str | None], Setting] = {}
"""The settings of a worker's jobs, by options and decisions. They are kept, since a setting warns only once."""


def _setting(options: Options, decided: Decisions | None) -> Setting:
    digest = None if decided is None else decided.digest
    return _settings.setdefault((options, digest), Setting(options, decided=decided))
