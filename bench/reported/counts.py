"""What a complaint is about, counted in the PTX of a kernel, and in what ptxas makes of it.

Nothing but Triton is needed, so that a Python which has another release of it counts as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_KINDS: Mapping[str, str] = {
    "divisions": r"\bdiv\.\S+|\brem\.\S+",
    "global loads": r"\bld\.global\b|\bld\.global\.",
    "global stores": r"\bst\.global\b|\bst\.global\.",
    "copies": r"\bcp\.async\.c[ag]\b",
    "atomics": r"\b(?:atom|red)\.\S*global",
    "shared loads": r"\b(?:ld\.shared|ldmatrix)\b",
    "shared stores": r"\b(?:st\.shared|stmatrix)\b",
    "shuffles": r"\bshfl\.sync\b",
    "barriers": r"\b(?:bar|barrier)\.(?:cta\.)?sync\b",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}
KINDS = (*_KINDS, "PTX lines", "registers", "stack", "shared", "conversions")
"""Everything that is counted: instructions of a thread; bytes of `stack` and of `shared` memory; conversions
between layouts that Triton's compiler leaves to be lowered, of stock Triton alone."""


def of_ptx(text: str) -> dict[str, int]:
    """How many instructions of each kind a text in PTX has.

    >>> of_ptx("  @%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];")["global loads"]
    1
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith((".", "//"))]
    found = {kind: sum(bool(p.search(line)) for line in lines) for kind, p in _PATTERNS.items()}
    return found | {"PTX lines": len(lines)}


def of_kernel(kernel: Any, usage: Any = None) -> dict[str, int | None]:
    """Everything that is counted of a compiled kernel; `usage` is what the cubin says of it, if it is known."""
    found: dict[str, int | None] = dict(of_ptx(kernel.asm["ptx"]))
    found["registers"] = usage.registers if usage else None
    found["stack"] = usage.stack if usage else None
    found["shared"] = kernel.metadata.shared
    found["conversions"] = len(re.findall(r"\bttg\.convert_layout\b", kernel.asm["ttgir"]))
    return found
