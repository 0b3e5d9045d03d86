"""Kernels and stand-ins for the plugin's tests; used by the tests and by the processes they start.

The stand-in for the passes copies the module, that for the splicer puts a comment into the kernel, so a compile
through the plugin can be told from a stock one by looking at the assembly.
"""

from __future__ import annotations

import re
import tempfile
from typing import Any

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_linear import pipeline
from triton_linear.report import Conversion

MARK = "spliced by the plugin"
CUDA = GPUTarget("cuda", 90, 32)
HIP = GPUTarget("hip", "gfx942", 64)


@triton.jit
def row_sums(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.arange(0, BM)
    tile = tl.load(x + rows[:, None] * BN + tl.arange(0, BN)[None, :])
    tl.store(out + rows, tl.sum(tile, 1))


@triton.jit
def double(x, out, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, BM * BN)
    tl.store(out + at, tl.load(x + at) * 2)


def source(kernel: Any = row_sums, width: int = 64) -> ASTSource:
    """A source of `kernel` with aligned pointers."""
    signature = {"x": "*fp32", "out": "*fp32", "BM": "constexpr", "BN": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in (0, 1)}
    return ASTSource(kernel, signature, constexprs={"BM": 32, "BN": width}, attrs=aligned)


def compile_kernel(kernel: Any = row_sums, target: GPUTarget = CUDA, width: int = 64) -> Any:
    """Compile through Triton's front door."""
    return triton.compile(source(kernel, width), target=target)


def assembly(compiled: Any) -> str:
    """The PTX or AMDGCN of a compiled kernel."""
    return str(compiled.asm.get("ptx") or compiled.asm["amdgcn"])


def is_ours(compiled: Any) -> bool:
    """Whether the kernel went through the stand-ins."""
    return MARK in assembly(compiled)


def reparse(text: str, context: Any) -> Any:
    """A libtriton module from text."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    return module


def fake_prepare(module: Any, target: Any, scratch_limit: int | None, clock: Any) -> pipeline.Prepared:
    """A copy of the module, said to hold one conversion of ours."""
    copy = reparse(str(module), module.context)
    plans: Any = {"__ll_cvt_0": f"plan within {scratch_limit} bytes"}
    return pipeline.Prepared(copy, plans, (Conversion("here", "A", "B", "shuffle", "stand-in"),))


def fake_splice(llvm_dialect: Any, prepared: pipeline.Prepared) -> Any:
    """The module with a comment in its kernel."""
    comment = f'    llvm.inline_asm has_side_effects asm_dialect = att "// {MARK}", "" : () -> ()\n'
    text = re.sub(r"(llvm\.func @\w+\(.*\{\n)", lambda m: m[1] + comment, str(llvm_dialect), count=1)
    assert MARK in text
    return reparse(text, prepared.module.context)  # type: ignore[union-attr]


def use_fakes() -> None:
    """Put the stand-ins in place for this process."""
    pipeline.prepare = fake_prepare
    pipeline.splice = fake_splice


class FakeDriver:
    """As much of a Triton driver as `warmup` asks for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0
