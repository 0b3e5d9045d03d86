"""Accesses to tensor memory, each lowered alone by Triton and run, on contents that the layouts say.

The code is Triton's; what is checked is that it moves what the layout of the registers wants, which the
assignment of layouts may have chosen, and that the instruction is the one that the planner foresees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from triton_linear.dialect.linear_layout import BLOCK, WARP, LinearLayout
from triton_linear.dialect.locations import user_position
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.lowering.interpreter.verify_tensor import verify_load, verify_store
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_memory import THREAD_REGISTERS, TensorAccess
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.tensor_memory import TensorSite, site_of
from triton_linear.passes.framework.layouts import LayoutTable, memory_of
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.functions import sink
from triton_linear.tools.verify.words import findings, short_type

NAME: Final = "access"
SINK: Final = "result"


@dataclass(frozen=True)
class CheckedTensorAccess:
    """One access to tensor memory: the operation, its types, what serves it, and what running it showed; no
    verdict where it was not run, for which there is a reason."""

    location: str
    site: TensorSite
    access: TensorAccess | Rejected
    verdict: Verdict | None
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Nothing wrong, or nothing to run."""
        return self.verdict is None or self.verdict.ok

    @property
    def place(self) -> str:
        """Where it is, as `file:line:column`."""
        file, line, column = user_position(self.location)
        return f"{file}:{line}:{column}" if line else self.location

    def __str__(self) -> str:
        arrow = "->" if self.site.is_store else "<-"
        head = f"{self.place}: {short_type(str(self.site.registers))} {arrow} tensor memory"
        served = self.access.reason if isinstance(self.access, Rejected) else self.access.summary()
        if self.verdict is None:
            return f"{head}: {served}; not run: {self.reason}"
        return f"{head}: {served}; {findings(self.verdict)}"

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        record: dict[str, Any] = {
            "location": self.place,
            "registers": str(self.site.registers),
            "memory": str(self.site.memory),
            "store": self.site.is_store,
            "access": self.access.reason if isinstance(self.access, Rejected) else self.access.summary(),
        }
        if self.verdict is None:
            return record | {"reason": self.reason}
        return record | {
            "checked": self.verdict.checked,
            "wrong": self.verdict.wrong,
            "races": len(self.verdict.races),
        }


def kernel_text(site: TensorSite, warps: int, target: str) -> str:
    """A module with a kernel that allocates tensor memory, and stores its argument there or hands on what it
    loads."""
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
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f'module attributes {{{most}"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "{target}", "ttg.threads-per-warp" = 32 : i32}} {{\n'
        f"  tt.func public @{NAME}({argument}) {{\n{body}    tt.return\n  }}\n}}\n"
    )


_MEMORY = re.compile(
    r"!ttg\.memdesc<(?P<shape>(?:\d+x)+)(?P<kind>[^,]+, #.+, #ttng\.tensor_memory)(?P<rest>.*)>"
)


def _memories(memory: str) -> tuple[str, str]:
    """The type of what is allocated for a memory descriptor, without the dimensions that count buffers, and its
    own type as a part of that."""
    found = _MEMORY.fullmatch(memory)
    if found is None:
        raise ValueError(f"'{memory}' is no tensor memory")
    shape = found["shape"].rstrip("x").split("x")
    allocated = re.search(r", (\d+(?:x\d+)*)$", found["rest"])
    whole = allocated[1].split("x")[-len(shape) :] if allocated else shape
    made = f"!ttg.memdesc<{'x'.join(whole)}x{found['kind']}, mutable>"
    part = f"!ttg.memdesc<{'x'.join(shape)}x{found['kind']}, mutable, {'x'.join(whole)}>"
    return made, made if whole == shape else part


def run_alone(site: TensorSite, warps: int, target: Target, table: LayoutTable) -> Verdict:
    """Lower an access alone, as Triton does, and run it.

    Raises ToolError where Triton does not lower it, and SimulationError where it cannot be run.
    """
    registers, memory, described = table.of(site.registers), table.of(site.memory), memory_of(site.memory)
    if not isinstance(registers, LinearLayout) or not isinstance(memory, LinearLayout) or described is None:
        raise SimulationError("its types have no layouts")
    if any(layout.has_in_dim(BLOCK) and layout.in_dim_size(BLOCK) > 1 for layout in (registers, memory)):
        raise SimulationError("the tensor lies across several CTAs")
    text = lower(to_triton(kernel_text(site, warps, target.name)), target.name, "llvm").text("llvm")
    bits = element_type(described[1]).bits
    if site.is_store:
        return verify_store(text, NAME, memory, registers, bits, target, warps)
    return verify_load(text, NAME, SINK, memory, registers, bits, target, warps)


def check_accesses(ops: Sequence[Operation], target: Target, warps: int) -> list[CheckedTensorAccess]:
    """All accesses of a module, each with what running it alone showed."""
    table = LayoutTable()
    known: dict[tuple[str, str, bool, int], tuple[Verdict | None, str]] = {}
    found = []
    for op in ops:
        site = site_of(op)
        if site is None:
            continue
        key = str(site.registers), str(site.memory), site.is_store, site.most
        if key not in known:
            known[key] = _run(site, _warps_at(op, warps), target, table)
        found.append(CheckedTensorAccess(str(op.location), site, site.access(table), *known[key]))
    return found


def _run(site: TensorSite, warps: int, target: Target, table: LayoutTable) -> tuple[Verdict | None, str]:
    try:
        return run_alone(site, warps, target, table), ""
    except (SimulationError, ToolError, ValueError) as error:
        return None, str(error).partition("\n")[0]


def _warps_at(op: Operation, warps: int) -> int:
    """Warps of the CTA, or of the partition that an operation stands in, by the layout of its tensor."""
    site = site_of(op)
    layout = LayoutTable().of(site.registers) if site is not None else None
    return layout.in_dim_size(WARP) if isinstance(layout, LinearLayout) and layout.has_in_dim(WARP) else warps
