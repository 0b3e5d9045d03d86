"""The coordinates that threads hold in a layout."""

from __future__ import annotations

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.passes.analysis.widths import Basis


def parts(layout: LinearLayout) -> tuple[list[Basis], list[Basis]]:
    """The bases of registers, without those that hold copies, and all others."""
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    others = [basis for name, bases in layout.bases if name != REGISTER for basis in bases]
    return registers, others


def threads(layout: LinearLayout) -> list[list[Basis]]:
    """The coordinates that each thread holds."""
    registers, others = parts(layout)

    def spanned(start: Basis, bases: list[Basis]) -> list[Basis]:
        found = [start]
        for basis in bases:
            found += [tuple(a ^ b for a, b in zip(one, basis, strict=True)) for one in found]
        return found

    return [spanned(first, registers) for first in spanned((0,) * len(layout.out_dims), others)]
