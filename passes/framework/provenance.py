"""Which conversions a module came with, and which the passes made.

Before the first pass each conversion gets its number as `ll.own`. A pass that puts a conversion in the place of
one hands the number on (`hand_over`); what comes without a number was made by a choice of layouts, by a
reduction that was taken apart or by an access that goes by way of another layout. So every conversion of the
user's is accounted for, whatever the passes do. The numbers are gone before anybody else sees the module.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation
from triton_linear.passes.framework.verifiers import CONVERT


def number(ops: Iterable[Operation]) -> int:
    """Give each conversion among `ops` its number; returns how many there are."""
    conversions = [op for op in ops if op.name == CONVERT]
    for place, op in enumerate(conversions):
        op.attributes[ll.OWN] = Attribute.parse(f"{place} : i32", op.context)
    return len(conversions)


def number_of(op: Operation) -> int | None:
    """The number of a conversion that the module came with; None for one that was made."""
    return op.attributes[ll.OWN].value if ll.OWN in op.attributes else None


def numbers(ops: Iterable[Operation]) -> set[int]:
    """The numbers that are left among `ops`."""
    found = (number_of(op) for op in ops if op.name == CONVERT)
    return {one for one in found if one is not None}


def claim(op: Operation, claimed: set[int]) -> bool:
    """Whether a conversion is the first to stand for one that the module came with: a copy of it was made."""
    found = number_of(op)
    if found is None or found in claimed:
        return False
    claimed.add(found)
    return True


def hand_over(old: Operation, new: Operation) -> None:
    """`new` stands where `old` stood, if nobody has done so before and it is nobody else's."""
    if old is not new and ll.OWN in old.attributes and ll.OWN not in new.attributes:
        new.attributes[ll.OWN] = old.attributes[ll.OWN]
        del old.attributes[ll.OWN]


def forget(ops: Iterable[Operation]) -> None:
    """Take the numbers away."""
    for op in ops:
        if op.name == CONVERT and ll.OWN in op.attributes:
            del op.attributes[ll.OWN]
