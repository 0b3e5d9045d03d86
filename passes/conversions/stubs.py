"""The stubs of a module: private functions without a body that stand for conversions.

A stub states in attributes what its calls compute, and the run that made it has its plan. A stub that was read
from a file is planned again from its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Plan, Stub, meets_warps
from triton_linear.lowering.planners.select import candidates, select
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.operations.names import FUNCTION

STUB_PREFIX: Final = "__ll_cvt_"
"""What begins the names of stubs."""


class StubError(ValueError):
    """A stub whose plan does not match its attributes, or is not proved."""


def stubs_of(ops: Iterable[Operation], target: Target, plans: Plans) -> dict[str, Stub]:
    """The stubs among the operations of a module, by name. Ensures: every plan is proved.

    Raises StubError for a stub whose plan is not the one for `target`, or is not proved.
    """
    found: dict[str, Stub] = {}
    for op in ops:
        if op.name != FUNCTION or ll.PLAN not in op.attributes:
            continue
        name = op.attributes["sym_name"].value
        stub = plans.stubs.get(name) or _read(op, name, target)
        check(stub, target)
        found[name] = stub
    return found


def check(stub: Stub, target: Target) -> None:
    """Raise StubError unless the stub's plan is proved to give every element its places."""
    if reason := refuted(stub.plan, stub.source, stub.destination, stub.element, target):
        raise StubError(f"stubs: the plan '{stub.plan.kind}' of @{stub.symbol} is not proved: {reason}")


def with_limit(stub: Stub, situation: Situation, *, all_warps: bool) -> Stub:
    """The stub with a plan for another limit of scratch if that uses less scratch; else the stub itself.

    `all_warps`: True if the new plan may use barriers of the whole CTA even if the stub's own plan does not.
    """
    if not stub.plan.scratch_bytes:
        return stub
    plan = select(stub.source, stub.destination, stub.element, situation).plan
    if plan is None:
        return stub
    smaller = replace(stub, plan=plan)
    if smaller.plan.scratch_bytes >= stub.plan.scratch_bytes or (
        meets_warps(smaller.plan) and not (meets_warps(stub.plan) or all_warps)
    ):
        return stub
    check(smaller, situation.gpu)
    return smaller


def _read(op: Operation, name: str, target: Target) -> Stub:
    """Plan the stub that a function's attributes describe."""
    attributes = op.attributes
    element = element_type(attributes[ll.ELEMENT].value)
    source = ll.layout_from_attribute(attributes[ll.SOURCE])
    limit = attributes[ll.SCRATCH_LIMIT].value if ll.SCRATCH_LIMIT in attributes else None
    situation = Situation.on(target, limit)
    destination = ll.layout_from_attribute(attributes[ll.DESTINATION])
    recorded = ll.plan_from_attribute(attributes[ll.PLAN]).kind
    plan: Plan | None = select(source, destination, element, situation).plan
    if plan is None or plan.kind != recorded:
        # The pass that planned it may have known how many warps are resident, which decides between kinds.
        others = candidates(source, destination, element, situation)
        plan = next((other for _, other in others if other.kind == recorded), plan)
    if plan is None or plan.kind != recorded:
        found = "none" if plan is None else f"'{plan.kind}'"
        raise StubError(f"stubs: @{name} was planned as '{recorded}', {target.name} gives {found}")
    return Stub(name, source, destination, element, plan, ll.ACCUMULATORS in attributes)
