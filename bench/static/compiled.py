"""Compiles a case to AMDGCN and hsaco, without a GPU, and reads what came out."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import triton
import triton_linear
from triton.backends.amd.compiler import HIPBackend
from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.examples.spec import gpu_target
from triton_linear.tools.compile import with_globals

from bench.conversions.build import layouts
from bench.conversions.cases import Case

from .amdgcn import Loop, figures, loop
from .kernels import source

BYTES = "vector<4xi8>"
_ASSEMBLY = re.compile(
    r"^(?P<indent> *)(?P<result>%\w+) = (?P<op>llvm\.inline_asm .*\") (?P<operands>%.*?) : "
    r"\((?P<types>[^()]*)\) -> (?P<type>[^\n]*?)(?P<location> loc\(.*\))$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: what a round trip takes, and `vgprs`, `agprs`, `spilled`, `lds` of it as a whole."""

    loop: Loop
    figures: Mapping[str, int]
    amdgcn: str


def in_words(text: str) -> str:
    """The module with the assembly of its bytes taking and giving words of 32 bits.

    The backend for AMD has no registers for vectors of bytes.
    """
    structs = [found for found in _ASSEMBLY.finditer(text) if BYTES in found["types"]]
    text = _ASSEMBLY.sub(lambda found: _in_words(found) if BYTES in found["types"] else found[0], text)
    for found in structs:
        if not found["type"].startswith("!llvm.struct"):
            continue
        taken = re.compile(
            rf"^(?P<indent> *)(?P<part>%\w+) = llvm\.extractvalue {found['result']}(?P<index>\[\d+\]) : "
            rf"{re.escape(found['type'])}(?P<location>.*)$",
            re.MULTILINE,
        )
        words = found["type"].replace(BYTES, "i32")
        text = taken.sub(
            lambda part, result=found["result"], words=words: (
                f"{part['indent']}%word_of_{part['part'][1:]} = llvm.extractvalue {result}{part['index']} : {words}"
                f"{part['location']}\n{part['indent']}{part['part']} = llvm.bitcast %word_of_{part['part'][1:]} : "
                f"i32 to {BYTES}{part['location']}"
            ),
            text,
        )
    return text


def _in_words(found: re.Match[str]) -> str:
    indent, location, result = found["indent"], found["location"], found["result"]
    lines, words = [], []
    for number, operand in enumerate(found["operands"].split(", ")):
        word = f"%given{number}_to_{result[1:]}"
        lines.append(f"{indent}{word} = llvm.bitcast {operand} : {BYTES} to i32{location}")
        words.append(word)
    single = not found["type"].startswith("!llvm.struct")
    name = f"%word_of_{result[1:]}" if single else result
    types = found["types"].replace(BYTES, "i32")
    given = found["type"].replace(BYTES, "i32")
    lines.append(f"{indent}{name} = {found['op']} {', '.join(words)} : ({types}) -> {given}{location}")
    if single:
        lines.append(f"{indent}{result} = llvm.bitcast {name} : i32 to {BYTES}{location}")
    return "\n".join(lines)


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

    Ensures: the plugin carried out both conversions.
    """
    a, b = layouts(case)
    kernel_source = source(case, a, b, convert)
    gpu, options = gpu_target(target), {"num_warps": case.warps}
    with bytes_in_words(), triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True
        if ours:
            with triton_linear.enabled(strict=True, assign=False) as reports:
                kernel = triton.compile(kernel_source, target=gpu, options=options)
            if len(reports) != 1:
                raise ValueError(f"the plugin reports {len(reports)} kernels, not 1")
        else:
            kernel = triton.compile(kernel_source, target=gpu, options=options)
    if not kernel.asm["hsaco"]:
        raise ValueError("there is no hsaco")
    text = kernel.asm["amdgcn"]
    return Kernel(loop(text), {**figures(text), "lds": kernel.metadata.shared}, text)


@functools.cache
def empty_loop(target: str) -> Loop:
    """What the loop takes without conversions: it counts its turns, and no register is touched."""
    from .cases import cases

    return compile_case(cases(target)[0], target, ours=False, convert=False).loop


def sides(case: Case) -> tuple[tuple[LinearLayout, LinearLayout], ...]:
    """(source, destination) of the two conversions."""
    a, b = layouts(case)
    return (a, b), (b, a)
