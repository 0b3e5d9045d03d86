"""Instructions to move bytes that arithmetic keeps one to a register: packed into words, or unpacked.

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
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan
from triton_linear.lowering.planners.conversion import conversion
from triton_linear.lowering.planners.shared import plan_by_vectors
from triton_linear.lowering.target.targets import Target


def additional_instructions(
    plan: SharedPlan, src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target
) -> int:
    """Instructions that a plan takes beyond those of a plan without words; 0 if it takes no more.

    Requires: elements of a byte, one to a register in both layouts.
    """
    plain = plan_by_vectors(conversion(src, dst), plan.scope, element, target)
    return max(0, _instructions_with_words(plan) - _instructions_without_words(plain))


def _instructions_with_words(plan: SharedPlan) -> int:
    """Instructions of a plan by words, with packing before it and unpacking behind it."""
    steps = len(stored_words(plan).steps) + len(loaded_words(plan).steps)
    for stage in (plan.before, plan.after):
        if stage is not None:
            steps += stage.gathers + stage.shuffles
    packed = plan.source_registers - max(1, plan.source_registers // plan.per_word)
    taken_apart = len(plan.outputs) if len(plan.outputs) > 1 else 0
    return _accesses(plan.store) + _accesses(plan.load) + steps + packed + taken_apart


def _instructions_without_words(plan: SharedPlan) -> int:
    """Instructions of a plan that packs the registers of each store and unpacks those of each load."""
    stored, loaded = (_accesses(side) for side in (plan.store, plan.load))
    packed = stored * (plan.store.slots - max(1, plan.store.slots // plan.per_word))
    return stored + loaded + packed + (loaded * plan.load.slots if plan.load.slots > 1 else 0)


def _accesses(side: MemorySide) -> int:
    return sum(map(len, side.rounds))
