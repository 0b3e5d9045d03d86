"""Elements as integers, and integers as words of 32 bits. An i1 moves as 8 bits."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.text import I32, I64, FunctionWriter, build_vector, split_vector, vector_type

_HALVES = frozenset({"f16", "bf16"})
"""What goes into words as it is: two make a vector of 32 bits."""


def width(element: str) -> int:
    """Bits of an LLVM element type; an i1 moves as 8 bits."""
    if element.startswith("!llvm.ptr"):
        return 64
    if element == "bf16":
        return 16
    return max(8, int(element[1:]))


def to_integer(writer: FunctionWriter, value: str, element: str) -> str:
    integer = f"i{width(element)}"
    if element.startswith("!llvm.ptr"):
        return writer.op(f"llvm.ptrtoint {value} : {element} to {integer}")
    if element == "i1":
        return writer.op(f"llvm.zext {value} : i1 to i8")
    return value if element == integer else writer.op(f"llvm.bitcast {value} : {element} to {integer}")


def from_integer(writer: FunctionWriter, value: str, element: str) -> str:
    integer = f"i{width(element)}"
    if element.startswith("!llvm.ptr"):
        return writer.op(f"llvm.inttoptr {value} : {integer} to {element}")
    if element == "i1":
        return writer.op(f"llvm.trunc {value} : i8 to i1")
    return value if element == integer else writer.op(f"llvm.bitcast {value} : {integer} to {element}")


def packed_words(
    writer: FunctionWriter, values: Sequence[str], element: str, settler: InstructionWriter | None
) -> list[str]:
    """Elements as 32-bit words; by the `settler` where they may be accumulators."""
    bits = width(element)
    if settler is not None and bits == 32:
        return [settler.settled(writer, value, element) for value in values]
    if element not in _HALVES:
        values, element = [to_integer(writer, value, element) for value in values], f"i{bits}"
    words = pack(writer, values, element)
    return words if settler is None else [settler.settled(writer, word, I32) for word in words]


def pack(writer: FunctionWriter, values: Sequence[str], element: str) -> list[str]:
    """Integers or halves as 32-bit words, lowest first; fewer than 32 bits are zero-extended."""
    bits = width(element)
    if bits == 32:
        return list(values)
    if bits == 64:
        words = [writer.op(f"llvm.bitcast {value} : {I64} to vector<2xi32>") for value in values]
        return [part for word in words for part in split_vector(writer, word, I32, 2)]
    per_word = min(len(values), 32 // bits)
    words = []
    for start in range(0, len(values), per_word):
        vector = build_vector(writer, values[start : start + per_word], element)
        packed_bits = bits * per_word
        packed = vector_type(element, per_word)
        if packed != f"i{packed_bits}":
            vector = writer.op(f"llvm.bitcast {vector} : {packed} to i{packed_bits}")
        words.append(
            vector if packed_bits == 32 else writer.op(f"llvm.zext {vector} : i{packed_bits} to {I32}")
        )
    return words


def unpacked(writer: FunctionWriter, words: Sequence[str], element: str, count: int) -> list[str]:
    """The inverse of `packed_words` for `count` elements."""
    if element in _HALVES:
        return split_words(writer, words, element, count)
    values = split_words(writer, words, f"i{width(element)}", count)
    return [from_integer(writer, value, element) for value in values]


def split_words(writer: FunctionWriter, words: Sequence[str], element: str, count: int) -> list[str]:
    """The inverse of `pack` for `count` integers or halves."""
    bits = width(element)
    if bits == 32:
        return list(words)
    if bits == 64:
        pairs = [build_vector(writer, words[start : start + 2], I32) for start in range(0, len(words), 2)]
        return [writer.op(f"llvm.bitcast {pair} : vector<2xi32> to {I64}") for pair in pairs]
    per_word = min(count, 32 // bits)
    values = []
    for word in words:
        packed_bits = bits * per_word
        narrow = word if packed_bits == 32 else writer.op(f"llvm.trunc {word} : {I32} to i{packed_bits}")
        packed = vector_type(element, per_word)
        if packed != f"i{packed_bits}":
            narrow = writer.op(f"llvm.bitcast {narrow} : i{packed_bits} to {packed}")
        values += split_vector(writer, narrow, element, per_word)
    return values
