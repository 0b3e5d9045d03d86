"""What moving bytes takes that arithmetic has one to a register: as words, and as they are.

A word is put together of four registers by three permutes, and taken apart by four. What plans permute between
that, to have words for accesses and for shuffles, comes on top. Whoever stores registers as they are puts those
together that an access takes, in any order, and takes apart what a load brings; an access of a byte needs
neither. The GPU has half as many lanes for permutes as for other instructions, so where bytes are computed with
they are what takes longest, and instructions are counted, not clocks.
"""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.packing import loaded_words, stored_words
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan
from triton_linear.lowering.planners.conversion import conversion
from triton_linear.lowering.planners.shared import plan_as_it_is
from triton_linear.lowering.target.targets import Target


def permutes_too_many(
    plan: SharedPlan, src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target
) -> int:
    """How many more instructions a plan takes than one that moves bytes as they are; 0 where it takes no more.

    Requires: elements of a byte, one to a register in both layouts.
    """
    plain = plan_as_it_is(conversion(src, dst), plan.scope, element, target)
    return max(0, _as_words(plan) - _as_they_are(plain))


def _as_words(plan: SharedPlan) -> int:
    """Instructions of a plan whose bytes are put into words before it, and taken out behind."""
    steps = len(stored_words(plan).steps) + len(loaded_words(plan).steps)
    for stage in (plan.before, plan.after):
        if stage is not None:
            steps += stage.gathers + stage.shuffles
    packed = plan.source_registers - max(1, plan.source_registers // plan.per_word)
    taken_apart = len(plan.outputs) if len(plan.outputs) > 1 else 0
    return _accesses(plan.store) + _accesses(plan.load) + steps + packed + taken_apart


def _as_they_are(plan: SharedPlan) -> int:
    """Instructions of a plan that puts together what its stores take, and takes apart what its loads bring."""
    stored, loaded = (_accesses(side) for side in (plan.store, plan.load))
    packed = stored * (plan.store.slots - max(1, plan.store.slots // plan.per_word))
    return stored + loaded + packed + (loaded * plan.load.slots if plan.load.slots > 1 else 0)


def _accesses(side: MemorySide) -> int:
    return sum(map(len, side.rounds))
