"""Read AMDGCN: what its kernel has on the stack."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from triton_linear.ptxas.advice import UNKNOWN_PACE
from triton_linear.ptxas.veto import Figures

if TYPE_CHECKING:
    from triton_linear.lowering.target.policy import Policy

_SCRATCH: Final = re.compile(r"^\s*\.private_segment_fixed_size:\s*(\d+)\s*$", re.M)
"""Bytes for each thread, in the metadata of a kernel (LLVM's guide for AMDGPU, code object metadata)."""


def scratch_of(text: object, policy: Policy) -> Figures | None:
    """What is compared of a kernel: spilled values are in its scratch memory. None if `text` does not tell.

    A kernel that spills as little as is no difference from another one does not spill. No clocks are known.

    >>> from triton_linear.lowering.target.policy import CDNA
    >>> scratch_of("    .private_segment_fixed_size: 152\\n", CDNA).spilled
    152
    """
    found = [int(size) for size in _SCRATCH.findall(str(text))]
    if not found:
        return None
    return Figures(max(found), max(found) >= policy.less_spilled, False, lambda: UNKNOWN_PACE)
