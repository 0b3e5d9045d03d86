"""Elements as integers, and integers as words of 32 bits. An i1 moves as 8 bits."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.text import I32, I64, FunctionWriter, build_vector, split_vector


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
    words = pack(writer, [to_integer(writer, value, element) for value in values], bits)
    return words if settler is None else [settler.settled(writer, word, I32) for word in words]


def pack(writer: FunctionWriter, values: Sequence[str], bits: int) -> list[str]:
    """Integers of `bits` bits as 32-bit words, lowest first; fewer than 32 bits are zero-extended."""
    if bits == 32:
        return list(values)
    if bits == 64:
        words = [writer.op(f"llvm.bitcast {value} : {I64} to vector<2xi32>") for value in values]
        return [part for word in words for part in split_vector(writer, word, I32, 2)]
    per_word = min(len(values), 32 // bits)
    words = []
    for start in range(0, len(values), per_word):
        vector = build_vector(writer, values[start : start + per_word], f"i{bits}")
        packed_bits = bits * per_word
        if per_word > 1:
            vector = writer.op(f"llvm.bitcast {vector} : vector<{per_word}xi{bits}> to i{packed_bits}")
        words.append(
            vector if packed_bits == 32 else writer.op(f"llvm.zext {vector} : i{packed_bits} to {I32}")
        )
    return words


def unpacked(writer: FunctionWriter, words: Sequence[str], bits: int, count: int) -> list[str]:
    """The inverse of `pack` for `count` integers."""
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
        if per_word > 1:
            narrow = writer.op(f"llvm.bitcast {narrow} : i{packed_bits} to vector<{per_word}xi{bits}>")
        values += split_vector(writer, narrow, f"i{bits}", per_word)
    return values
