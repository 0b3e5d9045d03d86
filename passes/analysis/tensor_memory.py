"""Loads from tensor memory and stores to it: what they take, and which instructions serve them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import RankedTensorType, Type
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT, installed_release
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_layouts import layouts_for
from triton_linear.lowering.planners.tensor_memory import THREAD_REGISTERS, TensorAccess, access_of
from triton_linear.lowering.target.tensor_memory import COL, QUARTER_BASES, SHAPES, WORD_BITS
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

    def is_served(self, table: LayoutTable) -> bool:
        """Whether what serves it as it is can be told, and other layouts may be asked about."""
        described = memory_of(self.memory)
        return (
            installed_release() in TENSOR_MEMORY_BY_LAYOUT
            and described is not None
            and self.bits <= WORD_BITS
            and isinstance(self.access(table), TensorAccess)
        )

    @property
    def bits(self) -> int:
        """The width of an element."""
        described = memory_of(self.memory)
        return 0 if described is None else element_type(described[1]).bits

    def layouts(self, warps: int) -> Iterator[LinearLayout]:
        """Layouts of the registers that an instruction of each shape serves. Requires: it is served."""
        memory = _part(self.memory)
        if memory is not None:
            for _, layout in layouts_for(memory, self.bits, warps):
                yield layout

    def clocks(self, layout: LinearLayout) -> float:
        """Clocks of a warp for the access in a layout, in which each row of the memory gives a word at once; 0
        where nothing serves the layout. None was measured."""
        found = self.access_in(layout, LayoutTable())
        if isinstance(found, Rejected):
            return 0.0
        rows = next(shape.rows for shape in SHAPES if shape.name == found.shape)
        return float(found.registers * QUARTER_BASES[0][0] // rows)

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


def _part(memory: Type) -> LinearLayout | None:
    """The layout of what a descriptor of tensor memory describes, without the columns that it leaves out; None
    where it leaves out others."""
    whole, described = LayoutTable().of(memory), memory_of(memory)
    if not isinstance(whole, LinearLayout) or described is None:
        return None
    sizes = described[0][-len(whole.out_dims) :]
    for (name, size), wanted in zip(whole.out_dims, sizes, strict=True):
        if wanted > size or (wanted < size and name == whole.out_dim_names[0]):
            return None
    kept = []
    for name, vectors in whole.bases:
        inside = [basis for basis in vectors if all(at < size for at, size in zip(basis, sizes, strict=True))]
        if name != COL and len(inside) != len(vectors):
            return None
        kept.append((name, tuple(inside)))
    return LinearLayout.fitted(tuple(kept), tuple(zip(whole.out_dim_names, sizes, strict=True)))


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
