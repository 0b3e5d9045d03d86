"""Replace the conversions of a TritonGPU module by emitted code.

The plugin compiles the result of `prepare`; the tools show or check it. This file imports MLIR, so the plugin
imports it only at the first kernel that may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.dialect.partitions import WARP_SPECIALIZE
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.emit.embed import embed
from triton_linear.lowering.plan.plans import Stub
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.conversions.stubs import with_limit
from triton_linear.passes.framework.planning import situation_of
from triton_linear.passes.framework.plans import STOCK, DecidedConversion
from triton_linear.passes.framework.run import PipelineRun
from triton_linear.passes.operations.names import CALL, GLOBAL_ACCESSES
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import Rewritten, rewrite
from triton_linear.passes.screen import are_short, screened

LEAST_SCRATCH = 0
"""A scratch limit below what any plan needs, so that each plan takes the least it can."""
EXHAUSTED = "shared memory is exhausted"


@dataclass(frozen=True)
class Attempt:
    """A version of a kernel with emitted code.

    text: the module. stubs: the stubs whose code it has. room: the bytes of shared memory that it may need.
    scratch: in words, how much of that is scratch of emitted code. apart: no two stubs share bytes of scratch.
    """

    text: str
    stubs: Mapping[str, Stub]
    room: int
    scratch: str
    apart: bool


@dataclass(frozen=True)
class Prepared:
    """A module after the passes. options: those of the passes. differs: the module or its code differs from the
    stock kernel.
    """

    module: Module
    target: Target
    options: PipelineOptions
    rewritten: Rewritten
    differs: bool

    def attempts(self, module: Module | None = None) -> Iterator[Attempt]:
        """The versions to compile in turn, until one needs at most its `room` of shared memory.

        The first version uses more scratch than necessary, within an estimated budget, if that saves barriers.
        In the second, stubs share bytes of scratch. In the last, every plan takes the least it can. `module`: a
        module with only some of the kernels; None for all.
        """
        stubs = dict(self.rewritten.stubs)
        limit, most = self.options.scratch_limit, self.target.max_shared_bytes
        usual = "the default scratch" if limit is None else f"scratch limited to {limit} bytes"
        text, budget = self._embedded(stubs, module, apart=True)
        if budget is not None:
            yield Attempt(text, stubs, min(most, budget), "scratch that shares no bytes", apart=True)
            text, _ = self._embedded(stubs, module, apart=False)
        yield Attempt(text, stubs, most, usual, apart=False)
        # With both warp-specialised regions and calls, emitted code must not need barriers of all warps.
        ops = operations(self.module.operation)
        calls = any(op.name == CALL and op.attributes["callee"].value not in stubs for op in ops)
        all_warps = not (calls and any(op.name == WARP_SPECIALIZE for op in ops))
        least_room = situation_of(self.target, self.rewritten.run.plans, LEAST_SCRATCH)
        smaller = {name: with_limit(stub, least_room, all_warps=all_warps) for name, stub in stubs.items()}
        if smaller != stubs:
            text, _ = self._embedded(smaller, module, apart=False)
            least = f"scratch limited to {LEAST_SCRATCH} bytes"
            yield Attempt(text, smaller, most, least, apart=False)

    def _embedded(
        self, stubs: Mapping[str, Stub], module: Module | None, apart: bool
    ) -> tuple[str, int | None]:
        sparing = self.rewritten.spares_memory
        found = embed(module or self.module, stubs, Situation.on(self.target), apart=apart, sparing=sparing)
        return found.text, found.budget

    def conversions(self, attempt: Attempt | None) -> tuple[DecidedConversion, ...]:
        """The decision for each conversion in an attempt; None: the stock kernel is compiled."""
        return tuple(self.in_attempt(found, attempt) for found in self.rewritten.conversions)

    def in_attempt(self, found: DecidedConversion, attempt: Attempt | None) -> DecidedConversion:
        """The decision for one conversion in an attempt; None: the stock kernel is compiled."""
        if attempt is None and self.differs:
            return replace(found, kind=STOCK, detail=EXHAUSTED, stub=None)
        if attempt is None or found.stub is None:
            return found
        plan = attempt.stubs[found.stub].plan
        return replace(found, kind=plan.kind, detail=plan.summary())


def prepare(
    module: Module, options: PipelineOptions | None, target: Target, *, remarks: bool = False
) -> Prepared:
    """Run the passes over `module`, in place.

    Requires: `options` are those that remain after screening the module; None: no pass can change it.
    """
    if options is None:
        return Prepared(module, target, PipelineOptions(), Rewritten(PipelineRun.of_nothing()), differs=False)
    found = rewrite(module, options, target, remarks=remarks)
    own = sum(not one.made for one in found.conversions)
    folds = options.lower and own != found.seen
    differs = bool(found.stubs or found.changed or folds)
    return Prepared(module, target, options, found, differs)


def concerning(options: PipelineOptions, module: Module) -> PipelineOptions | None:
    """The part of `options` that can change a module of upstream MLIR; None if nothing can.

    Ensures: the result is what the plugin finds by screening the same module in libtriton's MLIR."""
    ops = operations(module.operation)

    def has_short_rows() -> bool:
        accesses = (op for op in ops if op.name in GLOBAL_ACCESSES)
        return are_short(" ".join(str(operand.type) for operand in op.operands) for op in accesses)

    return screened(options, Counter(op.name for op in ops), has_short_rows)
