"""Verify accesses to tensor memory: each is lowered alone by Triton, and run in the interpreter.

The code is Triton's. The check is that it moves the elements according to the layout of the registers, which
layout assignment may have chosen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from triton_linear.dialect.linear_layout import BLOCK, WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.lowering.interpreter.verify_tensor import verify_load, verify_store
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_memory import THREAD_REGISTERS
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.tensor_memory import TensorSite, site_of
from triton_linear.passes.framework.layouts import LayoutTable, memory_of
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.words import short_place, short_type
from triton_linear.tools.verify.checked import Checked
from triton_linear.tools.verify.stock import module_of, sink

NAME: Final = "access"
SINK: Final = "result"


def kernel_text(site: TensorSite, warps: int, target: str) -> str:
    """A module whose kernel allocates tensor memory, and stores its argument there, or loads and passes on
    the result."""
    registers = str(site.registers)
    whole, part = _memories(str(site.memory))
    lines = [f"%m = ttng.tmem_alloc : () -> {whole}"]
    memory = "%m"
    if part != whole:
        lines.append(f"%p = ttng.tmem_subslice %m {{N = 0 : i32, offset = 0 : i32}} : {whole} -> {part}")
        memory = "%p"
    if site.is_store:
        lines += ["%true = arith.constant true", f"ttng.tmem_store %x, {memory}, %true : {registers} -> {part}"]
    else:
        lines += [f"%x = ttng.tmem_load {memory} : {part} -> {registers}", sink("%x", registers, SINK)]
    argument = f"%x: {registers}" if site.is_store else ""
    most = f'"ttg.maxnreg" = {site.most} : i32, ' if site.most != THREAD_REGISTERS else ""
    return module_of(NAME, argument, lines, warps, 32, target, most)


_MEMORY = re.compile(
    r"!ttg\.memdesc<(?P<shape>(?:\d+x)+)(?P<kind>[^,]+, #.+, #ttng\.tensor_memory)(?P<rest>.*)>"
)


def _memories(memory: str) -> tuple[str, str]:
    """The type of the allocation of a memory descriptor, without dimensions that count buffers, and the
    descriptor's type as a part of that allocation."""
    match = _MEMORY.fullmatch(memory)
    if match is None:
        raise ValueError(f"'{memory}' is no tensor memory")
    shape = match["shape"].rstrip("x").split("x")
    allocated = re.search(r", (\d+(?:x\d+)*)$", match["rest"])
    whole_shape = allocated[1].split("x")[-len(shape) :] if allocated else shape
    whole = f"!ttg.memdesc<{'x'.join(whole_shape)}x{match['kind']}, mutable>"
    part = f"!ttg.memdesc<{'x'.join(shape)}x{match['kind']}, mutable, {'x'.join(whole_shape)}>"
    return whole, whole if whole_shape == shape else part


def run_alone(site: TensorSite, warps: int, target: Target, table: LayoutTable) -> Verdict:
    """Lower an access alone by Triton, and run it.

    Raises ToolError if Triton cannot lower it, and SimulationError if the interpreter cannot run it.
    """
    layouts, described = table.both(site.registers, site.memory), memory_of(site.memory)
    if isinstance(layouts, str) or described is None:
        raise SimulationError("its types have no layouts")
    registers, memory = layouts
    if any(layout.has_in_dim(BLOCK) and layout.in_dim_size(BLOCK) > 1 for layout in (registers, memory)):
        raise SimulationError("the tensor lies across several CTAs")
    text = lower(to_triton(kernel_text(site, warps, target.name)), target.name, "llvm").text("llvm")
    bits = element_type(described[1]).bits
    if site.is_store:
        return verify_store(text, NAME, memory, registers, bits, target, warps)
    return verify_load(text, NAME, SINK, memory, registers, bits, target, warps)


def check_accesses(ops: Sequence[Operation], target: Target, warps: int) -> list[Checked[TensorSite]]:
    """All accesses of a module, each with the verdict of running it alone, or the reason why it was not run."""
    table = LayoutTable()
    known: dict[tuple[str, str, bool, int], Verdict | str] = {}
    checked = []
    for op in ops:
        site = site_of(op)
        if site is None:
            continue
        arrow = "->" if site.is_store else "<-"
        head = f"{short_place(str(op.location))}: {short_type(str(site.registers))} {arrow} tensor memory"
        access = site.access(table)
        plan = access.reason if isinstance(access, Rejected) else access.summary()
        key = str(site.registers), str(site.memory), site.is_store, site.most
        if key not in known:
            known[key] = _run(site, _warps_at(op, warps), target, table)
        if isinstance(verdict := known[key], str):
            checked.append(Checked(site, head, f"{plan}; not run: {verdict}", None))
        else:
            checked.append(Checked(site, head, plan, verdict))
    return checked


def _run(site: TensorSite, warps: int, target: Target, table: LayoutTable) -> Verdict | str:
    try:
        return run_alone(site, warps, target, table)
    except (SimulationError, ToolError, ValueError) as error:
        return str(error).partition("\n")[0]


def _warps_at(op: Operation, warps: int) -> int:
    """The warps of the CTA, or of the operation's partition, according to the layout of its tensor."""
    site = site_of(op)
    layout = LayoutTable().of(site.registers) if site is not None else None
    return layout.in_dim_size(WARP) if isinstance(layout, LinearLayout) and layout.has_in_dim(WARP) else warps
