"""Where Triton puts what is in shared memory: a module as its backend leaves it after that pass.

    allocation = allocate(to_triton(text), "cuda:90")
    allocation.bytes, allocation.module

Operations that have shared memory say there where it begins. The backend's own pipeline is run up to that pass,
whatever the passes are called in the installed release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module
from triton_linear.tools.support.backend import (
    FAILED,
    backend_for,
    diagnosed,
    options_of,
    vendor_of,
    with_globals,
)
from triton_linear.tools.support.errors import captured_stderr, fail

OFFSET: Final = "allocation.offset"
"""The attribute that says where in shared memory an operation's buffer or scratch begins, in bytes."""
_PASS: Final = "add_allocate_shared_memory"


@dataclass(frozen=True)
class Allocation:
    """A module whose operations say where their shared memory is, and how much a CTA takes."""

    module: Module
    bytes: int


class _Allocated(Exception):
    """The pass is in the pipeline."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager


class _Until:
    """Bindings of passes that stop behind the one that allocates; the rest is passed through."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name.startswith(_PASS):
            return _stopping(real)
        return _Until(real) if type(real).__name__ == "module" else real


def _stopping(add: Callable[..., None]) -> Callable[..., None]:
    def stop(manager: Any, *arguments: Any) -> None:
        add(manager, *arguments)
        raise _Allocated(manager)

    return stop


def allocate(module: Any, target: str) -> Allocation:
    """Take a libtriton TTGIR module (consumed) through Triton's backend until shared memory is given out.

    Raises ToolError with what Triton reported where that fails.
    """
    backend = backend_for(target)
    options = backend.parse_options(options_of(module))
    nvidia = vendor_of(target) == "nvidia"
    receiver = (backend,) if nvidia else ()
    arguments = (options, backend.target.arch) if nvidia else (options,)
    stock: Any = type(backend).make_llir
    names = {name: _Until(stock.__globals__[name]) for name in ("passes", "nvidia" if nvidia else "amd")}
    with diagnosed("llvm"):
        try:
            with_globals(stock, **names)(*receiver, module, {}, *arguments)
        except _Allocated as reached:
            reached.manager.run(module, "make_llir")
    taken = module.get_int_attr("ttg.shared")
    return Allocation(printed_again(module), taken or 0)


def printed_again(module: Any) -> Any:
    """A libtriton module among upstream's.

    Raises ToolError where Triton cannot read what it prints, as of symbols without a name.
    """
    try:
        with captured_stderr():
            return bridge.to_upstream(module, bridge.upstream_context())
    except bridge.BridgeError as error:
        fail(f"{FAILED} 'llvm' was reached: it cannot read what it prints of the module ({error})")
