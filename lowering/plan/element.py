"""Element types of tensors as the lowerings need them: a width in bits and the LLVM type of a register."""

from __future__ import annotations

import functools
import re

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element: its MLIR spelling, its width in bits, and its LLVM type in Triton's register structs."""

    name: str
    bits: int
    llvm: str

    @property
    def memory_bytes(self) -> int:
        """Bytes of one element in shared memory; an i1 takes one."""
        return max(8, self.bits) // 8

    @property
    def bare(self) -> ElementType:
        """The integer type of the same width: plans depend on the width alone."""
        return element_type(f"i{self.bits}")

    @property
    def named_space(self) -> str | None:
        """The named address space of a pointer type, `"constant"`, as Triton 3.9 writes it; None without one.

        Its number in LLVM depends on the GPU; `llvm` has the number for NVIDIA GPUs.
        """
        named = re.search(r', ("\w+")>$', self.name)
        return named[1] if named else None

    @property
    def per_word(self) -> int:
        """Elements that are packed into a 32-bit word; one if an element fills a word or more."""
        return max(1, 4 // self.memory_bytes)


_FLOATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@functools.cache
def element_type(text: str) -> ElementType:
    """The element type that MLIR spells `text`.

    Triton holds 8-bit floats as i8 and pointers as `!llvm.ptr<address space>`.

    Raises ValueError for a type without a power-of-two width of 1 to 64 bits.

    >>> element_type("f8E4M3FN")
    ElementType(name='f8E4M3FN', bits=8, llvm='i8')
    >>> element_type("!tt.ptr<f16>").llvm
    '!llvm.ptr<1>'
    """
    if bits := _FLOATS.get(text):
        return ElementType(text, bits, text)
    if re.fullmatch(r"f8E\d+M\d+\w*", text):
        return ElementType(text, 8, "i8")
    if integer := re.fullmatch(r"[su]?i(1|8|16|32|64)", text):
        return ElementType(text, int(integer[1]), f"i{integer[1]}")
    if pointer := re.fullmatch(r"!tt\.ptr<(.*)>", text):
        space = re.search(r",\s*(\d+)$", pointer[1])
        return ElementType(text, 64, f"!llvm.ptr<{space[1] if space else 1}>")
    raise ValueError(f"element type '{text}' has no register form of 1, 8, 16, 32 or 64 bits")
