"""What code moves, 32 bits at a time, in the form that whoever takes it asks for.

Elements of 16 bits come out of vectors and structs one by one, and what joins halves of words or makes a struct
again takes them one by one. Only instructions that move words want an i32. So each form is written when it is
first asked for: LLVM sees through either, but Triton's passes walk over every operation.

Some forms LLVM does not see through. Bytes it takes out of four, and out of more it makes more instructions.
What is stored as a vector of halves it computes in vectors of that length, and then has no instruction of AMD
that gives one half of a product (`v_fma_mixlo_f16`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.emit.text import I32, FunctionWriter, build_vector, vector_type

WORD, HALF = 32, 16
"""Bits of a part, and of the elements of which there are two in one."""


def type_bits(type_: str) -> int:
    """Bits of an integer or float type of LLVM.

    >>> type_bits("bf16"), type_bits("i8")
    (16, 8)
    """
    return int(type_.lstrip("bfi"))


class Vector:
    """Bits in registers: values of one type side by side, the lowest first. As values of another type they are
    written when they are asked for.

    values: their names. whole: instead, the name of the vector of `count` of them. bits: of all.
    """

    def __init__(
        self,
        writer: FunctionWriter,
        element: str,
        values: Sequence[str] = (),
        *,
        whole: str = "",
        count: int = 0,
    ) -> None:
        self.element = element
        self.values = tuple(values)
        self._writer = writer
        self.bits = type_bits(element) * (count or len(values))
        self._wholes = {element: whole} if whole else {}
        self._found: dict[tuple[str, int], str] = {}
        self._words: dict[int, Vector] = {}

    def value(self, element: str, index: int) -> str:
        """The bits as values of a type: the one of this number. Fewer than a word are extended by zeros."""
        if element == self.element and index < len(self.values):
            return self.values[index]
        key = element, index
        if key not in self._found:
            self._found[key] = self._written(element, index)
        return self._found[key]

    def _written(self, element: str, index: int) -> str:
        writer, bits = self._writer, type_bits(element)
        if self.bits < bits:
            narrow = f"i{self.bits}"
            return writer.op(f"llvm.zext {self._whole(narrow)} : {narrow} to {element}")
        if self.bits <= index * bits:
            return self._word(0).value(element, index)
        if bits < HALF and self.bits > WORD:
            word, slot = divmod(index, WORD // bits)
            return self._word(word).value(element, slot)
        if self.values and bits == type_bits(self.element):
            return writer.op(f"llvm.bitcast {self.values[index]} : {self.element} to {element}")
        whole, type_ = self._whole(element), self._type(element)
        if type_ == element:
            return whole
        return writer.op(f"llvm.extractelement {whole}[{writer.constant(index)} : i32] : {type_}")

    def _word(self, index: int) -> Vector:
        """One word of it by itself."""
        if index not in self._words:
            self._words[index] = Vector(self._writer, I32, (self.value(I32, index),))
        return self._words[index]

    def _whole(self, element: str) -> str:
        """All of it, as a vector of values of a type, or the value itself where that is one."""
        if element not in self._wholes:
            if element == self.element:
                whole = build_vector(self._writer, self.values, element)
            else:
                own = self._type(self.element)
                whole = self._whole(self.element)
                if own != self._type(element):
                    whole = self._writer.op(f"llvm.bitcast {whole} : {own} to {self._type(element)}")
            self._wholes[element] = whole
        return self._wholes[element]

    def _type(self, element: str) -> str:
        return vector_type(element, self.bits // type_bits(element))


@dataclass(frozen=True, slots=True)
class Part:
    """32 bits of a vector, or all of one that has fewer: those of number `index`."""

    vector: Vector
    index: int = 0

    @classmethod
    def of(cls, writer: FunctionWriter, word: str) -> Part:
        """The part that an i32 is."""
        return cls(Vector(writer, I32, (word,)))

    @property
    def word(self) -> str:
        """An i32."""
        return self.vector.value(I32, self.index)

    def slot(self, element: str, number: int) -> str:
        """One of the values of a type that lie in the part."""
        return self.vector.value(element, self.index * (WORD // type_bits(element)) + number)


Parts = list[Part]
"""The 32-bit values that make a word: one, or two where elements have 64 bits."""


def parts_of(writer: FunctionWriter, words: Iterable[str]) -> Parts:
    """The parts that these i32 are."""
    return [Part.of(writer, word) for word in words]


def side_by_side(writer: FunctionWriter, parts: Sequence[Part], bits: int) -> tuple[str, str]:
    """The lowest `bits` of parts side by side, as a vector or a value alone, and its type.

    Parts that are made of values of one type, a word or more each, stay those; else they are words.
    """
    element = parts[0].vector.element
    values = _made_of(parts, element)
    if values is None or type_bits(element) < WORD:
        element, values = I32, [part.word for part in parts]
    if bits < type_bits(element):
        narrow = f"i{bits}"
        return writer.op(f"llvm.trunc {values[0]} : {element} to {narrow}"), narrow
    values = values[: bits // type_bits(element)]
    return build_vector(writer, values, element), vector_type(element, len(values))


def _made_of(parts: Sequence[Part], element: str) -> list[str] | None:
    """The values of a type that parts are made of; None where they are of another, or not the whole of them."""
    values: list[str] = []
    rest = list(reversed(parts))
    while rest:
        vector = rest[-1].vector
        whole = [Part(vector, index) for index in range(max(1, vector.bits // WORD))]
        if vector.element != element or not vector.values or rest[: -len(whole) - 1 : -1] != whole:
            return None
        values += vector.values
        del rest[-len(whole) :]
    return values
