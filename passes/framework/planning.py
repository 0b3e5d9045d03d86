"""Options and helpers of passes that plan conversions: the GPU to plan for, and the limit of scratch."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType
from triton_linear.dialect.partitions import WARP_SPECIALIZE
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.policy import UNBOUNDED
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target, target
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.layouts import words_of
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.operations.names import DESCRIPTOR_LOAD, DOTS, FUNCTION, LOAD, LOCAL_LOAD

NUM_WARPS: Final = "ttg.num-warps"
NO_WARPS: Final = "the module has no 'ttg.num-warps'"
UNORDERED: Final = (
    "{} CTAs share their memory, and this Triton does not have code like ours wait for the others' loads"
)
"""Why this package emits no code with scratch in a cluster of several CTAs (`CLUSTERS_ORDERED`)."""


def target_field() -> str | None:
    """The option `target` of a pass: the GPU."""
    return field(default=None, metadata={"help": "GPU to plan for; the module's own by default"})


@dataclass(frozen=True)
class Planning(Pass):
    """The options of a pass that plans conversions."""

    target: str | None = target_field()
    scratch_limit: int | None = field(
        default=None,
        metadata={"help": "bytes of shared memory that a plan may use where it can do with less"},
    )

    def situation(self, module: Operation, pass_: Any) -> Situation | None:
        """What to plan for, with the warps of one CTA if the module has a large tensor.

        None if the GPU is not known: then an error is reported and the pass fails.
        """
        gpu = find_target(self.name, module, self.target, pass_)
        if gpu is None:
            return None
        look_for_large_tensors(module, gpu, pass_)
        return situation_of(gpu, pass_.plans, self.scratch_limit)


def find_target(asking: str, module: Operation, name: str | None, pass_: PassRun) -> Target | None:
    """The target called `name`, or the module's own if that is None. None if it is not known: then an error of
    the pass that is `asking` is reported, and the pass fails."""
    try:
        if name is None and "ttg.target" not in module.attributes:
            raise ValueError("module has no 'ttg.target' and the pass no 'target' option")
        return target(module.attributes["ttg.target"].value if name is None else name)
    except ValueError as error:
        diagnostics.error(module, f"{asking}: {error}")
        pass_.signal_pass_failure()
        return None


_HELD: Final = DOTS | {LOAD, LOCAL_LOAD, DESCRIPTOR_LOAD}
"""Operations whose integers a thread holds in registers."""


def look_for_large_tensors(module: Operation, gpu: Target, pass_: PassRun) -> None:
    """Record in the plans of a run if a thread holds a tensor of `Policy.large_tensor` registers or more.

    The first pass of a run decides for all passes. Pointers do not count, nor do integers that are neither
    loaded nor results of dots: offsets and masks are computed where they are used, so that a thread does not
    hold all of them at once.
    """
    least, plans = gpu.policy.large_tensor, pass_.plans
    if plans.has_large_tensor is not None or least == UNBOUNDED:
        return
    ops = pass_.operations(module)
    held = {type_ for op in ops if op.name in _HELD for type_ in op.results.types}
    plans.has_large_tensor = any(
        words_of(type_, pass_.layouts) >= least
        for type_ in {each for op in ops for each in op.results.types}
        if isinstance(type_, RankedTensorType)
        and (type_ in held or str(type_.element_type).startswith(("f", "bf")))
    )


def situation_of(gpu: Target, plans: Plans, scratch_limit: int | None) -> Situation:
    """What a run plans for: the warps of one CTA are resident if the kernel has a large tensor."""
    found = Situation.on(gpu, scratch_limit)
    return found.with_warps(0) if plans.has_large_tensor else found


def function_of(op: Operation) -> str:
    """The name of the function that an operation is in."""
    at = op.parent
    while at is not None and at.name != FUNCTION:
        at = at.parent
    return "" if at is None else str(at.attributes["sym_name"].value)


def exact_field() -> bool:
    """The option `exact` of a pass: results keep the bits of stock Triton's."""
    return field(
        default=False, metadata={"help": "leave what decides about bits of floats as it is; false by default"}
    )


def distinct_field() -> bool:
    """The option `distinct` of a pass: arguments of the kernel lead to different memory."""
    return field(default=True, metadata={"help": "loads may pass stores by other arguments; true by default"})


def ctas_of(module: Operation) -> int:
    """The number of CTAs of a cluster."""
    attributes = module.attributes
    return int(attributes["ttg.num-ctas"].value) if "ttg.num-ctas" in attributes else 1


def warps_of(module: Operation) -> int:
    """The number of warps of a CTA outside of partitions; 1 if the module does not state it."""
    attributes = module.attributes
    return int(attributes[NUM_WARPS].value) if NUM_WARPS in attributes else 1


def unfit(module: Operation, ops: list[Operation]) -> str | None:
    """Why a pass leaves the whole module as it is, whatever its tensors; None if it does not."""
    if NUM_WARPS not in module.attributes:
        return NO_WARPS
    if ctas_of(module) > 1:
        return "it has several CTAs a cluster"
    if any(op.name == WARP_SPECIALIZE for op in ops):
        return "it has warp-specialised regions"
    return None
