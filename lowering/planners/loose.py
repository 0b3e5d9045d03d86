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
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan, ShufflePlan
from triton_linear.lowering.planners.conversion import conversion
from triton_linear.lowering.planners.shared import plan_as_it_is
from triton_linear.lowering.target.targets import Target


def permutes_too_many(
    plan: SharedPlan | ShufflePlan, src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target
) -> int:
    """How many more instructions a plan takes than an exchange through shared memory that moves bytes as they
    are; 0 if that is not too many.

    Shuffles have no barrier and wait less, so of them `Policy.loose_shuffles` times as many are not too many,
    nor any number for a single word.

    Requires: elements of a byte, one to a register in both layouts.
    """
    scope = plan.scope if isinstance(plan, SharedPlan) else "warp"
    plain = _as_they_are(plan_as_it_is(conversion(src, dst), scope, element, target))
    if isinstance(plan, SharedPlan):
        packing = _packing(plan.source_registers, len(plan.outputs), plan.per_word)
        return max(0, _as_words(plan) + packing - plain)
    packing = _packing(plan.source_registers, plan.destination_registers, plan.slots)
    words = plan.gathers + sum(plan.moving(target)) + packing
    is_many = plan.source_registers > plan.slots and words >= target.policy.loose_shuffles * plain
    return words - plain if is_many else 0


def _packing(given: int, made: int, per_word: int) -> int:
    """Permutes that put bytes into words, and take them out behind."""
    return given - max(1, given // per_word) + (made if made > 1 else 0)


def _as_words(plan: SharedPlan) -> int:
    """Instructions of a plan between the words of its source and those of its destination."""
    steps = len(stored_words(plan).steps) + len(loaded_words(plan).steps)
    for stage in (plan.before, plan.after):
        if stage is not None:
            steps += stage.gathers + stage.shuffles
    return _accesses(plan.store) + _accesses(plan.load) + steps


def _as_they_are(plan: SharedPlan) -> int:
    """Instructions of a plan that puts together what its stores take, and takes apart what its loads bring."""
    stored, loaded = (_accesses(side) for side in (plan.store, plan.load))
    packed = stored * (plan.store.slots - max(1, plan.store.slots // plan.per_word))
    return stored + loaded + packed + (loaded * plan.load.slots if plan.load.slots > 1 else 0)


def _accesses(side: MemorySide) -> int:
    return sum(map(len, side.rounds))
