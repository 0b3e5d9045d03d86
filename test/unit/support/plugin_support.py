"""Kernels and stand-ins for the plugin's tests; used by the tests and by the processes they start.

The stand-in for the passes puts a comment into the kernel, so that a compile through the plugin can be told
from a stock one by looking at the assembly.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
import triton_linear
from triton import knobs
from triton._C.libtriton import ir
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import driver, jit
from triton_linear import hook, pipeline
from triton_linear.report import Conversion, Report

MARK = "put there by the plugin"
COMMENT = f'llvm.inline_asm has_side_effects asm_dialect = att "// {MARK}", "" : () -> ()'
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


@triton.jit
def turned(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.load(x + i * N + j).trans())


def transpose_bytes() -> ASTSource:
    """A source of a kernel with one conversion, through shared memory."""
    signature = {"x": "*i8", "out": "*i8", "N": "constexpr"}
    return ASTSource(turned, signature, constexprs={"N": 64})


def source(kernel: Any = row_sums, width: int = 64) -> ASTSource:
    """A source of `kernel` with aligned pointers."""
    signature = {"x": "*fp32", "out": "*fp32", "BM": "constexpr", "BN": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in (0, 1)}
    return ASTSource(kernel, signature, constexprs={"BM": 32, "BN": width}, attrs=aligned)


def compile_kernel(kernel: Any = row_sums, target: GPUTarget = CUDA, width: int = 64, **options: object) -> Any:
    """Compile through Triton's front door."""
    return triton.compile(source(kernel, width), target=target, options=options or None)


def assembly(compiled: Any) -> str:
    """The PTX or AMDGCN of a compiled kernel."""
    return str(compiled.asm.get("ptx") or compiled.asm["amdgcn"])


def told(report: Report) -> tuple[str, ...]:
    """The remarks, without the one that every kernel has for a Triton whose accesses are not predicted."""
    return tuple(remark for remark in report.remarks if not remark.startswith("layouts stay: "))


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


def fake_prepare(
    module: Any, seen: int, target: Any, limit: int | None, clock: Any, apart: bool = True, **options: bool
) -> pipeline.Prepared:
    """A copy of the module with a comment in its kernel, said to hold one conversion of ours."""
    marked = re.sub(r"( *tt\.return)", rf"    {COMMENT}\n\1", str(module), count=1)
    conversions = (Conversion("here", "A", "B", "shuffle", "stand-in"),)
    return pipeline.Prepared(reparse(marked, module.context), conversions, (1024 if limit is None else limit,))


def use_fakes() -> None:
    """Put the stand-in in place for this process."""
    pipeline.prepare = fake_prepare


def compile_in_worker() -> bool:
    """What tests have a worker process do: compile, and say whether that went through the stand-in."""
    use_fakes()
    return is_ours(compile_kernel(num_warps=8))


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


@pytest.fixture
def fresh_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, the stand-in in place, and the plugin off before and after."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(pipeline, "prepare", fake_prepare)
    yield
    triton_linear.uninstall()
    left_open = [hook._state.blocks.pop() for _ in tuple(hook._state.blocks)]
    triton_linear.uninstall()
    assert not left_open
    assert hook._state.patches == ()


@pytest.fixture
def fake_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's driver for an H100 that is not there."""
    monkeypatch.setattr(driver, "_active", FakeDriver(CUDA))


def triton_state() -> dict[str, object]:
    """Every attribute of Triton's that the plugin may touch, by identity, and whether it is there at all."""
    owners: dict[str, object] = {
        "runtime knobs": knobs.runtime,
        "jit": jit,
        "JITFunction": jit.JITFunction,
    }
    for name, backend in backends.items():
        owners[f"{name} class"] = backend.compiler
        owners[f"{name} module"] = sys.modules[backend.compiler.__module__]
    return {f"{owner}.{name}": id(value) for owner, it in owners.items() for name, value in vars(it).items()}


def fail(*_: object, **__: object) -> Any:
    """What a pipeline that trips does."""
    raise LookupError("the planner tripped")
