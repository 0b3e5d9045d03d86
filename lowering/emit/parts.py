"""Register values of 32 bits, converted lazily to the type that an instruction takes.

Elements of 16 bits are extracted from vectors and structs one at a time, and are inserted into words and
structs one at a time. Only instructions that move words take an i32. So a conversion is written when its type
is first asked for. LLVM would remove the others, but Triton's passes walk over every operation.

LLVM handles two forms badly. It extracts a byte well from a vector of four bytes, but takes more instructions
for a longer vector. And if a vector of halves is stored, it computes the halves in vectors of that length, for
which AMD's instruction for one half of a product (`v_fma_mixlo_f16`) does not exist.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.emit.text import I32, FunctionWriter, build_vector, vector_type

WORD, HALF = 32, 16
"""Bits of a part, and of a half of it."""


@functools.cache
def type_bits(type_: str) -> int:
    """Bits of an integer or float type of LLVM.

    >>> type_bits("bf16"), type_bits("i8")
    (16, 8)
    """
    return int(type_.lstrip("bfi"))


class Vector:
    """Values of one type side by side, the lowest first. Conversions to other types are written on demand.

    values: the names of the values. whole, count: instead of `values`, the name of an LLVM vector of `count`
    values. bits: of all values together. apart: the values are not in words yet, so a word of any others of
    them takes no permute.
    """

    def __init__(
        self,
        writer: FunctionWriter,
        element: str,
        values: Sequence[str] = (),
        *,
        whole: str = "",
        count: int = 0,
        apart: bool = False,
    ) -> None:
        self.element = element
        self.values = tuple(values)
        self.apart = apart
        self._writer = writer
        self.bits = type_bits(element) * (count or len(values))
        self._wholes = {element: whole} if whole else {}
        self._found: dict[tuple[str, int], str] = {}
        self._words: dict[int, Vector] = {}

    def value(self, element: str, index: int) -> str:
        """Value number `index`, if the bits are read as values of type `element`. A vector with fewer bits than
        one value is extended by zeros."""
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
        """Word number `index` as a vector of its own."""
        if index not in self._words:
            self._words[index] = Vector(self._writer, I32, (self.value(I32, index),))
        return self._words[index]

    def _whole(self, element: str) -> str:
        """The LLVM vector of all values of type `element`, or the value itself if there is only one."""
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
    """Word number `index` of a vector, of 32 bits, or the whole vector if it has fewer."""

    vector: Vector
    index: int = 0

    @classmethod
    def of(cls, writer: FunctionWriter, word: str) -> Part:
        """The part with the bits of the i32 `word`."""
        return cls(Vector(writer, I32, (word,)))

    @property
    def word(self) -> str:
        """The part as an i32."""
        return self.vector.value(I32, self.index)

    def slot(self, element: str, number: int) -> str:
        """Value number `number` of the part, if it is read as values of type `element`."""
        return self.vector.value(element, self.index * (WORD // type_bits(element)) + number)


Parts = list[Part]
"""The 32-bit values that make a word: one, or two if elements have 64 bits."""


def parts_of(writer: FunctionWriter, words: Iterable[str]) -> Parts:
    """The parts with the bits of the i32s `words`."""
    return [Part.of(writer, word) for word in words]


def side_by_side(writer: FunctionWriter, parts: Sequence[Part], bits: int) -> tuple[str, str]:
    """(name, type) of the lowest `bits` of parts side by side, as a vector or a single value.

    Parts that consist of values of one type of a word or more keep this type; other parts become words.
    """
    element = parts[0].vector.element
    values = _values_of(parts, element)
    if values is None or type_bits(element) < WORD:
        element, values = I32, [part.word for part in parts]
    if bits < type_bits(element):
        narrow = f"i{bits}"
        return writer.op(f"llvm.trunc {values[0]} : {element} to {narrow}"), narrow
    values = values[: bits // type_bits(element)]
    return build_vector(writer, values, element), vector_type(element, len(values))


def _values_of(parts: Sequence[Part], element: str) -> list[str] | None:
    """The values of type `element` that the parts consist of; None if some are of another type or
    incomplete."""
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
