"""Warn a user that the plugin failed and stock Triton compiles the kernel.

A warning must not stop the compile: if memory or stack is exhausted, there is none.
"""

from __future__ import annotations

import functools
import os
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from triton_linear.dialect.interfaces import Metadata
from triton_linear.passes.user_passes import PassError
from triton_linear.report import FallbackWarning, LimitWarning
from triton_linear.setting import Setting


class UnknownTarget(ValueError):
    """This package has no table for the target GPU, or cannot read its encodings."""


def check_table(target: str) -> None:
    """Raise UnknownTarget for a GPU that this package has no table for. target: Triton's name of it."""
    from triton_linear.lowering.target.table import GPUS

    if target not in GPUS:
        raise UnknownTarget(f"no table for {target}; known: {', '.join(GPUS)}")


def without_room() -> AbstractContextManager[None]:
    """Within the block, exhausted memory or stack ends the block and is not raised, so the compile goes on."""
    return suppress(MemoryError, RecursionError)


@contextmanager
def guarded(
    setting: Setting, kernel: str, target: str, metadata: Metadata | None = None, done: str = "compiled"
) -> Iterator[None]:
    """Within the block, an exception ends the block, and is a warning (strict: is raised)."""
    try:
        yield
    except Exception as error:
        if setting.options.strict:
            raise
        warn(setting, kernel, target, error, metadata or {}, done=done)


def warn(
    setting: Setting,
    kernel: str,
    target: str,
    error: Exception,
    metadata: Metadata,
    *,
    remarks: Sequence[str] = (),
    done: str = "compiled",
) -> None:
    """Warn, once for each kernel, that stock Triton has `done` it because of `error`."""
    subject = "" if isinstance(error, UnknownTarget) else kernel
    if (subject, target) in setting.warned:
        return
    setting.warned.add((subject, target))
    text = f"kernel '{kernel}' for {target} is {done} by stock Triton: "
    with without_room():
        if isinstance(error, UnknownTarget):
            text = f"kernels are compiled by stock Triton: {error}"
        elif isinstance(error, ImportError) and not (error.name or "").startswith("triton_linear"):
            text += f"{error}; the plugin needs MLIR's Python bindings (module 'mlir')"
        elif isinstance(error, PassError):
            text += str(error)
            if error.__cause__ is not None:
                text += "\n" + "".join(traceback.format_exception(error.__cause__))
        elif isinstance(error, (OSError, MemoryError)):
            text += f"the plugin failed: {type(error).__name__}: {error}"
        else:
            trace = "".join(traceback.format_exception(error))
            said = "".join(f"; {remark}" for remark in remarks)
            text += (
                f"the plugin failed: {type(error).__name__}: {error}{said}\n"
                f"this is a bug; please attach {_module_file(kernel, metadata)} and this:\n{trace}"
            )
        warnings.warn(f"triton_linear: {text}", FallbackWarning, stacklevel=3)


def _module_file(kernel: str, metadata: Metadata) -> str:
    """The file of this kernel's TritonGPU IR in Triton's cache; if there is none, how to get one."""
    from triton.runtime.cache import get_cache_manager  # type: ignore[import-untyped, unused-ignore]

    if key := metadata.get("hash"):
        with suppress(Exception):  # a user's own cache manager, or a folder without access
            path: str | None = get_cache_manager(key).get_file(f"{kernel[:150]}.ttgir")
            if path is not None:
                return path
    return "the kernel's .ttgir (TRITON_KERNEL_DUMP=1 writes it)"


def warn_of_tiles() -> None:
    """Warn once if Triton compiles by CUDA Tile IR: it has that backend, and the variable chooses it."""
    from triton.backends import backends  # type: ignore[import-untyped, unused-ignore]

    if os.environ.get("ENABLE_TILE") == "1" and "tileir" in backends:
        _warn_of_tiles()


@functools.cache
def _warn_of_tiles() -> None:
    text = (
        "ENABLE_TILE=1 has CUDA Tile IR compile kernels, whose tensors have no layouts: they stay as they are"
    )
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=4)
