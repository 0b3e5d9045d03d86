"""Marks: stores that Triton's barrier analysis sees and no thread executes.

`embed` puts them into a kernel before Triton lowers it, and explains why. A mark stores an undefined value if
Triton lowers stores to shared memory to LLVM stores: LLVM then drops it. If Triton lowers them to inline
assembly, which LLVM keeps, a mark stores `NUMBER`, and is removed from the LLVM IR by this number. A mark that
stayed would overwrite the data of other threads, so none may be left.
"""

from __future__ import annotations

import re

from triton_linear.dialect.triton_versions import STORES_IN_ASSEMBLY, Release

NUMBER = 0x6C6C5F6D61726B73
"""The value that marks in inline assembly store: "ll_marks" as a number of 64 bits."""

_STORE = re.compile(
    r'^ *(?:tail )?call void asm sideeffect "st\.shared(?:::cta)?\.b64 \[ \$0 \+ 0 \], \$1;", "r,l"'
    rf"\([^\n]*, (?:<1 x i64> (?:splat \(i64 {NUMBER}\)|<i64 {NUMBER}>)|i64 {NUMBER})\)[^\n]*\n",
    re.MULTILINE,
)


class MarkError(Exception):
    """The LLVM IR has a mark that was not recognised."""


def are_kept(vendor: str, release: Release) -> bool:
    """True if LLVM keeps marks for a vendor's GPUs, so that they must be removed."""
    return vendor == "nvidia" and release in STORES_IN_ASSEMBLY


def without_marks(llir: str) -> str:
    """Remove the marks from LLVM IR.

    Ensures: `NUMBER` is nowhere in the result.
    """
    if str(NUMBER) not in llir:
        return llir
    llir = _STORE.sub("", llir)
    if str(NUMBER) in llir:
        line = next(line for line in llir.splitlines() if str(NUMBER) in line)
        raise MarkError(f"a mark is left in the LLVM IR: {line.strip()[:200]}")
    return llir
