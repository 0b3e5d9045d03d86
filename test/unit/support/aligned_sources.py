"""Sources of kernels whose arguments are as aligned as they mostly are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton.compiler import ASTSource


def aligned(
    kernel: Any, kinds: Mapping[str, str], constants: Mapping[str, Any], integers: bool = True
) -> ASTSource:
    """A kernel with arguments of these kinds, whose pointers are multiples of 16, and integers too."""
    attributes = {
        (place,): [["tt.divisibility", 16]]
        for place, kind in enumerate(kinds.values())
        if kind[0] in ("*i" if integers else "*")
    }
    signature = {**kinds, **dict.fromkeys(constants, "constexpr")}
    return ASTSource(kernel, signature, dict(constants), attributes)
