"""The releases of Triton that this package is tested with, and the differences between them.

Each difference is a `Span` here, and code that depends on it tests whether its release is in the span. Anything
new in a release that this package does not know, for instance an encoding, is never guessed: the parser rejects
it, and it is left to Triton. docs/versions.md describes the differences.

This module imports neither Triton nor anything slow, because every process that may turn the plugin on
imports it.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

Release = tuple[int, int]
"""Major and minor version. Patch versions do not differ in anything that this module describes."""

TESTED: Final = ("3.6.0", "3.7.0", "3.7.1", "3.8.0", "3.9.0")
"""The plugin works with these versions. The whole test suite runs on the last, `make matrix` on the rest. Other
versions, such as nightlies and builds from source, must first be tested by `triton-linear doctor`."""

KNOWN: Final[tuple[Release, ...]] = ((3, 6), (3, 7), (3, 8), (3, 9))
"""The releases whose rules are known, oldest first."""

REFERENCE: Final[Release] = (3, 9)
"""The release whose rules hold if no Triton is installed."""


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
"""In LLVM IR, the struct of a tensor has no element for a register that holds a copy of another register."""

DEPENDENT_VECTORS: Final = Span((3, 6), (3, 7))
"""Basis vectors of a linear encoding may be sums of each other; later only zero may occur more than once."""

SUMS_OF_BITS: Final = Span((3, 6), (3, 8))
"""Basis vectors of a linear encoding may have several bits; later each has at most one."""

CONTIGUOUS_FIRST: Final = Span((3, 8))
"""A transposed nvmma_shared encoding without swizzle begins with its contiguous dimension."""

SMALL_OPERANDS: Final = Span((3, 8))
"""The operands of an mma with 8 rows (m8n8k4 of f64) have smaller tiles than those of other mmas."""

STORES_IN_ASSEMBLY: Final = Span((3, 7), (3, 9))
"""On NVIDIA GPUs, stores to shared memory are inline assembly; LLVM keeps it even if the value is undefined."""

BARRIER_0: Final = Span((3, 6), (3, 8))
"""`nvvm.barrier` for the whole CTA is called `nvvm.barrier0`."""

PARTS_TRACKED: Final = Span((3, 9))
"""The barrier analysis knows which part of a buffer is accessed if the index is a constant."""

ADDRESSES_COLLECTED: Final = Span((3, 9))
"""The barrier analysis keeps the set of addresses of each buffer, and compares these bit by bit, which takes up
to 0.3 ms for each KiB of a buffer."""

REDUCTIONS_CONVERT: Final = Span((3, 8))
"""A reduction across warps converts its partial results to a layout across lanes, and goes on by shuffles."""

CLUSTERS_ORDERED: Final = Span((3, 9))
"""Before any operation stores to shared memory that another CTA of the cluster may still read, it waits for
that CTA. In 3.8 only Triton's own conversions wait; before, Triton cannot lower tensors that cross CTAs."""

CACHE_POLICIES: Final = Span((3, 9))
"""The cache modifier and the eviction policy of a load or store are one attribute."""

HOOK_IN_KEYS: Final = Span((3, 7))
"""The key of a cached kernel ends with the key that the hook on Triton's stages returns."""


class UnsupportedTriton(ImportError):
    """This package does not work with the installed Triton."""


class UnsupportedMLIR(ImportError):
    """This package does not work with the installed module `mlir`."""


def found() -> str | None:
    """The version of the Triton that `import triton` would import, without importing it; None if there is none.

    It is read from the module, not from the distribution: the distribution may have another name, and the
    module may come from another path.
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
    match = re.search(r"^__version__ = ['\"]([^'\"]+)", Path(spec.origin).read_text(), re.MULTILINE)
    return match[1] if match else "unknown"


_TRY = "; run 'triton-linear doctor' to try this one out"


def refusal(version: str | None) -> str | None:
    """The reason why a version of Triton is not supported without a verdict of `doctor`; None if it is.

    >>> refusal("3.8.0"), refusal("3.5.1")
    (None, 'found Triton 3.5.1; triton_linear works with 3.6.0, 3.7.0, 3.7.1, 3.8.0 or 3.9.0')
    """
    if version in TESTED:
        return None
    what, advice = f"Triton {version}", ""
    if version is None:
        what, advice = "no Triton", "; \"pip install 'triton-linear[triton]'\" brings one"
    elif release_of(version) is not None:
        advice = _TRY
    *most, last = TESTED
    return f"found {what}; triton_linear works with {', '.join(most)} or {last}{advice}"


def require() -> None:
    """Raise `UnsupportedTriton` unless the installed Triton is a tested release, or `triton-linear doctor`
    found that it follows the rules of one.
    """
    version = found()
    reason = refusal(version)
    if reason is None:
        return
    if release_of(version) is not None:
        from triton_linear.dialect import verdicts

        if verdicts.is_on_trial(version):
            return
        verdict = verdicts.kept()
        if verdict is not None and verdict.triton == version:
            if verdict.passed:
                return
            reason = reason.replace(
                _TRY, f"; 'triton-linear doctor' found that it differs from {verdict.rules}"
            )
    raise UnsupportedTriton(reason, name="triton")


@cache
def release_of(version: str | None) -> Release | None:
    """The release whose rules a version of Triton is assumed to follow: the newest known release that is not
    newer than the version. None if the version is older than all known releases, or is not a version.

    >>> release_of("3.7.1"), release_of("3.10.0+git1234"), release_of("4.0.0"), release_of("3.5.1")
    ((3, 7), (3, 9), (3, 9), None)
    """
    match = re.match(r"(\d+)\.(\d+)", version or "")
    if match is None:
        return None
    wanted = (int(match[1]), int(match[2]))
    return max((release for release in KNOWN if release <= wanted), default=None)


def installed_release() -> Release:
    """The release whose rules the installed Triton follows (`release_of`); the reference release if no Triton
    is installed, or `release_of` does not know it.
    """
    return release_of(found()) or REFERENCE
