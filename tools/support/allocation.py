"""Run Triton's backend up to the pass that allocates shared memory.

    allocation = allocate(to_triton(text), "cuda:90")
    allocation.bytes, allocation.module

In the resulting module, each operation with shared memory has its offset as an attribute. The pipeline of the
installed backend is used, so the names of its passes need not be known.
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
"""The attribute with the offset of an operation's buffer or scratch in shared memory, in bytes."""
_PASS: Final = "add_allocate_shared_memory"


@dataclass(frozen=True)
class Allocation:
    """A module whose operations have their offsets in shared memory, and the bytes that a CTA takes."""

    module: Module
    bytes: int


class _PipelineComplete(Exception):
    """Raised when the pass that allocates shared memory has been added to the pass manager."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager


class _TruncatedPasses:
    """A proxy of the bindings of passes, which ends the pipeline after the pass that allocates
    shared memory.
    """

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name.startswith(_PASS):
            return _add_and_stop(real)
        return _TruncatedPasses(real) if type(real).__name__ == "module" else real


def _add_and_stop(add: Callable[..., None]) -> Callable[..., None]:
    def add_and_stop(manager: Any, *arguments: Any) -> None:
        add(manager, *arguments)
        raise _PipelineComplete(manager)

    return add_and_stop


def allocate(module: Any, target: str) -> Allocation:
    """Compile a libtriton TTGIR module (consumed) by Triton's backend until shared memory is allocated.

    Raises ToolError with Triton's diagnostics if that fails.
    """
    backend = backend_for(target)
    options = backend.parse_options(options_of(module))
    nvidia = vendor_of(target) == "nvidia"
    receiver = (backend,) if nvidia else ()
    arguments = (options, backend.target.arch) if nvidia else (options,)
    stock: Any = type(backend).make_llir
    proxies = {
        name: _TruncatedPasses(stock.__globals__[name]) for name in ("passes", "nvidia" if nvidia else "amd")
    }
    with diagnosed("llvm"):
        try:
            with_globals(stock, **proxies)(*receiver, module, {}, *arguments)
        except _PipelineComplete as complete:
            complete.manager.run(module, "make_llir")
    shared_bytes = module.get_int_attr("ttg.shared")
    return Allocation(to_upstream(module), shared_bytes or 0)


def to_upstream(module: Any) -> Any:
    """A libtriton module as an upstream module.

    Raises ToolError if Triton cannot parse the text that it prints, as with symbols without a name.
    """
    try:
        with captured_stderr():
            return bridge.to_upstream(module, bridge.upstream_context())
    except bridge.BridgeError as error:
        fail(f"{FAILED} 'llvm' was reached: it cannot read what it prints of the module ({error})")
