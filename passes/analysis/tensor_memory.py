"""Loads from tensor memory and stores to it: their instructions and their costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import RankedTensorType, Type
from triton_linear.dialect.partitions import PARTITIONS, WARP_SPECIALIZE
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT, Release
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_layouts import layouts_for
from triton_linear.lowering.planners.tensor_memory import THREAD_REGISTERS, TensorAccess, access_of
from triton_linear.lowering.target.tensor_memory import COL, QUARTER_BASES, SHAPES, WORD_BITS
from triton_linear.passes.framework.layouts import LayoutTable, memory_of
from triton_linear.passes.operations.names import MODULE, TENSOR_ALLOC, TENSOR_LOAD, TENSOR_STORE

_SPACE: Final = "#ttng.tensor_memory"
_MOST: Final = "ttg.maxnreg"
_REGION_REGISTERS: Final = "actualRegisters"


@dataclass(frozen=True, slots=True)
class TensorSite:
    """An access to tensor memory: the types of the tensor in registers and of the memory.

    most: the most registers that a thread has at this place.
    """

    registers: Type
    memory: Type
    is_store: bool
    most: int

    def is_served(self, table: LayoutTable, release: Release) -> bool:
        """True if this release's instruction for the present layout is known; then other layouts can be priced
        too."""
        described = memory_of(self.memory)
        return (
            release in TENSOR_MEMORY_BY_LAYOUT
            and described is not None
            and self.bits <= WORD_BITS
            and isinstance(self.access(table), TensorAccess)
        )

    @property
    def bits(self) -> int:
        """Bits of an element; 0 if the memory's type is not known."""
        described = memory_of(self.memory)
        return 0 if described is None else element_type(described[1]).bits

    def layouts(self, warps: int) -> Iterator[LinearLayout]:
        """Layouts of the registers that instructions can access, by instruction shape. Requires:
        `is_served`."""
        memory = _part(self.memory)
        if memory is not None:
            for _, layout in layouts_for(memory, self.bits, warps):
                yield layout

    def clocks(self, layout: LinearLayout) -> float:
        """Clocks of a warp for the access in a layout, if each row of the memory gives one word per clock; 0 if
        no instruction fits the layout.

        This model was not measured, so no layout is priced below the present one. Triton chose that for what
        takes the tensor, rows of a reduction inside a warp for instance: a faster access alone is no reason to
        change it.
        """
        table = LayoutTable()
        clocks = [_clocks(self.access_in(layout, table)), _clocks(self.access(table))]
        return max(clocks) if clocks[0] else 0.0

    def access(self, table: LayoutTable) -> TensorAccess | Rejected:
        """The instructions for the present layout of the registers, or why there are none."""
        layout = table.of(self.registers)
        if not isinstance(layout, LinearLayout):
            return Rejected("tensor memory", f"the registers have no layout: {layout}")
        return self.access_in(layout, table)

    def access_in(self, layout: LinearLayout, table: LayoutTable) -> TensorAccess | Rejected:
        """The instructions for another layout of the registers, or why there are none."""
        memory, described = table.of(self.memory), memory_of(self.memory)
        if not isinstance(memory, LinearLayout) or described is None:
            return Rejected("tensor memory", f"the memory has no layout: {memory}")
        return access_of(layout, memory, element_type(described[1]).bits, self.most)


def site_of(op: Any) -> TensorSite | None:
    """The access of an operation to tensor memory; None for all other operations, and for a load that also
    reduces."""
    if op.name not in (TENSOR_LOAD, TENSOR_STORE, TENSOR_ALLOC):
        return None
    results, operands = list(op.results), list(op.operands)
    tensors = [value for value in (results if op.name == TENSOR_LOAD else operands) if _is_tensor(value)]
    memories = [value for value in (results if op.name == TENSOR_ALLOC else operands) if _is_memory(value)]
    if len(tensors) != 1 or len(memories) != 1:
        return None
    return TensorSite(tensors[0].type, memories[0].type, op.name != TENSOR_LOAD, thread_registers(op))


def _clocks(access: TensorAccess | Rejected) -> float:
    """`TensorSite.clocks` of these instructions; 0 if there are none."""
    if isinstance(access, Rejected):
        return 0.0
    rows = next(shape.rows for shape in SHAPES if shape.name == access.shape)
    return float(access.registers * QUARTER_BASES[0][0] // rows)


def _part(memory: Type) -> LinearLayout | None:
    """The layout of the part of tensor memory that a descriptor describes, which may leave out columns; None if
    it leaves out anything else."""
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
    """The most registers that a thread has at `op`: what Triton states for its warp-specialised region, if it
    does, and never more than it states for the module."""
    most, inside, found = THREAD_REGISTERS, op, None
    parent = op.parent
    while parent is not None:
        if found is None and parent.name in (WARP_SPECIALIZE, PARTITIONS):
            found = _region_registers(inside, parent)
        if parent.name == MODULE and _MOST in parent.attributes:
            most = min(most, parent.attributes[_MOST].value)
        inside, parent = parent, parent.parent
    return most if found is None else min(most, found)


def _region_registers(inside: Any, parent: Any) -> int | None:
    """Registers of the region of `parent` that contains `inside`, or None. The default region comes first."""
    holds = parent if parent.name == WARP_SPECIALIZE else parent.parent
    if _REGION_REGISTERS not in holds.attributes:
        return None
    index = 0
    if parent.name != WARP_SPECIALIZE:
        blocks = [[block == inside.block for block in region.blocks] for region in parent.regions]
        index = 1 + next(number for number, found in enumerate(blocks) if any(found))
    return int(list(holds.attributes[_REGION_REGISTERS])[index])
