"""Small LLVM-dialect functions for the interpreter's tests, and the data to run them on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from triton_linear.lowering.interpreter.function import FunctionOutcome, simulate
from triton_linear.lowering.target.targets import target

Bits = npt.NDArray[np.uint64]
NVIDIA, AMD = target("cuda:90"), target("hip:gfx942")
WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "ptr<1>": 64}


def struct(types: Sequence[str]) -> str:
    """The struct of these types."""
    return f"!llvm.struct<({', '.join(types)})>"


def function(arguments: Sequence[str], body: str, results: Sequence[str]) -> str:
    """A function of registers %a0, %a1, ... and %smem that returns the values %r0, %r1, ... of `body`."""
    source, result = struct(arguments), struct(results)
    lines = [f"llvm.func @f(%source: {source}, %smem: !llvm.ptr<3>) -> {result} {{"]
    lines += [f"%a{i} = llvm.extractvalue %source[{i}] : {source}" for i in range(len(arguments))]
    lines += [line.strip() for line in body.strip().splitlines()]
    lines.append(f"%out0 = llvm.mlir.poison : {result}")
    lines += [f"%out{i + 1} = llvm.insertvalue %r{i}, %out{i}[{i}] : {result}" for i in range(len(results))]
    lines += [f"llvm.return %out{len(results)} : {result}", "}"]
    return "\n".join(lines)


def run(
    arguments: Sequence[str],
    body: str,
    results: Sequence[str],
    registers: Sequence[Bits],
    *,
    amd: bool = False,
    num_warps: int = 2,
    shared_bytes: int = 0,
) -> FunctionOutcome:
    """Interpret the function."""
    text = function(arguments, body, results)
    return simulate(text, registers, AMD if amd else NVIDIA, num_warps, shared_bytes)


def threads(num_warps: int = 2, *, amd: bool = False) -> int:
    """Threads of the CTA."""
    return num_warps * (64 if amd else 32)


def width(type_: str) -> int:
    """Bits of a scalar type."""
    return WIDTHS.get(type_) or int(type_[1:])


def random_registers(seed: int, types: Sequence[str], count: int, trials: int = 3) -> list[Bits]:
    """Random bit patterns, a third of them at the edges of the type."""
    rng = np.random.default_rng(seed)
    registers = []
    for type_ in types:
        bits = width(type_)
        values = rng.integers(0, 1 << 64, (trials, count), np.uint64, endpoint=False) >> np.uint64(64 - bits)
        full = (1 << bits) - 1
        edges = rng.choice(np.array([0, 1, full, full >> 1, full - (full >> 1)], np.uint64), (trials, count))
        registers.append(np.where(rng.random((trials, count)) < 1 / 3, edges, values))
    return registers
