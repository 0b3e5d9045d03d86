"""The settings in force in the process and in each of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton_linear import environment, inductor
from triton_linear.autotuner import Autotuning
from triton_linear.patch import Patch
from triton_linear.setting import Setting


class _Local(threading.local):
    """The setting that a thread is pinned to, if it is; and the number of its `pinned` blocks."""

    pin: tuple[Setting | None] | None = None
    pins = 0


class State:
    """The open `enabled` blocks, innermost last, and the setting of `install`, if any.

    patches: makes the patches of Triton. It is called while none is applied.
    """

    def __init__(self, patches: Callable[[], tuple[Patch, ...]]) -> None:
        self._make_patches = patches
        self.lock = threading.RLock()
        self.installed: Setting | None = None
        self.blocks: list[Setting] = []
        self.active: Setting | None = None
        self.pins = 0
        self.patches: tuple[Patch, ...] = ()
        self.local = _Local()
        self.autotuning = Autotuning(self)

    def settle(self) -> None:
        """Patch Triton while a setting is in force or a thread is pinned to one. Requires: the lock is held."""
        before, self.active = self.active, self.blocks[-1] if self.blocks else self.installed
        if self.active is not None or self.pins:
            # `self.patches` is set before any patch is applied, so a child forked here can finish or undo them.
            self.patches = self.patches or self._make_patches()
            for patch in self.patches:
                patch.apply()
        else:
            for patch in reversed(self.patches):
                patch.undo()
            self.patches = ()
        if self.active is not before:
            environment.watch_inductor()
            inductor.follow(self.active)
            self.autotuning.follow(self.active)

    def is_pinned(self) -> bool:
        """True if this thread is in a `pinned` block."""
        return self.local.pin is not None

    def current(self) -> Setting | None:
        """The setting that this thread compiles under. Each launch calls this, so it does not take the lock."""
        return self.active if self.local.pin is None else self.local.pin[0]

    @contextmanager
    def pinned(self, setting: Setting | None) -> Iterator[None]:
        """Within the block this thread compiles under `setting`, whatever other threads do."""
        environment.come_first()
        before = self.local.pin
        self.count_pin(1)
        self.local.pin = (setting,)
        try:
            yield
        finally:
            self.local.pin = before
            self.count_pin(-1)

    def stock(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with this thread pinned to stock Triton. Unlike `pinned`, this takes no lock, as
        launches need it.

        Requires: a setting is in force, so Triton is patched already.
        """
        before, self.local.pin = self.local.pin, (None,)
        try:
            return function(*args, **kwargs)
        finally:
            self.local.pin = before

    def count_pin(self, change: int) -> None:
        """Add `change` to the number of `pinned` blocks of this thread and of the process."""
        with self.lock:
            self.pins += change
            self.local.pins += change
            self.settle()

    def forked(self) -> None:
        """Called in a child process, which has only the thread that forked: make a new lock, and count only the
        `pinned` blocks of this thread. Patching that another thread had begun is completed by the next
        `settle`."""
        self.lock = threading.RLock()
        self.autotuning.forked()
        self.pins = self.local.pins
