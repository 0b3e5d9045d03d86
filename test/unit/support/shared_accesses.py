"""Accesses to shared memory as whole kernels, run in the interpreter with this package's passes and without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.fuzz.random_layouts import kernel_encoding, random_columns
from bench.whole_kernels import lower_kernel, sink
from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, WARP, LinearLayout
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.shared_memory import LocalAccess


class WrongAccess(Exception):
    """A kernel moves an element to a wrong place, or has a race."""


@dataclass(frozen=True)
class Case:
    """A tensor that is stored to shared memory and loaded again.

    `is_store`: the store has the layout `registers`, and the load a plain blocked layout; else the other way
    round.
    """

    target: str
    warps: int
    shape: tuple[int, int]
    element: str
    registers: str
    memory: str
    is_store: bool
    part: int = 1
    """The tensor is the last of this number of parts of a buffer, along its rows."""

    @property
    def type(self) -> ElementType:
        """The element type."""
        return element_type(self.element)

    @property
    def plain(self) -> str:
        """The layout of the other access, which is not compared."""
        lanes = target(self.target).lanes
        return (
            f"#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [1, {lanes}], "
            f"warpsPerCTA = [{self.warps}, 1], order = [1, 0]}}>"
        )

    def layout(self, encoding: str) -> LinearLayout:
        """The layout of the tensor with an encoding, as held in LLVM IR."""
        return encodings.held_layout_of(encoding, self.shape, self.type.bits)

    @property
    def sides(self) -> tuple[str, str]:
        """The encodings of the stored and of the loaded tensor."""
        return (self.registers, self.plain) if self.is_store else (self.plain, self.registers)

    @property
    def text(self) -> str:
        """The kernel's TTGIR."""
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
        """The access with the layout `registers`."""
        whole = (self.shape[0] * self.part, self.shape[1])
        memory = encodings.layout_of(self.memory, whole, self.type.bits)
        access = LocalAccess.of(memory, self.shape, self.type.memory_bytes, self.is_store)
        if access is None:
            raise ValueError(f"no access: {self.memory}")
        return access

    @property
    def foreseen(self) -> int:
        """The wavefronts of the access that the model has, summed over all warps."""
        return self.access.wavefronts(self.layout(self.registers), target(self.target)) * self.warps

    def wavefronts(self) -> int:
        """The wavefronts of the access that the interpreter counts, summed over all warps.

        Raises WrongAccess if the kernel moves an element to a wrong place, or has a race.
        """
        kernel = lower_kernel(self.text, "local.ttgir", target(self.target).spelled, None)
        lanes = target(self.target).lanes
        stored, expected = (held_elements(self.layout(side), lanes, self.warps, 0) for side in self.sides)
        patterns = element_patterns(self.shape[0] * self.shape[1], self.type.bits)
        outcome = kernel.run([list(patterns[:, stored].swapaxes(0, 1))], trials=len(patterns))
        values, undefined = outcome.sinks["result"]
        limit = np.uint64(2**self.type.bits - 1)
        if (undefined & limit).any() or ((values & limit) != patterns[:, expected].swapaxes(0, 1)).any():
            raise WrongAccess("a register has another element")
        if outcome.races:
            raise WrongAccess(f"{len(outcome.races)} races")
        kind = "store" if self.is_store else "load"
        return sum(access.wavefronts for access in outcome.counts.accesses if access.kind == kind)


def memory(rng: random.Random, bits: int) -> str:
    """A random encoding of shared memory."""
    order = rng.choice(("[1, 0]", "[0, 1]"))
    if rng.random() < 0.3:
        width, transposed = rng.choice((0, 32, 64, 128)), rng.choice(("true", "false"))
        return (
            f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = {transposed}, "
            f"elementBitWidth = {bits}}}>"
        )
    kind = rng.choice(("swizzled", "swizzled", "amd_rotating"))
    sizes = [1, 2, 4, 8, 16]
    return (
        f"#ttg.{kind}_shared<{{vec = {rng.choice(sizes)}, perPhase = {rng.choice(sizes[:3])}, "
        f"maxPhase = {rng.choice(sizes)}, order = {order}}}>"
    )


def random_cases(seed: int, name: str) -> Iterator[Case]:
    """Random cases: layouts of registers, also those of matrix instructions, with layouts of memory."""
    rng, lanes = random.Random(f"{seed} {name}"), target(name).lanes
    while True:
        warps, element = rng.choice((1, 2, 4, 8)), rng.choice(("i8", "f8E5M2", "f16", "bf16", "f32", "f64"))
        shape = rng.choice(((32, 32), (64, 32), (64, 64), (32, 128), (128, 16)))
        if rng.random() < 0.6:
            registers = kernel_encoding(rng, lanes, warps, shape)
        else:
            registers = random_columns(rng, shape, lanes, warps, False).text(2)
        bits = element_type(element).bits
        case = Case(
            name, warps, shape, element, registers, memory(rng, bits), rng.random() < 0.5, rng.choice((1, 1, 2))
        )
        try:
            layout = case.layout(registers)
            case.access  # noqa: B018  (raises ValueError if the memory does not fit)
        except ValueError:
            continue
        if layout.in_dim_size(WARP) == warps and not any(dict(layout.bases).get(BLOCK, ())):
            yield case
