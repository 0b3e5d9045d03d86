"""Does epilogues of dots in parts where a thread would not have registers for the whole."""

from __future__ import annotations

from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.encodings import linear_encoding_text
from triton_linear.dialect.mlir_adapter import Operation, UnitAttr, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.registers import BESIDE, estimate, live_by_place
from triton_linear.passes.analysis.tensor_memory import TensorSite, site_of
from triton_linear.passes.epilogues.parts import in_parts, part_of_memory
from triton_linear.passes.epilogues.region import Region, narrowest, region_of
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.planning import NUM_WARPS, unfit
from triton_linear.passes.operations.names import LOCAL_LOAD, TENSOR_LOAD


@dataclass(frozen=True)
class SplitEpilogues(Pass):
    """Does epilogues of dots in parts where a thread would not have registers for the whole.

    What a dot leaves in tensor memory is loaded, worked on element by element and stored to shared memory, all
    columns at once. Each part of the columns can do so by itself, and then a thread holds one part at a time.
    Loads and what is worked on go to where the tensor is stored.

    Requires: one CTA a cluster, no warp-specialised regions; other modules are left as they are.
    Ensures: every element is computed by the operations it was computed by; it is bit-identical. A module that
    changed has `ll.parts`. It changes only where more words of tensors are live than a thread has registers,
    as far as is estimated, and most of them in the epilogue. No more shared memory is live than before.

        %x = ttng.tmem_load %acc : ... -> tensor<128x256xf32, #rows>
        %y = arith.truncf %x : ...
        %b = ttg.local_alloc %y : ...

        %b = ttg.local_alloc : ...
        %acc0 = ttng.tmem_subslice %acc {offset = 0} ...   and so on for each part
        %x0 = ttng.tmem_load %acc0 : ... -> tensor<128x64xf32, #rows0>
        %y0 = arith.truncf %x0 : ...
        ttg.local_store %y0, %b0 : ...
    """

    name: ClassVar[str] = "linear-split-epilogues"
    summary: ClassVar[str] = "do epilogues from tensor memory in parts, where registers do not suffice"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        loads = [inner for inner in ops if inner.name == TENSOR_LOAD]
        if not loads or unfit(op, ops):
            return False
        site = site_of(loads[0])
        live = live_by_place(op)
        needed = BESIDE + max(live.values(), default=0.0)
        if site is None or needed - BESIDE <= site.most:
            return False
        warps, producers = op.attributes[NUM_WARPS].value, producers_of(ops)
        decided: list[tuple[Region, int, str]] = []
        for inner in ops:
            region = region_of(inner, producers)
            if region is not None and _is_fullest(region, live):
                parts = _parts(region, needed, site.most, warps)
                if parts is not None:
                    decided.append((region, *parts))
        said = [f"{region.shape[0]}x{region.shape[1]}" for region, _, _ in decided]
        for region, columns, encoding in decided:
            in_parts(region, producers, columns, encoding)
        if not decided:
            return False
        op.attributes[ll.PARTS] = UnitAttr.get(op.context)
        for shape, (_, columns, _) in zip(said, decided, strict=True) if diagnostics.wanted() else ():
            after = estimate(op)
            diagnostics.remark(
                op,
                f"an epilogue of {shape} is done {columns} columns at a time: a thread needs about "
                f"{needed:.0f} registers before, {after:.0f} after",
            )
        return None


def _is_fullest(region: Region, live: dict[Operation, float]) -> bool:
    """Whether most registers are live where the region is."""
    most = max(live.values())
    block = [view.operation for view in region.sink.block.operations]
    first, last = block.index(region.ops[0]), block.index(region.sink)
    return any(live.get(op, 0.0) >= most for op in block[first : last + 1])


def _parts(region: Region, needed: float, most: int, warps: int) -> tuple[int, str] | None:
    """How many columns to do at a time and how they are laid out, None where there are no parts.

    As many parts as leave half of a thread's registers alone, as Triton has it for one instruction, if columns
    that lie by themselves in shared memory are that few.
    """
    columns = region.shape[1]
    memories = [op.operands[0].type for op in region.ops if op.name == LOCAL_LOAD]
    memories.append(
        region.sink.operands[1].type if len(region.sink.operands) > 1 else region.sink.results[0].type
    )
    fewest = [narrowest(memory) for memory in memories]
    found: tuple[int, str] | None = None
    at_a_time = columns
    while needed * at_a_time > columns * most // 2 or found is None:
        at_a_time //= 2
        if any(few is None or at_a_time < few for few in fewest):
            break
        encoding = _encoding(region, at_a_time, warps)
        if encoding is None:
            break
        found = at_a_time, encoding
    return found


def _encoding(region: Region, columns: int, warps: int) -> str | None:
    """A layout of parts in which every load of the region is served, by the shape that serves the whole."""
    first, table = region.loads[0], LayoutTable()
    sites: list[TensorSite] = []
    for load in region.loads:
        site = site_of(load)
        if site is None or not site.is_served(table):
            return None
        part = part_of_memory(site.memory, columns)
        sites.append(TensorSite(site.registers, part, False, site.most))
    whole = site_of(first)
    wanted = None if whole is None else whole.access(table)
    for layout in sites[0].layouts(warps):
        found = [site.access_in(layout, table) for site in sites]
        if all(getattr(one, "shape", None) == getattr(wanted, "shape", "") for one in found):
            return linear_encoding_text(layout)
    return None
