"""Compiles variants of one kernel without doing twice what is the same in two of them.

Variants differ from Triton's stage `llir` on, and not all of them: half of what they hand to LLVM and to ptxas
has been there before. Within `shared_stages` a stage of Triton's backend gives what it gave for the same input.
Modules go by their text, as they do between Triton and the plugin anyway.
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
"""Stages that give a text or bytes."""
_TO_MODULE = ("make_ttgir", "gluon_to_ttgir")
"""Stages that give a module, which the next one changes."""
_OWN = frozenset({"hash"})
"""What in a kernel's metadata names the compile, and has no say in what it makes."""


@dataclass(frozen=True)
class _Stage:
    """What a stage gave, a module as its text, and what it added to the kernel's metadata."""

    result: Any
    metadata: dict[str, Any]


class SharedStages(dict[tuple[str, ...], _Stage]):
    """What stages gave, by all that they are given."""


@contextmanager
def shared_stages(known: SharedStages) -> Iterator[None]:
    """Within the block, stages of Triton's backends take from `known` what is there, and add what is not."""
    from triton.backends import backends

    with ExitStack() as stack:
        for backend in backends.values():
            for name in (*_TO_TEXT, *_TO_MODULE):
                if (stage := vars(backend.compiler).get(name)) is not None:
                    stack.enter_context(mock.patch.object(backend.compiler, name, _sharing(name, stage, known)))
        yield


def _sharing(name: str, stage: Any, known: SharedStages) -> Any:
    is_static = isinstance(stage, staticmethod)
    call: Callable[..., Any] = stage.__func__ if is_static else stage
    place = 0 if is_static else 1

    @functools.wraps(call)
    def shared(*arguments: Any) -> Any:
        source, metadata, *rest = arguments[place:]
        before = {key: value for key, value in metadata.items() if key not in _OWN}
        key = (name, str(source), repr(sorted(before.items(), key=str)), repr(rest))
        found = known.get(key)
        if found is None:
            result = call(*arguments)
            kept = str(result) if name in _TO_MODULE else result
            added = {entry: value for entry, value in metadata.items() if before.get(entry, _OWN) != value}
            known[key] = _Stage(kept, copy.deepcopy({e: v for e, v in added.items() if e not in _OWN}))
            return result
        metadata.update(copy.deepcopy(found.metadata))
        return _parsed(found.result, source) if name in _TO_MODULE else found.result

    return staticmethod(shared) if is_static else shared


def _parsed(text: str, beside: Any) -> Any:
    """The module of a text, in the context of another one."""
    from triton._C.libtriton import ir

    descriptor, path = tempfile.mkstemp(suffix=".ttgir")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        module = ir.parse_mlir_module(path, beside.context)
    finally:
        os.unlink(path)
    module.context = beside.context
    return module
