"""Compile by Triton alone, without a GPU and without a cache: a kernel's source to TTGIR (`ttgir_of`), and a
libtriton TTGIR module up to any stage (`lower`).

The stages after TTGIR, in order:

    cuda:N     llvm (LLVM dialect) -> llvmir -> ptx -> cubin
    hip:ARCH   llvm (LLVM dialect) -> llvmir -> amdgcn -> hsaco
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from triton_linear.lowering.emit.marks import without_marks
from triton_linear.tools.support.errors import Diagnostic, ToolError, captured_stderr, fail, parse_diagnostics

if TYPE_CHECKING:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

STAGES = {"nvidia": ("llvm", "llvmir", "ptx", "cubin"), "amd": ("llvm", "llvmir", "amdgcn", "hsaco")}
_TARGET = re.compile(r"(?P<backend>cuda|hip):(?P<arch>[0-9]+|gfx[0-9a-f]+)")
Place = tuple[str, int, int]
"""File, line and column; `("", 0, 0)` for a mistake on the command line."""
NOWHERE: Place = ("", 0, 0)

FAILED = "Triton failed before the stage"
"""The beginning of the message for a failure to which Triton gives no location."""


def vendor_of(target: str, place: Place = NOWHERE) -> str:
    """The vendor, `nvidia` or `amd`, of a target's name, `cuda:NUMBER` or `hip:gfxNAME`.

    Fails on any other name; `place` is the place of the error.
    """
    match = _TARGET.fullmatch(target)
    if match is None or (match["backend"] == "cuda") != match["arch"].isdigit():
        fail(f"target: '{target}' is neither cuda:NUMBER nor hip:gfxNAME", *place)
    return "nvidia" if match["backend"] == "cuda" else "amd"


def code_stages(target: str) -> tuple[str, str]:
    """The stages of a target's assembly, as PTX, and of its binary."""
    return STAGES[vendor_of(target)][-2:]


def check_stage(stage: str, target: str, place: Place = NOWHERE) -> None:
    """Fail unless the backend of `target` has the stage; `place` is the place of the error."""
    stages = STAGES[vendor_of(target)]
    if stage not in stages:
        fail(f"emit: target '{target}' has no stage '{stage}'; its stages are {', '.join(stages)}", *place)


@functools.lru_cache
def backend_for(target: str) -> Any:
    """Triton's compiler backend for a target; no device is queried."""
    from triton.compiler.compiler import make_backend

    from triton_linear.examples.spec import gpu_target

    return make_backend(gpu_target(target))


@dataclass
class Lowered:
    """The artefact of each stage (text, or bytes for cubin and hsaco) and Triton's metadata."""

    stages: dict[str, str | bytes] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def text(self, stage: str) -> str:
        """The artefact of a stage, as text."""
        artefact = self.stages[stage]
        return artefact if isinstance(artefact, str) else artefact.decode()


class _LastStageReached(Exception):
    """Raised when the LLVM dialect is reached and is the last stage wanted."""


class _ObservedLlvm:
    """A proxy of Triton's `llvm` bindings, whose `to_module` first passes its argument to `watch`."""

    def __init__(self, real: Any, watch: Callable[[Any], None]) -> None:
        self._real = real
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def to_module(self, module: Any, context: Any) -> Any:
        """Translate to LLVM IR."""
        self._watch(module)
        return self._real.to_module(module, context)


def with_globals(function: Any, **names: Any) -> Any:
    """A copy of the function with these globals, so that Triton's module need not be patched."""
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def ttgir_of(source: ASTSource, gpu: GPUTarget, launch_options: Mapping[str, int]) -> Any:
    """The libtriton module of a kernel after the stage `ttgir` of `gpu`'s backend; no device is queried."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend = make_backend(gpu)
    options = backend.parse_options({**launch_options, **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    generators = backend.get_codegen_implementation(options)
    module = source.make_ir(gpu, options, generators, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    metadata: dict[str, Any] = {"target": gpu, **options.__dict__}
    for stage in [name for name in ("ttir", "ttgir") if name in stages]:  # Gluon has no ttir
        module = stages[stage](module, metadata)
        module.context = context
    return module


def lower(module: Any, target: str, last: str) -> Lowered:
    """Compile a libtriton TTGIR module (consumed) by Triton's backend up to the stage `last`.

    Requires: `module.context` is set; `last` is in `STAGES` of the target's vendor.
    Ensures: every stage up to `last` is in the result.
    """
    check_stage(last, target)
    backend = backend_for(target)
    options = _parsed(backend, options_of(module))
    lowered = Lowered(metadata={"num_ctas": options.num_ctas})

    def watch(llvm_dialect: Any) -> None:
        lowered.stages["llvm"] = str(llvm_dialect)
        lowered.metadata["shared"] = llvm_dialect.get_int_attr("ttg.shared")
        if last == "llvm":
            raise _LastStageReached

    nvidia = vendor_of(target) == "nvidia"
    receiver = (backend,) if nvidia else ()
    arguments = (options, backend.target.arch) if nvidia else (options,)
    stock: Any = type(backend).make_llir
    make_llir = with_globals(stock, llvm=_ObservedLlvm(stock.__globals__["llvm"], watch))
    try:
        with diagnosed("llvmir"):
            llir = make_llir(*receiver, module, lowered.metadata, *arguments)
            lowered.stages["llvmir"] = without_marks(llir)
    except _LastStageReached:
        return lowered
    stages = STAGES[vendor_of(target)]
    for before, stage in itertools.pairwise(stages[1:]):
        if last in lowered.stages:
            break
        source = lowered.stages[before]
        with diagnosed(stage):
            lowered.stages[stage] = getattr(backend, f"make_{stage}")(source, lowered.metadata, *arguments)
    return lowered


def options_of(module: Any) -> dict[str, Any]:
    """The backend options in the attributes of a TTGIR module."""
    warps = module.get_int_attr("ttg.num-warps")
    if warps is None:
        fail("module has no attribute 'ttg.num-warps'; compiling starts from TritonGPU IR")
    if warps <= 0 or warps & (warps - 1):
        fail(f"ttg.num-warps = {warps} is not a power of two")
    return {"num_warps": warps, "num_ctas": module.get_int_attr("ttg.num-ctas") or 1}


def _parsed(backend: Any, asked: Mapping[str, Any]) -> Any:
    """The backend's options; fails with its reason if its GPU has no such kernels."""
    try:
        return backend.parse_options(asked)
    except ValueError as error:
        fail(f"{backend.target.backend}:{backend.target.arch} cannot compile the module: {error}")


@contextmanager
def diagnosed(stage: str) -> Iterator[None]:
    """Turn a failure of Triton in the block into a ToolError with the diagnostics that Triton printed."""
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
        errors = [Diagnostic("error", f"{FAILED} '{stage}' was reached: {detail}")]
    raise ToolError(*errors) from failure
