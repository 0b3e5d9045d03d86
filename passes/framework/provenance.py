"""Tell the conversions that a module had before the pipeline from those that the passes made.

Before the first pass, each conversion gets its number as the attribute `ll.own`. A pass that replaces a
conversion hands the number to the new one (`hand_over`). A conversion without a number was made by the
assignment of layouts or by a split reduction. So the report accounts for every original conversion. The numbers
are removed at the end of the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation
from triton_linear.passes.operations.names import CONVERT


def number(ops: Iterable[Operation]) -> int:
    """Give each conversion among `ops` its number; returns how many there are."""
    conversions = [op for op in ops if op.name == CONVERT]
    for place, op in enumerate(conversions):
        op.attributes[ll.OWN] = Attribute.parse(f"{place} : i32", op.context)
    return len(conversions)


def number_of(op: Operation) -> int | None:
    """The number of an original conversion; None for one that a pass made."""
    return op.attributes[ll.OWN].value if ll.OWN in op.attributes else None


def numbers(ops: Iterable[Operation]) -> set[int]:
    """The numbers of the original conversions that are among `ops`."""
    found = (number_of(op) for op in ops if op.name == CONVERT)
    return {one for one in found if one is not None}


def claim(op: Operation, claimed: set[int]) -> bool:
    """True if a conversion has the number of an original one and that is not in `claimed` yet; adds it. Cloned
    conversions have the same number, so only the first counts as the original."""
    own = number_of(op)
    if own is None or own in claimed:
        return False
    claimed.add(own)
    return True


def hand_over(old: Operation, new: Operation) -> None:
    """Move the number of `old` to `new`, which replaces it, unless `new` has a number already."""
    if old is not new and ll.OWN in old.attributes and ll.OWN not in new.attributes:
        new.attributes[ll.OWN] = old.attributes[ll.OWN]
        del old.attributes[ll.OWN]


def forget(ops: Iterable[Operation]) -> None:
    """Remove all numbers."""
    for op in ops:
        if op.name == CONVERT and ll.OWN in op.attributes:
            del op.attributes[ll.OWN]
