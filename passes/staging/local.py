"""Lets accesses to shared memory go by way of layouts in which they are cheap."""

from __future__ import annotations

from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    InsertionPoint,
    Operation,
    StringAttr,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis.accumulators import changed_signs
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.global_memory import encoding_text
from triton_linear.passes.analysis.residency import Residency
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.building import create, tensor
from triton_linear.passes.framework.layouts import LayoutTable, Unknown, element_of, memory_of
from triton_linear.passes.framework.planning import Planning, exact_field, unfit, warps_of
from triton_linear.passes.operations.names import CONVERT, LOCAL_LOAD
from triton_linear.passes.reductions.held import HELD, KeptBits, takes_held
from triton_linear.passes.staging.choice import Direct, Staging, are_words, staging_for
from triton_linear.passes.staging.owned import is_access, sides_of

_PADDED = "#ttg.padded_shared"
_SIGN = "it takes what `wgmma` left with its sign changed; a conversion of that is left to Triton as well"
_PARTITIONED = "#ttg.partitioned_shared"


@dataclass(frozen=True)
class LowerLocal(Planning):
    """Lets accesses to shared memory go by way of layouts in which they are cheap.

    A `ttg.local_load`, `ttg.local_store` or a `ttg.local_alloc` with contents is lowered by Triton for the
    layout that its tensor has. Where another layout of the same elements in the same warps, with a conversion
    inside the warps, takes fewer clocks by the models of both, the access gets that layout, and a conversion
    is put behind a load or before a store.

    Requires: one CTA a cluster, no warp-specialised regions; other modules are left as they are, with a remark.
    Ensures: values keep their layouts; the module computes what it did. An access that changed has
    `ll.staged`, which says what it saves.

        %1 = ttg.local_load %m : ... -> #wanted
        %0 = ttg.local_load %m : ... -> #cheap ; %1 = ttg.convert_layout %0 : #cheap -> #wanted
    """

    name: ClassVar[str] = "linear-lower-local"
    summary: ClassVar[str] = "let accesses to shared memory go by way of layouts in which they are cheap"

    exact: bool = exact_field()

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        accesses = [inner for inner in ops if is_access(inner)]
        situation = self.situation(op, pass_) if accesses else None
        if situation is None:
            return False
        if reason := unfit(op, list(ops)):
            diagnostics.remark(op, f"accesses to shared memory are left to Triton: {reason}")
            return False
        table = pass_.layouts
        situation = Residency.of(situation, ops, warps_of(op), table).situation
        signs = changed_signs(ops)
        held = KeptBits.of(op, pass_, exact=self.exact).held
        chosen: list[tuple[Operation, Staging]] = []
        for access in accesses:
            choice = self.decide(access, situation, table)
            if isinstance(choice, Staging) and any(operand in signs for operand in access.operands):
                choice = Direct(_SIGN)
            if isinstance(choice, Staging) and takes_held(access, held):
                choice = Direct(HELD)
            if isinstance(choice, Staging):
                chosen.append((access, choice))
                diagnostics.remark(access, f"access by way of another layout: {choice.summary()}")
            elif not choice.is_least:
                diagnostics.remark(access, f"access left to Triton: {choice.reason}")
        if not chosen:
            return False
        with Numbering().same(op, "other accesses"):
            for access, choice in chosen:
                _reroute(access, choice)
        for access, choice in chosen:
            access.attributes[ll.STAGED] = StringAttr.get(choice.summary(), op.context)
        return None

    def decide(self, access: Operation, situation: Situation, table: LayoutTable) -> Staging | Direct:
        """How an access is staged, or why it is not."""
        registers, memory = sides_of(access)
        wanted, placed = table.of(registers.type), table.of(memory.type)
        if isinstance(wanted, Unknown | None) or isinstance(placed, Unknown | None):
            unknown = wanted if isinstance(wanted, Unknown) else placed
            return Direct(unknown.reason if isinstance(unknown, Unknown) else "it is no tensor")
        described = memory_of(memory.type)
        if described is None or described[2].startswith((_PADDED, _PARTITIONED)):
            return Direct("memory with padding or partitions is no linear layout")
        try:
            element = element_of(registers.type)
        except ValueError as error:
            return Direct(str(error))
        if any(hint in access.attributes for hint in HINTS):
            return Direct("it promises something of its elements, which Triton has to see")
        is_store = access.name != LOCAL_LOAD
        shape = tuple(registers.type.shape)
        local = LocalAccess.of(placed, shape, element.memory_bytes, is_store)
        if local is None:
            return Direct("offsets in memory are no linear function of the tensor's coordinates")
        gpu = situation.gpu
        if wanted.in_dim_size("lane") != gpu.lanes:
            return Direct(f"the layout has {wanted.in_dim_size('lane')} lanes, {gpu.name} has {gpu.lanes}")
        return staging_for(local, wanted, element, situation, is_store or are_words(access.results[0]))


def _reroute(access: Operation, choice: Staging) -> None:
    """Give an access the layout that it is staged in."""
    registers, _ = sides_of(access)
    wanted, cheap = registers.type, tensor(registers.type, encoding_text(choice.layout))
    if access.name == LOCAL_LOAD:
        ip, sides = InsertionPoint.after(access), (registers, wanted)
        registers.set_type(cheap)
    else:
        ip, sides = InsertionPoint(access), (registers, cheap)
    conversion = create(CONVERT, [sides[0]], [sides[1]], ip, access.location)
    if access.name == LOCAL_LOAD:
        registers.replace_all_uses_except(conversion.results[0], conversion)
    else:
        access.operands[0] = conversion.results[0]
