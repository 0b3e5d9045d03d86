"""The releases of Triton that this package works with, and in what they differ.

Where releases differ, the difference is a `Span` here, and the code that depends on it asks whether the release
it works for is in that span. What a release brings that nothing here knows, new encodings for instance, is not
guessed at: it is refused where it is read, and left to Triton. docs/versions.md has the differences in words.

This module imports neither Triton nor anything that takes long: processes that may turn the plugin on read it.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

Release = tuple[int, int]
"""Major and minor version; what is fixed in a third number changes nothing that is said here."""

TESTED: Final = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""The plugin works with these and no others. All tests pass on the first, those of `make matrix` on all."""

REFERENCE: Final[Release] = (3, 6)
"""The release whose rules hold where there is no Triton."""


class Span(NamedTuple):
    """The releases from `since` on, up to but not including `before`.

    >>> (3, 8) in Span((3, 7)), (3, 8) in Span((3, 7), (3, 8))
    (True, False)
    """

    since: Release
    before: Release = (99, 0)

    def __contains__(self, release: object) -> bool:
        return isinstance(release, tuple) and self.since <= release < self.before


COPIES_DROPPED: Final = Span((3, 9))
"""A blocked encoding larger than its tensor has no registers for the copies."""

COPIES_NOT_HELD: Final = Span((3, 9))
"""What a tensor becomes in LLVM IR has no element for a register that holds a copy of another."""

DEPENDENT_VECTORS: Final = Span((3, 6), (3, 7))
"""Basis vectors of a linear encoding may be sums of each other; later only zero may stand more than once."""

SUMS_OF_BITS: Final = Span((3, 6), (3, 8))
"""Basis vectors of a linear encoding may have several bits; later each has one, or none."""

SUMS_EVERYWHERE: Final = Span((3, 6), (3, 7))
"""Every operation takes layouts whose basis vectors have several bits; 3.7 ends the process at some that do."""

CONTIGUOUS_FIRST: Final = Span((3, 8))
"""A transposed nvmma_shared encoding without swizzle begins with its contiguous dimension."""

SMALL_OPERANDS: Final = Span((3, 8))
"""The operands of an mma with 8 rows (m8n8k4 of f64) have tiles of their own."""

WMMA_TILES_BY_BASES: Final = Span((3, 7))
"""A wmma encoding says by basis vectors how warps lie, instead of by their number along each dimension."""

WMMA_OPERANDS_UNKNOWN: Final = Span((3, 7), (3, 8))
"""Operands of wmma whose tiles are given by bases have an order of their own, which nothing here knows."""

STORES_IN_ASSEMBLY: Final = Span((3, 7), (3, 9))
"""On NVIDIA GPUs, stores to shared memory are inline assembly, which LLVM keeps whatever is stored."""

BARRIER_0: Final = Span((3, 6), (3, 8))
"""`nvvm.barrier` for the whole CTA is called `nvvm.barrier0`."""

PARTS_TRACKED: Final = Span((3, 9))
"""The barrier analysis knows which part of a buffer is accessed where its index is a constant."""

REDUCTIONS_CONVERT: Final = Span((3, 8))
"""A reduction across warps converts its partial results, so that lanes have them, and goes on by shuffles."""

CACHE_POLICIES: Final = Span((3, 9))
"""How long a load or store is to stay in caches is said by one attribute."""

OPERANDS_OVERWRITTEN: Final = Span((3, 6), (3, 9))
"""An iteration may write to registers that a product of the one before still reads: by the PTX, or, with 3.8,
which copies them first, by what its ptxas makes of that."""


class UnsupportedTriton(ImportError):
    """The installed Triton is none that this package works with."""


class UnsupportedMLIR(ImportError):
    """The installed module `mlir` is none that this package works with."""


def found() -> str | None:
    """The version of the Triton that `import triton` gives, which is not imported; None if there is none.

    The module says it, not the distribution: that may have another name, and a path may go before it.
    """
    module = sys.modules.get("triton")
    if module is not None:
        return str(getattr(module, "__version__", "unknown"))
    return _found_on_path()


@cache
def _found_on_path() -> str | None:
    from importlib.util import find_spec

    spec = find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    said = re.search(r"^__version__ = ['\"]([^'\"]+)", Path(spec.origin).read_text(), re.MULTILINE)
    return said[1] if said else "unknown"


def refusal(version: str | None) -> str | None:
    """Why this package does not work with a version of Triton, None if it does.

    >>> refusal("3.8.0"), refusal("3.5.1")
    (None, 'found Triton 3.5.1; triton_linear works with 3.6.0, 3.7.1, 3.8.0 or 3.9.0')
    """
    if version in TESTED:
        return None
    what = "no Triton" if version is None else f"Triton {version}"
    *most, last = TESTED
    return f"found {what}; triton_linear works with {', '.join(most)} or {last}"


def require() -> None:
    """Raise `UnsupportedTriton` unless the installed Triton is one that this package works with."""
    reason = refusal(found())
    if reason is not None:
        raise UnsupportedTriton(reason, name="triton")


def installed_release() -> Release:
    """The installed Triton's major and minor version, or the reference release if there is none."""
    match = re.match(r"(\d+)\.(\d+)", found() or "")
    return (int(match[1]), int(match[2])) if match else REFERENCE
