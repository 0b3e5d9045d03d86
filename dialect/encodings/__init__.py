"""Every encoding of registers and of shared memory as a linear layout, from the text that Triton prints.

>>> text = "#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>"
>>> layout_of(text, (256,)).apply({"register": 3, "lane": 1, "warp": 0, "block": 0})
{'dim0': 131}

The texts of Triton 3.6 to 3.9 are parsed by the same rules. In three points the releases give equal texts
different layouts; the parameter `release` selects one, by default the installed release.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ..linear_layout import REGISTER, LinearLayout
from ..records import dataclass
from ..triton_versions import COPIES_NOT_HELD, REFERENCE, Release, installed_release
from .amd import AmdMfma
from .blocked import Blocked
from .derived import DotOperand, Slice
from .encoding import DotParent, Encoding
from .linear import GenericLinear, Linear, linear_encoding_text
from .nvidia import NvidiaMma
from .nvmma_shared import NvmmaShared
from .shared import AmdRotatingShared, PaddedShared, PartitionedShared, SharedLinear, SwizzledShared
from .syntax import Attribute, MalformedEncoding, UnknownEncoding, parse_attribute

__all__ = [
    "REFERENCE",
    "AmdMfma",
    "AmdRotatingShared",
    "Blocked",
    "DotOperand",
    "DotParent",
    "Encoding",
    "GenericLinear",
    "Linear",
    "MalformedEncoding",
    "NvidiaMma",
    "NvmmaShared",
    "PaddedShared",
    "PartitionedShared",
    "Release",
    "SharedLinear",
    "Slice",
    "SwizzledShared",
    "UnknownEncoding",
    "installed_release",
    "layout_of",
    "linear_encoding_text",
    "parse",
]

_CLASSES: Final = MappingProxyType(
    {
        encoding.name: encoding
        for encoding in (
            AmdMfma,
            AmdRotatingShared,
            Blocked,
            DotOperand,
            GenericLinear,
            Linear,
            NvidiaMma,
            NvmmaShared,
            PaddedShared,
            PartitionedShared,
            SharedLinear,
            Slice,
            SwizzledShared,
        )
    }
)


@dataclass(frozen=True)
class _Builder:
    """Builds the encoding of an attribute, by the rules of one release."""

    release: Release

    def __call__(self, attribute: Attribute) -> Encoding:
        encoding = _CLASSES.get(attribute.name)
        if encoding is None:
            hint = "" if "." in attribute.name else " (an alias? expand aliases first)"
            raise UnknownEncoding(f"unknown encoding '{attribute.name}'{hint}")
        return encoding.from_attribute(attribute, self)


@lru_cache(maxsize=4096)
def parse(text: str, release: Release | None = None) -> Encoding:
    """The encoding that an attribute's text denotes.

    Requires: aliases are expanded. Raises `UnknownEncoding`, which names the encoding, and
    `MalformedEncoding`, which names the field or the offset.

    >>> parse("#ttg.linear<{register = [[0, 1]], lane = [], warp = [], block = []}>").rank
    2
    """
    return _Builder(release or installed_release())(parse_attribute(text))


def layout_of(
    encoding_text: str, shape: tuple[int, ...], element_bits: int = 32, release: Release | None = None
) -> LinearLayout:
    """The layout of a tensor of this shape, whose encoding Triton prints as ``encoding_text``.

    Ensures: equals ``toLinearLayout`` of that release of Triton, by default the installed one, bit for bit.
    In-dims are register, lane, warp, block for distributed encodings, offset, block for shared ones; out-dims
    dim0, dim1, ...

    No layout in Triton 3.6 to 3.9 depends on ``element_bits``: an encoding that needs the width states it
    itself.
    """
    return _layout_of(encoding_text, shape, release)


@lru_cache(maxsize=8192)
def _layout_of(encoding_text: str, shape: tuple[int, ...], release: Release | None) -> LinearLayout:
    return parse(encoding_text, release).to_linear_layout(shape)


def held_layout_of(
    encoding_text: str, shape: tuple[int, ...], element_bits: int = 32, release: Release | None = None
) -> LinearLayout:
    """The layout of a tensor's struct in LLVM IR: `layout_of`, in some releases without registers for copies.

    Ensures: a thread has as many elements as the layout has registers, in that order.
    """
    return held(layout_of(encoding_text, shape, element_bits, release), release)


def held(layout: LinearLayout, release: Release | None = None) -> LinearLayout:
    """`layout`, without registers that hold copies if the release has no elements for them in LLVM IR."""
    if (release or installed_release()) not in COPIES_NOT_HELD or not layout.has_in_dim(REGISTER):
        return layout
    return layout.remove_zero_bases(REGISTER)
