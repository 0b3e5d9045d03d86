"""Compile a TTGIR module through Triton's own backends, without a GPU, up to any stage.

The stages after TTGIR, in order:

    cuda:N     llvm (LLVM dialect) -> llvmir -> ptx -> cubin
    hip:ARCH   llvm (LLVM dialect) -> llvmir -> amdgcn -> hsaco

`lower` runs them as Triton does, with one opening: the text of the LLVM-dialect module passes through a function
of the caller's just before Triton translates it to LLVM IR. That is where conversion bodies are spliced in.
"""

from __future__ import annotations

import functools
import re
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from triton_linear.tools.errors import Diagnostic, ToolError, captured_stderr, fail, parse_diagnostics

STAGES = {
    "nvidia": ("llvm", "llvmir", "ptx", "cubin"),
    "amd": ("llvm", "llvmir", "amdgcn", "hsaco"),
}
_TARGET = re.compile(r"(?P<backend>cuda|hip):(?P<arch>\d+|gfx[0-9a-f]+)")


def vendor_of(target: str) -> str:
    """`nvidia` or `amd`; fails on a name that is neither `cuda:NUMBER` nor `hip:gfxNAME`."""
    match = _TARGET.fullmatch(target)
    if match is None or (match["backend"] == "cuda") != match["arch"].isdigit():
        fail(f"target: '{target}' is neither cuda:NUMBER nor hip:gfxNAME")
    return "nvidia" if match["backend"] == "cuda" else "amd"


def check_stage(stage: str, target: str) -> None:
    """Fail unless `stage` is one that `target`'s backend has."""
    stages = STAGES[vendor_of(target)]
    if stage not in stages:
        fail(f"emit: target '{target}' has no stage '{stage}'; its stages are {', '.join(stages)}")


@functools.lru_cache
def backend_for(target: str) -> Any:
    """Triton's compiler backend for a target; no device is asked."""
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    vendor = vendor_of(target)
    arch = target.partition(":")[2]
    lanes = 32 if vendor == "nvidia" or int(arch[3:-2]) >= 10 else 64
    gpu = GPUTarget("cuda", int(arch), lanes) if vendor == "nvidia" else GPUTarget("hip", arch, lanes)
    return backends[vendor].compiler(gpu)


@dataclass
class Lowered:
    """What each stage gave (text, or bytes for cubin and hsaco) and Triton's metadata."""

    stages: dict[str, str | bytes] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def text(self, stage: str) -> str:
        """The artefact of a stage that is text."""
        artefact = self.stages[stage]
        return artefact if isinstance(artefact, str) else artefact.decode()


class _Reached(Exception):
    """The LLVM dialect was all that was wanted."""


class _Seam:
    """Triton's `llvm` bindings with `to_module` opened; the rest is passed through."""

    def __init__(self, real: Any, to_module: Callable[[Any, Any], Any]) -> None:
        self._real = real
        self.to_module = to_module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _over(function: Any, **names: Any) -> Any:
    """The same function reading other globals, so that no module of Triton's is altered."""
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def lower(module: Any, target: str, last: str, rewrite: Callable[[str], str] | None = None) -> Lowered:
    """Take a libtriton TTGIR module (consumed) through Triton's backend up to the stage `last`.

    Requires: `module.context` is set; `last` is in `STAGES` of the target's vendor.
    Ensures: every stage up to `last` is in the result; `rewrite` saw the LLVM-dialect text, and what it returned
    is both the stage `llvm` and what went on.
    """
    from triton_linear.dialect import bridge

    check_stage(last, target)
    backend = backend_for(target)
    options = backend.parse_options(_options(module))
    lowered = Lowered()

    def to_module(llvm_dialect: Any, llvm_context: Any) -> Any:
        text = str(llvm_dialect)
        if rewrite is not None:
            text = rewrite(text)
        lowered.stages["llvm"] = text
        if last == "llvm":
            raise _Reached
        if rewrite is not None:
            llvm_dialect = bridge.parse_triton(text, module.context)
        return real.to_module(llvm_dialect, llvm_context)

    make_llir: Any = type(backend).make_llir
    real = make_llir.__globals__["llvm"]
    make_llir = _over(make_llir, llvm=_Seam(real, to_module))
    nvidia = vendor_of(target) == "nvidia"
    receiver = (backend,) if nvidia else ()
    arguments = (options, backend.target.arch) if nvidia else (options,)
    try:
        with _diagnosed("llvm"):
            lowered.stages["llvmir"] = make_llir(*receiver, module, lowered.metadata, *arguments)
    except _Reached:
        return lowered
    stages = STAGES[vendor_of(target)]
    for before, stage in zip(stages[1:], stages[2:], strict=False):
        if last in lowered.stages:
            break
        source = lowered.stages[before]
        if before == "llvmir":
            _check_one_kernel(lowered.text(before), stage)
        with _diagnosed(stage):
            lowered.stages[stage] = getattr(backend, f"make_{stage}")(source, lowered.metadata, *arguments)
    return lowered


def _options(module: Any) -> dict[str, Any]:
    """The backend options that a TTGIR module states about itself."""
    warps = module.get_int_attr("ttg.num-warps")
    if warps is None:
        fail("module has no attribute 'ttg.num-warps'; compiling starts from TritonGPU IR")
    if warps <= 0 or warps & (warps - 1):
        fail(f"ttg.num-warps = {warps} is not a power of two")
    return {"num_warps": warps, "num_ctas": module.get_int_attr("ttg.num-ctas") or 1}


def _check_one_kernel(llvm_ir: str, stage: str) -> None:
    """Triton's assembly stages take exactly one kernel."""
    kernels = re.findall(r"^define .*?(?:ptx|amdgpu)_kernel void @(\S+?)\(", llvm_ir, re.MULTILINE)
    if len(kernels) != 1:
        names = f": {', '.join(kernels)}" if kernels else ""
        fail(f"emit {stage}: the module must hold exactly one kernel, found {len(kernels)}{names}")


@contextmanager
def _diagnosed(stage: str) -> Iterator[None]:
    """Turn a failure of Triton's into a ToolError with the diagnostics it printed."""
    with captured_stderr() as captured:
        try:
            yield
            failure = None
        except (RuntimeError, AssertionError, IndexError) as error:
            failure = error
    if failure is None:
        sys.stderr.write(captured.text)
        return
    diagnostics, rest = parse_diagnostics(captured.text)
    errors = [d for d in diagnostics if d.severity == "error"]
    detail = str(failure) or type(failure).__name__
    if rest.strip() and not errors:
        detail = f"{detail}\n{rest.strip()}"
    if not errors:
        errors = [Diagnostic("error", f"Triton failed before the stage '{stage}' was reached: {detail}")]
    raise ToolError(*errors) from failure
