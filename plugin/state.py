"""Which settings are in force, for the process and for each of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton_linear import environment, inductor
from triton_linear.autotuner import Autotuning
from triton_linear.patch import Patch
from triton_linear.setting import Setting


class State:
    """The open `enabled` blocks, innermost last, over at most one `install`.

    `patches` makes what replaces parts of Triton; it is asked while nothing is replaced.
    """

    def __init__(self, patches: Callable[[], tuple[Patch, ...]]) -> None:
        self._make_patches = patches
        self.lock = threading.RLock()
        self.installed: Setting | None = None
        self.blocks: list[Setting] = []
        self.active: Setting | None = None
        self.pins = 0
        self.patches: tuple[Patch, ...] = ()
        self.local = threading.local()
        self.autotuning = Autotuning(self)

    def settle(self) -> None:
        """Patch Triton while a setting is in force or a thread is pinned to one. Requires: the lock is held."""
        before, self.active = self.active, self.blocks[-1] if self.blocks else self.installed
        if self.active is not None or self.pins:
            # A child that is forked in between finishes this: every patch that is there is in `patches`.
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
        """Whether this thread is in a `pinned` block."""
        return getattr(self.local, "pin", None) is not None

    def current(self) -> Setting | None:
        """The setting that this thread compiles under. Asked at each launch, hence without the lock."""
        pin: tuple[Setting | None] | None = getattr(self.local, "pin", None)
        return self.active if pin is None else pin[0]

    @contextmanager
    def pinned(self, setting: Setting | None) -> Iterator[None]:
        """Within the block this thread compiles under `setting`, whatever others do."""
        environment.come_first()
        before = getattr(self.local, "pin", None)
        self.count_pin(1)
        self.local.pin = (setting,)
        try:
            yield
        finally:
            self.local.pin = before
            self.count_pin(-1)

    def stock(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with stock Triton in force in this thread: `pinned` without its lock, for launches.

        Requires: a setting is in force, so Triton is patched anyway.
        """
        before = getattr(self.local, "pin", None)
        self.local.pin = (None,)
        try:
            return function(*args, **kwargs)
        finally:
            self.local.pin = before

    def count_pin(self, change: int) -> None:
        """One more `pinned` block of this thread, or one less."""
        with self.lock:
            self.pins += change
            self.local.pins = getattr(self.local, "pins", 0) + change
            self.settle()

    def forked(self) -> None:
        """In a child process, where only the thread is left that forked: no other holds the lock, or is in a
        `pinned` block, or goes on patching where it was. What another was about to do is done next time.
        """
        self.lock = threading.RLock()
        self.autotuning.forked()
        self.pins = getattr(self.local, "pins", 0)
