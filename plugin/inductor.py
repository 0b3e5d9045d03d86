"""What torch.compile needs to know of the setting in force.

Inductor has caches of its own above Triton's, and compiles in worker processes. It takes a kernel that a worker
made as it comes, and makes no key for it. So:

- `torch.compiler.config.cache_key_tag`, which its caches of graphs have in their keys, gets the setting's
  fingerprint added;
- `torch.utils._triton.triton_hash_with_backend` keeps its result, which stands in the source of each kernel
  and so in the names of the files, modules and autotuning results kept for it. It is made anew for each
  setting: it asks the backend's `hash`, which has the fingerprint;
- the `submit` of Inductor's two kinds of pools sends the setting along with each job. The worker runs the job
  under it, whatever it was started with.

Where torch has none of these, nothing is done. It is never imported from here.
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
    """Put torch, as far as it is imported, under `setting`, the one in force. Called when that has changed, and
    when more of torch is imported.
    """
    global _followed  # noqa: PLW0603
    if "torch" not in sys.modules:
        return
    try:
        fingerprint = setting.fingerprint if setting is not None else None
    except (DecisionError, DecisionWarning):  # so does each compile, and nothing is cached by this
        fingerprint = f"{FINGERPRINT}-unreadable"
    try:
        _follow_tag(fingerprint)
        if fingerprint != _followed:
            _forget_backend_hash()
        if setting is not None:
            _patch_pools()
            if setting.options.autotune:
                tuning.wrap()
    except Exception:
        _log.debug("torch.compile is not as expected", exc_info=True)
    _followed = fingerprint


def _follow_tag(fingerprint: str | None) -> None:
    if fingerprint is None:
        _tag.undo()
    elif _read_tag() is not None:
        _tag.put(lambda tag: f"{tag}-{fingerprint}" if tag else fingerprint)
    elif _CONFIG in sys.modules:
        _log.debug("%s has no cache_key_tag", _CONFIG)


def _forget_backend_hash() -> None:
    cached = getattr(sys.modules.get("torch.utils._triton"), "triton_hash_with_backend", None)
    if clear := getattr(cached, "cache_clear", None):
        clear()


def _patch_pools() -> None:
    """Have pools send the setting along. This stays: a worker that was started while the plugin was on has to
    be told that it is off.
    """
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
    """Have Inductor start a new pool: workers from before may not be able to import this package."""
    asynchronous: Any = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
    if clear := getattr(getattr(asynchronous, "process_pool", None), "cache_clear", None):
        clear()
        asynchronous._ready_future = None  # the old one's


@dataclass(frozen=True)
class Job:
    """A call to be made in a worker, under the setting and with the tag of the process that submits it.

    `decided` is what that process follows, whatever the file says by now and wherever a worker would look for
    it; a worker that is told none reads it."""

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
        if self.options is not None and self.options.autotune:
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
"""Those of a worker's jobs, by their options and decisions; they know what was warned of."""


def _setting(options: Options, decided: Decisions | None) -> Setting:
    digest = None if decided is None else decided.digest
    return _settings.setdefault((options, digest), Setting(options, decided=decided))
