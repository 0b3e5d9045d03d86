"""Accesses to shared memory as whole kernels, run with our passes and without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.staging.choice import staging_for
from triton_linear.tools.support.functions import LOWERING, lower_kernel, sink

MMA = (
    "#ttg.dot_op<{opIdx = $, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, "
    "warpsPerCTA = [4, 1], instrShape = [16, 8]}>, kWidth = 4}>"
)


SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 16, order = [1, 0]}>"


@dataclass(frozen=True)
class Case:
    """A tensor that is stored to shared memory and loaded again, on one side in the layout `registers`."""

    target: str
    warps: int
    shape: tuple[int, int]
    element: str
    registers: str
    memory: str
    is_store: bool
    part: int = 1
    """One of so many parts of a buffer, along its rows."""

    @property
    def type(self) -> ElementType:
        return element_type(self.element)

    @property
    def plain(self) -> str:
        """The layout on the other side."""
        lanes = target(self.target).lanes
        return (
            f"#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [1, {lanes}], "
            f"warpsPerCTA = [{self.warps}, 1], order = [1, 0]}}>"
        )

    def layout(self, encoding: str) -> LinearLayout:
        return encodings.held_layout_of(encoding, self.shape, self.type.bits)

    @property
    def sides(self) -> tuple[str, str]:
        """The encodings that the tensor has before and behind."""
        return (self.registers, self.plain) if self.is_store else (self.plain, self.registers)

    @property
    def text(self) -> str:
        rows, columns = self.shape
        tensor = f"tensor<{rows}x{columns}x{self.element}, "
        memory = f"x{columns}x{self.element}, {self.memory}, #ttg.shared_memory, mutable"
        before, behind = (f"{tensor}{encoding}>" for encoding in self.sides)
        whole = f"!ttg.memdesc<{rows * self.part}{memory}>"
        seen, view = whole, ""
        if self.part > 1:
            seen = f"!ttg.memdesc<{rows}{memory}, {rows * self.part}x{columns}>"
            view = f"%v = ttg.memdesc_subslice %m[{rows * (self.part - 1)}, 0] : {whole} -> {seen}\n"
        value = "%v" if view else "%m"
        return (
            f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {self.warps} : i32, '
            f'ttg.target = "{self.target}", "ttg.threads-per-warp" = {target(self.target).lanes} : i32}} {{\n'
            f"tt.func public @kernel(%x: {before}) {{\n%m = ttg.local_alloc : () -> {whole}\n{view}"
            f"ttg.local_store %x, {value} : {before} -> {seen}\n"
            f"%y = ttg.local_load {value} : {seen} -> {behind}\n"
            f"{sink('%y', behind, 'result')}\ntt.return\n}}\n}}\n"
        )

    @property
    def access(self) -> LocalAccess:
        whole = (self.shape[0] * self.part, self.shape[1])
        memory = encodings.layout_of(self.memory, whole, self.type.bits)
        found = LocalAccess.of(memory, self.shape, self.type.memory_bytes, self.is_store)
        assert found is not None
        return found

    @property
    def choice(self) -> object:
        return staging_for(self.access, self.layout(self.registers), self.type, target(self.target))

    def wavefronts(self, *, ours: bool) -> int:
        """Those that the side takes, of all warps, once the kernel is seen to give every element its place."""
        kernel = lower_kernel(self.text, "local.ttgir", self.target, LOWERING if ours else None)
        lanes = target(self.target).lanes
        fed, expected = (held_elements(self.layout(side), lanes, self.warps, 0) for side in self.sides)
        patterns = element_patterns(self.shape[0] * self.shape[1], self.type.bits)
        outcome = kernel.run([list(patterns[:, fed].swapaxes(0, 1))], trials=len(patterns))
        values, undefined = outcome.sinks["result"]
        limit = np.uint64(2**self.type.bits - 1)
        assert not (undefined & limit).any()
        assert ((values & limit) == patterns[:, expected].swapaxes(0, 1)).all()
        assert not outcome.races
        kind = "store" if self.is_store else "load"
        return sum(access.wavefronts for access in outcome.counts.accesses if access.kind == kind)
