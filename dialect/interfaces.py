"""Types for the parts of Triton's objects that the plugin uses."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Protocol


class Operation(Protocol):
    """An operation of libtriton's."""

    def get_name(self) -> str: ...
    def get_num_operands(self) -> int: ...
    def get_operand(self, index: int) -> Any: ...


class TritonModule(Protocol):
    """A libtriton module. Triton's stages read `context`."""

    context: object

    def walk(self, visit: Callable[[Operation], None]) -> None: ...
    def get_entry_func_name(self) -> str: ...
    def str_nodebug(self) -> str: ...


Metadata = MutableMapping[str, Any]
Stage = Callable[[object, Metadata], object]
"""A stage of a compile: its result, of that of the stage before."""
Compile = Callable[[TritonModule, Metadata], str]
"""The stage `llir`: a TritonGPU module to LLVM IR text; it consumes the module and adds to the metadata."""

Stages = MutableMapping[str, Any]


class Backend(Protocol):
    """A compiler backend of Triton's."""

    target: Any

    def hash(self) -> str: ...
    def add_stages(self, stages: Stages, options: object, language: object) -> None: ...
