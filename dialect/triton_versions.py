"""The releases of Triton that this package is tested with, and in what they differ.

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

TESTED: Final = ("3.6.0", "3.7.0", "3.7.1", "3.8.0", "3.9.0")
"""The plugin works with these. The whole suite runs on the last, `make matrix` on the rest. Others, as
nightlies and builds from source, have to be tried out by `triton-linear doctor` where they are installed."""

KNOWN: Final[tuple[Release, ...]] = ((3, 6), (3, 7), (3, 8), (3, 9))
"""The releases whose rules are known, oldest first."""

REFERENCE: Final[Release] = (3, 9)
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

CONTIGUOUS_FIRST: Final = Span((3, 8))
"""A transposed nvmma_shared encoding without swizzle begins with its contiguous dimension."""

SMALL_OPERANDS: Final = Span((3, 8))
"""The operands of an mma with 8 rows (m8n8k4 of f64) have tiles of their own."""

WMMA_TILES_BY_BASES: Final = Span((3, 7))
"""A wmma encoding says by basis vectors how warps lie, instead of by their number along each dimension."""

WMMA_OPERANDS_K_FIRST: Final = Span((3, 7), (3, 8))
"""Operands of a wmma whose tiles are given by bases have all of K before these, and its CTAs split K; later the
tiles come first, and CTAs along K hold copies."""

WIDE_DOUBLES_REFUSED: Final = Span((3, 6), (3, 9))
"""There is no code for dots of f64 whose operands hold neighbours along k, as those made from bytes do."""

TENSOR_MEMORY_BY_LAYOUT: Final = Span((3, 8))
"""Tensor memory has a dimension for CTAs, and every shape of instruction serves the layouts that fit it."""

PADDED_TO_COLUMNS: Final = Span((3, 9))
"""In tensor memory an element that is narrower than its column is moved by a register of its own, and so is
what is thinner than a column; before, halves of 32 bits by `.pack::16b`, and what is thinner not at all."""

STORES_IN_ASSEMBLY: Final = Span((3, 7), (3, 9))
"""On NVIDIA GPUs, stores to shared memory are inline assembly, which LLVM keeps whatever is stored."""

BARRIER_0: Final = Span((3, 6), (3, 8))
"""`nvvm.barrier` for the whole CTA is called `nvvm.barrier0`."""

PARTS_TRACKED: Final = Span((3, 9))
"""The barrier analysis knows which part of a buffer is accessed where its index is a constant."""

ADDRESSES_COLLECTED: Final = Span((3, 9))
"""The barrier analysis has a set of the addresses of each buffer, and compares these bit by bit, which takes up
to 0.3 ms for each KiB of a buffer."""

REDUCTIONS_CONVERT: Final = Span((3, 8))
"""A reduction across warps converts its partial results, so that lanes have them, and goes on by shuffles."""

CLUSTERS_ORDERED: Final = Span((3, 9))
"""Who stores to shared memory that another CTA of the cluster may still read waits for it, whatever the
operation. In 3.8 only Triton's own conversions do; before, Triton has no code for tensors that cross CTAs."""

CACHE_POLICIES: Final = Span((3, 9))
"""How long a load or store is to stay in caches is said by one attribute."""

HOOK_IN_KEYS: Final = Span((3, 7))
"""Keys of cached kernels end with what the hook that inspects stages says of itself."""

OPERANDS_OVERWRITTEN: Final = Span((3, 6), (3, 8))
"""By the PTX, an iteration may write to registers that a dot of the one before still reads. Later it copies
them first, which ptxas of CUDA 12 undoes."""


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


_TRY = "; run 'triton-linear doctor' to try this one out"


def refusal(version: str | None) -> str | None:
    """Why this package does not work with a version of Triton by itself, None if it does.

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
    """Raise `UnsupportedTriton` unless the installed Triton is a tested release, or was tried out by
    `triton-linear doctor` and found to keep to the rules of one.
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
    """The release whose rules a version of Triton is taken to keep to: the newest known one that is not above
    it. None below the oldest, and for what is no version.

    >>> release_of("3.7.1"), release_of("3.10.0+git1234"), release_of("4.0.0"), release_of("3.5.1")
    ((3, 7), (3, 9), (3, 9), None)
    """
    match = re.match(r"(\d+)\.(\d+)", version or "")
    if match is None:
        return None
    said = (int(match[1]), int(match[2]))
    return max((release for release in KNOWN if release <= said), default=None)


def installed_release() -> Release:
    """The release whose rules hold for the installed Triton (`release_of`); the reference release where there
    is none, or one that is not known.
    """
    return release_of(found()) or REFERENCE
