"""Stores that Triton's barrier analysis is to see and no thread is to execute.

They are put into a kernel before Triton lowers it (`embed` says what for). Where a store to shared memory
becomes an LLVM store, its value is undefined, and LLVM drops it. Where it becomes inline assembly, which LLVM
keeps, the value is a number that nobody else has, and it is taken out of the LLVM IR by that number. One that
stayed would write over the data of other threads, so none may be left.
"""

from __future__ import annotations

import re

from triton_linear.dialect.triton_versions import STORES_IN_ASSEMBLY, Release

NUMBER = 0x6C6C5F6D61726B73
"""What marks store where they are taken out again: "ll_marks", as a number of 64 bits."""

_STORE = re.compile(
    r'^ *(?:tail )?call void asm sideeffect "st\.shared(?:::cta)?\.b64 \[ \$0 \+ 0 \], \$1;", "r,l"'
    rf"\([^\n]*, (?:<1 x i64> (?:splat \(i64 {NUMBER}\)|<i64 {NUMBER}>)|i64 {NUMBER})\)[^\n]*\n",
    re.MULTILINE,
)


class MarkError(Exception):
    """LLVM IR in which a mark is not recognised."""


def are_kept(vendor: str, release: Release) -> bool:
    """Whether LLVM keeps marks for a vendor's GPUs, so that they must be taken out."""
    return vendor == "nvidia" and release in STORES_IN_ASSEMBLY


def without_marks(llir: str) -> str:
    """LLVM IR without the marks in it.

    Ensures: `NUMBER` is nowhere in the result.
    """
    if str(NUMBER) not in llir:
        return llir
    llir = _STORE.sub("", llir)
    if str(NUMBER) in llir:
        line = next(line for line in llir.splitlines() if str(NUMBER) in line)
        raise MarkError(f"a mark is left in the LLVM IR: {line.strip()[:200]}")
    return llir
