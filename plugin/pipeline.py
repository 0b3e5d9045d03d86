"""From a TritonGPU module to one whose conversions are calls of stubs, and from stubs to emitted bodies.

Nothing here is imported before the first kernel that has a conversion: MLIR comes in with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from triton_linear.interfaces import Module
from triton_linear.report import Clock, Conversion

if TYPE_CHECKING:
    from triton_linear.lowering.plan import Plan
    from triton_linear.lowering.targets import Target


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel after the passes.

    module: what the backend is to compile, or None if the passes found nothing of ours in it.
    plans: the plan of each outlined stub, by the stub's name.
    conversions: what became of each conversion that was left after folding.
    """

    module: Module | None
    plans: Mapping[str, Plan]
    conversions: tuple[Conversion, ...]


def prepare(module: Module, target: Target, scratch_limit: int | None, clock: Clock) -> Prepared:
    """Run the passes over a copy of `module`, which stays as it is."""
    with clock.phase("import"):
        from triton_linear.dialect import bridge
        from triton_linear.passes import driver

    context = bridge.upstream_context()
    with clock.phase("to MLIR"):
        upstream = bridge.to_upstream(module, context)
    with clock.phase("passes"):
        outcome = driver.convert(upstream, target, scratch_limit)
    with clock.phase("to Triton"):
        converted = cast(Module, bridge.to_triton(upstream, module.context))
    return Prepared(converted, outcome.plans, ())


def splice(llvm_dialect: object, prepared: Prepared) -> object:
    """The LLVM-dialect module with the body of every stub of `prepared` replaced by what its plan emits."""
    from triton_linear.dialect import bridge
    from triton_linear.lowering import splice as lowering_splice

    assert prepared.module is not None
    text = lowering_splice.splice(str(llvm_dialect), prepared.plans)
    return bridge.parse_triton(text, prepared.module.context)
