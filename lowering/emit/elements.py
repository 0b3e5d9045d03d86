"""Elements in words of 32 bits, and the types in which they are moved. An i1 moves as an i8."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.parts import HALF, WORD, Part, Parts, Vector, type_bits
from triton_linear.lowering.emit.text import I32, I64, FunctionWriter

BYTES = 4
"""Bytes of a word."""


def carrier_type(element: str) -> str:
    """The type in which an element is moved: its own, but i64 for a pointer and i8 for an i1."""
    if element.startswith("!llvm.ptr"):
        return I64
    return "i8" if element == "i1" else element


def width(element: str) -> int:
    """Bits of the type in which an element is moved."""
    return type_bits(carrier_type(element))


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


def half_of(element: str) -> str:
    """The type of half-words in words of these elements: the element's own if it has 16 bits, else i16."""
    type_ = carrier_type(element)
    return type_ if 2 * type_bits(type_) == WORD else "i16"


def packed_words(
    writer: FunctionWriter,
    values: Sequence[str],
    element: str,
    settler: InstructionWriter | None,
    together: int = 1,
) -> Parts:
    """Pack elements into words, lowest first. A `settler` copies them first, because they may be accumulators.
    together: words of halves that share an LLVM vector.

    Fewer than 32 bits are zero-extended. Elements of 64 bits take two parts each.
    """
    bits = width(element)
    if settler is not None and bits == WORD:
        return [Part.of(writer, settler.settled(writer, value, element)) for value in values]
    type_ = carrier_type(element)
    if type_ != element:
        values = [to_integer(writer, value, element) for value in values]
    per_word = max(1, WORD // bits)
    per_vector = per_word * together if bits == HALF else per_word
    vectors = (
        Vector(writer, type_, values[start : start + per_vector], apart=element == "i1")
        for start in range(0, len(values), per_vector)
    )
    parts = [Part(vector, index) for vector in vectors for index in range(max(1, vector.bits // WORD))]
    if settler is None:
        return parts
    return [Part.of(writer, settler.settled(writer, part.word, I32)) for part in parts]


def unpacked(writer: FunctionWriter, parts: Sequence[Part], element: str, count: int) -> list[str]:
    """Unpack `count` elements: the inverse of `packed_words`."""
    type_ = carrier_type(element)
    if type_bits(type_) > WORD:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        values = [_double(writer, low, high, type_) for low, high in pairs]
    else:
        per_word = min(count, WORD // type_bits(type_))
        values = [part.slot(type_, slot) for part in parts for slot in range(per_word)]
    return values if type_ == element else [from_integer(writer, value, element) for value in values]


def _double(writer: FunctionWriter, low: Part, high: Part, type_: str) -> str:
    """The value of the 64 bits of two parts."""
    if low.vector is high.vector and low.index % 2 == 0 and high.index == low.index + 1:
        return low.vector.value(type_, low.index // 2)
    return Vector(writer, I32, (low.word, high.word)).value(type_, 0)
