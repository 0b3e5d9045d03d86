"""Loads from tensor memory and stores to it: what they take, and which instructions serve them."""

from __future__ import annotations

from typing import Any, Final

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import RankedTensorType, Type
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_memory import THREAD_REGISTERS, TensorAccess, access_of
from triton_linear.passes.framework.layouts import LayoutTable, memory_of

LOAD: Final = "ttng.tmem_load"
STORE: Final = "ttng.tmem_store"
ALLOC: Final = "ttng.tmem_alloc"
_SPACE: Final = "#ttng.tensor_memory"
_MOST: Final = "ttg.maxnreg"
_REGIONS: Final = "actualRegisters"


@dataclass(frozen=True, slots=True)
class TensorSite:
    """Where a tensor goes between registers and tensor memory: the types of both, and the most registers that a
    thread has there."""

    registers: Type
    memory: Type
    is_store: bool
    most: int

    def access(self, table: LayoutTable) -> TensorAccess | Rejected:
        """What serves it as it is."""
        layout = table.of(self.registers)
        if not isinstance(layout, LinearLayout):
            return Rejected("tensor memory", f"the registers have no layout: {layout}")
        return self.access_in(layout, table)

    def access_in(self, layout: LinearLayout, table: LayoutTable) -> TensorAccess | Rejected:
        """What serves it in another layout of the registers."""
        memory, described = table.of(self.memory), memory_of(self.memory)
        if not isinstance(memory, LinearLayout) or described is None:
            return Rejected("tensor memory", f"the memory has no layout: {memory}")
        return access_of(layout, memory, element_type(described[1]).bits, self.most)


def site_of(op: Any) -> TensorSite | None:
    """The access that an operation is; None for every other one, and for a load that reduces as well."""
    if op.name not in (LOAD, STORE, ALLOC):
        return None
    results, operands = list(op.results), list(op.operands)
    tensors = [value for value in (results if op.name == LOAD else operands) if _is_tensor(value)]
    memories = [value for value in (results if op.name == ALLOC else operands) if _is_memory(value)]
    if len(tensors) != 1 or len(memories) != 1:
        return None
    return TensorSite(tensors[0].type, memories[0].type, op.name != LOAD, thread_registers(op))


def _is_tensor(value: Any) -> bool:
    return isinstance(value.type, RankedTensorType)


def _is_memory(value: Any) -> bool:
    return _SPACE in str(value.type)


def thread_registers(op: Any) -> int:
    """The most registers that a thread has there, as Triton tells it: by the region of a warp-specialised
    operation, if it says so, and never more than the module says."""
    most, inside, found = THREAD_REGISTERS, op, None
    parent = op.parent
    while parent is not None:
        if found is None and parent.name in ("ttg.warp_specialize", "ttg.warp_specialize.partitions"):
            found = _of_region(inside, parent)
        if parent.name == "builtin.module" and _MOST in parent.attributes:
            most = min(most, parent.attributes[_MOST].value)
        inside, parent = parent, parent.parent
    return most if found is None else min(most, found)


def _of_region(inside: Any, parent: Any) -> int | None:
    """Registers of the region of `parent` that `inside` stands in; the default region is the first."""
    holds = parent if parent.name == "ttg.warp_specialize" else parent.parent
    if _REGIONS not in holds.attributes:
        return None
    index = 0
    if parent.name != "ttg.warp_specialize":
        blocks = [[block == inside.block for block in region.blocks] for region in parent.regions]
        index = 1 + next(number for number, found in enumerate(blocks) if any(found))
    return int(list(holds.attributes[_REGIONS])[index])
