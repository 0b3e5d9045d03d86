"""From a TritonGPU module to one in which the code of its conversions stands where they were.

Nothing here is imported before the first kernel that has a conversion: MLIR comes in with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from triton_linear.interfaces import Module
from triton_linear.lowering.strategies import LINEAR
from triton_linear.report import TRITON, Clock, Conversion, Gather

if TYPE_CHECKING:
    from triton_linear.lowering.targets import Target
    from triton_linear.passes.driver import Converted, Gathered

_POSITION = re.compile(r'"([^"]+)":(\d+)(?::\d+)?')


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel after the passes.

    module: what the backend is to compile, or None if nothing of it would differ from the stock kernel.
    conversions: what becomes of each conversion that was left after folding.
    scratch: the bytes of scratch of each conversion that is ours.
    budget: bytes of shared memory that `module` may need, where scratch takes more than it must, else None.
    gathers: what becomes of each gather.
    detours: accesses to shared memory that go by way of another layout.
    awaited: whether products are waited for whose operands Triton has overwritten while they are read.
    """

    module: Module | None
    conversions: tuple[Conversion, ...]
    scratch: tuple[int, ...]
    budget: int | None = None
    gathers: tuple[Gather, ...] = ()
    detours: int = 0
    awaited: bool = False


def prepare(
    module: Module,
    seen: int,
    target: Target,
    scratch_limit: int | None,
    clock: Clock,
    apart: bool = True,
    *,
    assign: bool = True,
    reductions: bool = True,
    lower: bool = True,
    lowering: str = LINEAR,
) -> Prepared:
    """Run the passes over a copy of `module`, which has `seen` conversions and stays as it is.

    `apart` lets scratch take more than it must, where that saves barriers; `assign`, `reductions`, `lower` and
    `lowering` are as in the options.
    """
    with clock.phase("import"):
        from triton_linear.dialect import bridge
        from triton_linear.lowering.embed import embed
        from triton_linear.passes import driver
        from triton_linear.passes.split_reductions import spares_memory

    with clock.phase("to MLIR"):
        upstream = bridge.to_upstream(module, bridge.upstream_context())
    with clock.phase("passes"):
        result = driver.run_linear_pipeline(
            upstream,
            target,
            scratch_limit,
            assign=assign,
            reductions=reductions,
            lower=lower,
            lowering=lowering,
            remarks=False,
        )
    conversions = tuple(map(_conversion, result.conversions))
    gathers = tuple(map(_gather, result.gathers))
    changed = result.plans or result.gather_stubs or result.changed or result.detours
    if not changed and (not lower or len(conversions) == seen):
        return Prepared(None, conversions, (), gathers=gathers)
    with clock.phase("embed"):
        stubs = {name: (stub.plan, stub.signature) for name, stub in result.gather_stubs.items()}
        text, warps = bridge.triton_text(upstream), module.get_int_attr("ttg.num-warps")
        sparing = spares_memory(upstream, target)
        embedded = embed(text, result.plans, target, warps, apart, stubs, sparing=sparing)
    with clock.phase("to Triton"):
        converted = cast(Module, bridge.parse_triton(embedded.text, module.context))
    plans = (*result.plans.values(), *(stub.plan for stub in result.gather_stubs.values()))
    scratch = tuple(plan.scratch_bytes for plan in plans)
    detours, awaited = result.detours, result.awaited
    return Prepared(converted, conversions, scratch, embedded.budget, gathers, detours, awaited)


def prepare_free(module: Module, target: Target, only: int | None, clock: Clock) -> Prepared:
    """A copy of `module` in which conversions of floats cost nothing and give garbage; `only`: that one."""
    with clock.phase("import"):
        from triton_linear.dialect import bridge
        from triton_linear.lowering.embed import embed
        from triton_linear.passes import driver

    with clock.phase("to MLIR"):
        upstream = bridge.to_upstream(module, bridge.upstream_context())
    with clock.phase("passes"):
        result = driver.run_free_pipeline(upstream, target, only)
    conversions = tuple(map(_conversion, result.conversions))
    if not result.plans:
        return Prepared(None, conversions, ())
    with clock.phase("embed"):
        text = bridge.triton_text(upstream)
        embedded = embed(text, result.plans, target, module.get_int_attr("ttg.num-warps"))
    with clock.phase("to Triton"):
        converted = cast(Module, bridge.parse_triton(embedded.text, module.context))
    return Prepared(converted, conversions, ())


def _conversion(found: Converted) -> Conversion:
    lowering = TRITON if found.kind == "stock" else found.kind
    place = _place(found.location)
    return Conversion(place, found.source, found.destination, lowering, found.detail, found.partials)


def _gather(found: Gathered) -> Gather:
    lowering = TRITON if found.kind == "stock" else found.kind
    return Gather(_place(found.location), found.source, found.index, lowering, found.detail)


def _place(location: str) -> str:
    """File and line, if a location says them."""
    position = _POSITION.search(location)
    return f"{position[1]}:{position[2]}" if position else location
