"""Kernels and stand-ins for the plugin's tests; used by the tests and by the processes they start.

The stand-in for the passes puts a comment into the kernel, so that a compile through the plugin can be told
from a stock one by looking at the assembly.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from triton import knobs
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import driver, jit

import triton_linear
from triton_linear import hook
from triton_linear.tools.support.script import FakeDriver

if TYPE_CHECKING:
    from triton_linear.lowering.emit.embed import Embedded
    from triton_linear.passes.attempts import Prepared

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
    return aligned(kernel, {"x": "*fp32", "out": "*fp32"}, {"BM": 32, "BN": width})


def compile_kernel(kernel: Any = row_sums, target: GPUTarget = CUDA, width: int = 64, **options: object) -> Any:
    """Compile through Triton's front door."""
    return triton.compile(source(kernel, width), target=target, options=options or None)


def assembly(compiled: Any) -> str:
    """The PTX or AMDGCN of a compiled kernel."""
    return str(compiled.asm.get("ptx") or compiled.asm["amdgcn"])


def is_ours(compiled: Any) -> bool:
    """Whether the kernel went through the stand-ins."""
    return MARK in assembly(compiled)


@dataclass(frozen=True)
class FakePlan:
    """A plan of which nothing is known but the scratch that it takes."""

    scratch_bytes: int = 1024
    kind: ClassVar[str] = "shuffle"

    def summary(self) -> str:
        return "stand-in"


def fake_prepare(module: Any, options: Any, target: Any, *, seen: int | None = None) -> Prepared:
    """The module as it is, said to hold one conversion of ours."""
    from triton_linear.dialect.linear_layout import LinearLayout
    from triton_linear.lowering.plan.element import element_type
    from triton_linear.lowering.plan.plans import Stub
    from triton_linear.passes import attempts
    from triton_linear.passes.framework.plans import DecidedConversion
    from triton_linear.passes.framework.run import PipelineRun
    from triton_linear.passes.pipeline import Rewritten

    layout = LinearLayout.identity_1d(32, "lane", "dim0")
    limit = options.scratch_limit
    plan: Any = FakePlan() if limit is None else FakePlan(limit)
    stub = Stub("stand_in", layout, layout, element_type("f32"), plan)
    found = DecidedConversion("here", "A", "B", plan.kind, plan.summary(), stub=stub.symbol)
    rewritten = Rewritten(PipelineRun.of_nothing(), {stub.symbol: stub}, (found,))
    return attempts.Prepared(module, target, options, rewritten, differs=True)


def fake_embed(module: Any, stubs: Any, target: Any, *, apart: bool, sparing: bool) -> Embedded:
    """The text of the module with a comment in its kernel."""
    from triton_linear.dialect import bridge
    from triton_linear.lowering.emit.embed import Embedded

    return Embedded(re.sub(r'( *"tt\.return")', rf"    {COMMENT}\n\1", bridge.triton_text(module), count=1))


def fake_limit(stub: Any, situation: Any, *, all_warps: bool) -> Any:
    """The stub with a plan that takes as much scratch as it may."""
    return replace(stub, plan=FakePlan(situation.scratch_limit))


FAKES = {"prepare": fake_prepare, "embed": fake_embed, "with_limit": fake_limit}
"""The stand-ins, by what they stand for in `pipeline`."""


def use_fakes() -> None:
    """Put the stand-ins in place for this process when a module is to be converted: MLIR comes in with what
    they stand for."""
    from triton_linear.stage import LLIRStage

    convert = LLIRStage._convert

    def with_fakes(*arguments: Any) -> Any:
        from triton_linear.passes import attempts

        vars(attempts).update(FAKES)
        return convert(*arguments)

    LLIRStage._convert = with_fakes  # type: ignore[method-assign]


def compile_in_worker() -> bool:
    """What tests have a worker process do: compile, and say whether that went through the stand-in."""
    use_fakes()
    return is_ours(compile_kernel(num_warps=8))


def assembly_in_worker() -> str:
    """What tests have a worker process do: compile under what is in force there."""
    return assembly(compile_kernel(double))


@pytest.fixture
def fresh_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, the stand-ins in place, and the plugin off before and after."""
    from triton_linear.passes import attempts

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for name, fake in FAKES.items():
        monkeypatch.setattr(attempts, name, fake)
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
    owners: dict[str, object] = {"runtime knobs": knobs.runtime, "jit": jit, "JITFunction": jit.JITFunction}
    for name, backend in backends.items():
        owners[f"{name} class"] = backend.compiler
        owners[f"{name} module"] = sys.modules[backend.compiler.__module__]
    return {f"{owner}.{name}": id(value) for owner, it in owners.items() for name, value in vars(it).items()}


def fail(*_: object, **__: object) -> Any:
    """What a pipeline that trips does."""
    raise LookupError("the planner tripped")


@triton.jit
def transpose(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    tl.store(out + columns[:, None] * BM + rows[None, :], tl.trans(tile) * 2)
