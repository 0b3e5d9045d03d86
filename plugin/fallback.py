"""What a user is told where the plugin fails and stock Triton does the work.

Telling must not lose what it is about: where there is no memory or stack left to tell, nothing is said.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress

from triton_linear.interfaces import Metadata
from triton_linear.report import FallbackWarning
from triton_linear.setting import Setting
from triton_linear.user_passes import PassError


class UnknownTarget(ValueError):
    """There is no table for the GPU that is compiled for."""


def without_room() -> AbstractContextManager[None]:
    """A block of telling, which ends early where memory or stack are used up: the kernel counts more."""
    return suppress(MemoryError, RecursionError)


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
    """Say, once for each kernel, that it is `done` by stock Triton because of `error`."""
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
            text += f"{error}{_trace_of(error.__cause__)}"
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


def _trace_of(error: BaseException | None) -> str:
    return "" if error is None else "\n" + "".join(traceback.format_exception(error))


def _module_file(kernel: str, metadata: Metadata) -> str:
    """Where Triton keeps the TritonGPU IR of this kernel, in words if it keeps none."""
    from triton.runtime.cache import get_cache_manager  # type: ignore[import-untyped, unused-ignore]

    if key := metadata.get("hash"):
        with suppress(Exception):  # a cache of somebody else's, or one that cannot be written to any more
            path: str | None = get_cache_manager(key).get_file(f"{kernel[:150]}.ttgir")
            if path is not None:
                return path
    return "the kernel's .ttgir (TRITON_KERNEL_DUMP=1 writes it)"
