"""The opening through which emitted bodies enter Triton's backend.

A backend's `make_llir` ends its MLIR part with `llvm.to_module(module, context)`, where `llvm` is a global
of the backend's Python module. While a stage of ours runs, and only then, that global is a proxy. It
rewrites the module of the very thread that asked for it; a stock compile in another thread passes through
unchanged.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType

_rewrite: ContextVar[Callable[[object], object] | None] = ContextVar("triton_linear_rewrite", default=None)


class LLVMProxy:
    """Triton's `llvm` bindings with `to_module` opened; everything else is theirs."""

    def __init__(self, real: object) -> None:
        self._real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def to_module(self, module: object, context: object) -> object:
        """Translate `module`, or what this thread's rewrite makes of it, to LLVM IR."""
        rewrite = _rewrite.get()
        if rewrite is not None:
            module = rewrite(module)
        to_module: Callable[[object, object], object] = getattr(self._real, "to_module")  # noqa: B009
        return to_module(module, context)


@dataclass
class _Opening:
    proxy: LLVMProxy
    original: object
    users: int


_lock = threading.Lock()
_openings: dict[ModuleType, _Opening] = {}


def backend_module(backend: object) -> ModuleType:
    """The module whose global `llvm` the backend's `make_llir` uses."""
    for kind in type(backend).__mro__:
        if "make_llir" in vars(kind):
            return sys.modules[kind.__module__]
    raise TypeError(f"backend {type(backend).__name__} has no make_llir")


@contextmanager
def opened(module: ModuleType, rewrite: Callable[[object], object]) -> Iterator[None]:
    """Within the block, what this thread sends through `module.llvm.to_module` passes through `rewrite`
    first.

    Ensures: after the last such block of any thread, `module.llvm` is the object it was before the first.
    """
    _acquire(module)
    token = _rewrite.set(rewrite)
    try:
        yield
    finally:
        _rewrite.reset(token)
        _release(module)


def _acquire(module: ModuleType) -> None:
    with _lock:
        opening = _openings.get(module)
        if opening is None:
            original = vars(module)["llvm"]
            opening = _openings[module] = _Opening(LLVMProxy(original), original, 0)
            vars(module)["llvm"] = opening.proxy
        opening.users += 1


def _release(module: ModuleType) -> None:
    with _lock:
        opening = _openings[module]
        opening.users -= 1
        if opening.users == 0:
            del _openings[module]
            # Somebody who put a wrapper of their own around the proxy meanwhile keeps it: it forwards.
            if vars(module)["llvm"] is opening.proxy:
                vars(module)["llvm"] = opening.original
