"""Compiles a case to AMDGCN and hsaco, without a GPU, and reads what came out."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.amd.compiler import HIPBackend

import triton_linear
from bench.conversions.build import layouts
from bench.conversions.cases import Case
from triton_linear.dialect import bridge
from triton_linear.examples.spec import gpu_target
from triton_linear.tools.support.backend import with_globals

from .amdgcn import Loop, figures, loop
from .cases import cases
from .kernels import source

BYTES = "vector<4xi8>"
_ASSEMBLY = re.compile(
    r"^(?P<indent> *)(?P<result>%\w+) = (?P<op>llvm\.inline_asm .*\") (?P<operands>%.*?) : "
    r"\((?P<types>[^()]*)\) -> (?P<type>[^\n]*?)(?P<location> loc\(.*\))$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: what a round trip takes, and `vgprs`, `agprs`, `spilled`, `lds` of it as a whole; what
    the plugin says of the conversions that it carried out."""

    loop: Loop
    figures: Mapping[str, int]
    amdgcn: str
    plans: tuple[str, ...] = ()


def in_words(text: str) -> str:
    """The module with the assembly of its bytes taking and giving words of 32 bits.

    The backend for AMD has no registers for vectors of bytes.
    """
    for found in [each for each in _ASSEMBLY.finditer(text) if BYTES in each["types"]]:
        text = text.replace(found[0], _in_words(found))
        if found["type"] == BYTES:
            continue
        words = found["type"].replace(BYTES, "i32")
        taken = re.compile(
            rf"^( *)%(\w+) = llvm\.extractvalue {found['result']}(\[\d+\]) : {re.escape(found['type'])}(.*)$",
            re.MULTILINE,
        )
        text = taken.sub(
            rf"\1%word_of_\2 = llvm.extractvalue {found['result']}\3 : {words}\4"
            rf"\n\1%\2 = llvm.bitcast %word_of_\2 : i32 to {BYTES}\4",
            text,
        )
    return text


def _in_words(found: re.Match[str]) -> str:
    """An assembly operation between casts; a result of several words stays a struct."""
    indent, location, result = found["indent"], found["location"], found["result"]
    lines, words = [], []
    for number, operand in enumerate(found["operands"].split(", ")):
        words.append(f"%given{number}_to_{result[1:]}")
        lines.append(f"{words[-1]} = llvm.bitcast {operand} : {BYTES} to i32")
    types, given = (found[name].replace(BYTES, "i32") for name in ("types", "type"))
    single = found["type"] == BYTES
    name = f"%word_of_{result[1:]}" if single else result
    lines.append(f"{name} = {found['op']} {', '.join(words)} : ({types}) -> {given}")
    if single:
        lines.append(f"{result} = llvm.bitcast {name} : i32 to {BYTES}")
    return "\n".join(f"{indent}{line}{location}" for line in lines)


class _WithWords:
    """Triton's `llvm` bindings, where `to_module` takes the module `in_words`; the rest is passed through."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def to_module(self, module: Any, context: Any) -> Any:
        """Translate to LLVM IR."""
        text = str(module)
        if BYTES in text:
            module = bridge.parse_triton(in_words(text), bridge.triton_context())
        return self._real.to_module(module, context)


@contextmanager
def bytes_in_words() -> Iterator[None]:
    """Within the block, Triton's backend for AMD compiles assembly of bytes."""
    stock = HIPBackend.__dict__["make_llir"]
    function = stock.__func__
    HIPBackend.make_llir = staticmethod(with_globals(function, llvm=_WithWords(function.__globals__["llvm"])))
    try:
        yield
    finally:
        HIPBackend.make_llir = stock


def compile_case(case: Case, target: str, ours: bool, convert: bool = True) -> Kernel:
    """Compile a case by stock Triton, or with the plugin (layouts are not assigned, so both convert the same).

    Raises ValueError for a kernel that the plugin did not compile.
    """
    a, b = layouts(case)
    kernel_source = source(case, a, b, convert)
    gpu, options = gpu_target(target), {"num_warps": case.warps}
    plans: tuple[str, ...] = ()
    with bytes_in_words(), triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True
        if ours:
            with triton_linear.enabled(strict=True, assign=False) as reports:
                kernel = triton.compile(kernel_source, target=gpu, options=options)
            if len(reports) != 1:
                raise ValueError(f"the plugin reports {len(reports)} kernels, not 1")
            plans = tuple(conversion.detail for conversion in reports[0].conversions)
        else:
            kernel = triton.compile(kernel_source, target=gpu, options=options)
    if not kernel.asm["hsaco"]:
        raise ValueError("there is no hsaco")
    text = kernel.asm["amdgcn"]
    return Kernel(loop(text), {**figures(text), "lds": kernel.metadata.shared}, text, plans)


@functools.cache
def empty_loop(target: str) -> Loop:
    """What the loop takes without conversions: it counts its turns, and touches no vector register."""
    return compile_case(cases(target)[0], target, ours=False, convert=False).loop
