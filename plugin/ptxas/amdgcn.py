"""Read AMDGCN: what its kernel has on the stack."""

from __future__ import annotations

import re
from typing import Final

_SCRATCH: Final = re.compile(r"^\s*\.private_segment_fixed_size:\s*(\d+)\s*$", re.M)
"""Bytes for each thread, in the metadata of a kernel (LLVM's guide for AMDGPU, code object metadata)."""


def scratch_of(text: object) -> int | None:
    """The bytes that a thread has in scratch memory, where spilled values are; None if `text` does not tell.

    >>> scratch_of("    .private_segment_fixed_size: 152\\n")
    152
    """
    return max((int(size) for size in _SCRATCH.findall(str(text))), default=None)
