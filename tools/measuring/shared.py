"""Compile variants of one kernel without running a stage twice on equal inputs.

Variants differ only from Triton's stage `llir` on, and half of the inputs to LLVM and ptxas occur in several
variants. Within `shared_stages` the stages of Triton's backends are memoised. Modules are compared and stored
as text.
"""

from __future__ import annotations

import copy
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

_TO_TEXT = ("make_llir", "make_ptx", "make_cubin", "make_amdgcn", "make_hsaco")
"""Stages whose result is text or bytes."""
_TO_MODULE = ("make_ttgir", "gluon_to_ttgir")
"""Stages whose result is a module, which the next stage changes."""
_IRRELEVANT = frozenset({"hash"})
"""Entries of a kernel's metadata that do not affect its code."""


@dataclass(frozen=True)
class _StageResult:
    """The result of a stage, with a module as text, and the entries that it added to the kernel's metadata."""

    result: Any
    metadata: dict[str, Any]


class SharedStages(dict[tuple[str, ...], _StageResult]):
    """The results of stages, by their inputs."""


@contextmanager
def shared_stages(known: SharedStages) -> Iterator[None]:
    """Memoise the stages of Triton's backends in the block; `known` has the results."""
    from triton.backends import backends

    with ExitStack() as stack:
        for backend in backends.values():
            for name in (*_TO_TEXT, *_TO_MODULE):
                if (stage := vars(backend.compiler).get(name)) is not None:
                    memoised = _memoised(name, stage, known)
                    stack.enter_context(mock.patch.object(backend.compiler, name, memoised))
        yield


def _memoised(name: str, stage: Any, known: SharedStages) -> Any:
    is_static = isinstance(stage, staticmethod)
    call: Callable[..., Any] = stage.__func__ if is_static else stage
    place = 0 if is_static else 1

    @functools.wraps(call)
    def shared(*arguments: Any) -> Any:
        source, metadata, *rest = arguments[place:]
        before = {key: value for key, value in metadata.items() if key not in _IRRELEVANT}
        key = (name, str(source), repr(sorted(before.items(), key=str)), repr(rest))
        stored = known.get(key)
        if stored is None:
            result = call(*arguments)
            stored_result = str(result) if name in _TO_MODULE else result
            added = {
                entry: value for entry, value in metadata.items() if before.get(entry, _IRRELEVANT) != value
            }
            added = copy.deepcopy({entry: v for entry, v in added.items() if entry not in _IRRELEVANT})
            known[key] = _StageResult(stored_result, added)
            return result
        metadata.update(copy.deepcopy(stored.metadata))
        return _parsed(stored.result, source) if name in _TO_MODULE else stored.result

    return staticmethod(shared) if is_static else shared


def _parsed(text: str, other: Any) -> Any:
    """Parse a module into the context of the module `other`."""
    from triton._C.libtriton import ir

    descriptor, path = tempfile.mkstemp(suffix=".ttgir")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        module = ir.parse_mlir_module(path, other.context)
    finally:
        os.unlink(path)
    module.context = other.context
    return module
