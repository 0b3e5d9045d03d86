"""Instructions to move predicates that arithmetic keeps one to a register: as bytes in words, or one by one.

Three permutes pack four registers into a word, and four unpack it. A plan by words permutes these words again,
for its accesses and shuffles. A plan without words packs only the registers of one access, in any order, and
unpacks what a load brings; accesses of a byte need neither. A GPU has half as many lanes for permutes as for
other instructions, so that permutes dominate in kernels that compute with bytes. This file therefore counts
instructions, not clocks.
"""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.packing import loaded_words, stored_words
from triton_linear.lowering.plan.plans import SharedPlan, ShufflePlan
from triton_linear.lowering.planners.conversion import conversion
from triton_linear.lowering.planners.shared import plan_by_vectors
from triton_linear.lowering.target.targets import Target


def additional_instructions(
    plan: SharedPlan | ShufflePlan, src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target
) -> int:
    """Instructions that a plan takes beyond those of an exchange through shared memory without words; 0 if
    that is not too many.

    Shuffles have no barrier and less latency, so they may take up to `Policy.loose_shuffles` times as many, and
    those of a single word any number.

    Requires: elements of i1, each of which takes a byte of memory.
    """
    scope = plan.scope if isinstance(plan, SharedPlan) else "warp"
    plain = _instructions_without_words(plan_by_vectors(conversion(src, dst), scope, element, target))
    if isinstance(plan, SharedPlan):
        packing = _packing(plan.source_registers, len(plan.outputs), plan.per_word)
        return max(0, _instructions_with_words(plan) + packing - plain)
    packing = _packing(plan.source_registers, plan.destination_registers, plan.slots)
    words = plan.gathers + sum(plan.moving(target)) + packing
    is_many = plan.source_registers > plan.slots and words >= target.policy.loose_shuffles * plain
    return words - plain if is_many else 0


def _packing(given: int, made: int, per_word: int) -> int:
    """Permutes that pack bytes into words before a plan and unpack them behind it."""
    return given - max(1, given // per_word) + (made if made > 1 else 0)


def _instructions_with_words(plan: SharedPlan) -> int:
    """Instructions of a plan between the words of its source and those of its destination."""
    steps = len(stored_words(plan).steps) + len(loaded_words(plan).steps)
    for stage in (plan.before, plan.after):
        if stage is not None:
            steps += stage.gathers + stage.shuffles
    return plan.accesses + steps


def _instructions_without_words(plan: SharedPlan) -> int:
    """Instructions of a plan that packs the registers of each store and unpacks those of each load."""
    stored, loaded = plan.store.accesses, plan.load.accesses
    packed = stored * (plan.store.slots - max(1, plan.store.slots // plan.per_word))
    return stored + loaded + packed + (loaded * plan.load.slots if plan.load.slots > 1 else 0)
