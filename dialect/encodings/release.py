"""Which Triton's rules apply.

Releases agree on almost every layout; where equal texts mean different layouts, an encoding asks the release.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata
from typing import Final

__all__ = ["CONTIGUOUS_FIRST", "COPIES_DROPPED", "REFERENCE", "SMALL_OPERANDS", "Release", "installed_release"]

Release = tuple[int, int]

REFERENCE: Final[Release] = (3, 6)

# From this release on, a blocked encoding larger than its tensor has no registers for the copies.
COPIES_DROPPED: Final[Release] = (3, 9)

# From this release on, a transposed nvmma_shared encoding without swizzle begins with its contiguous dimension.
CONTIGUOUS_FIRST: Final[Release] = (3, 8)

# From this release on, the operands of an mma with 8 rows (m8n8k4 of f64) have tiles of their own.
SMALL_OPERANDS: Final[Release] = (3, 8)


@cache
def installed_release() -> Release:
    """The installed Triton's major and minor version, or the reference release if there is none."""
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return REFERENCE
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else REFERENCE
