"""The linear layout of a value, from its type. It describes the registers that Triton uses in LLVM IR."""

from __future__ import annotations

import math
import re
from dataclasses import field
from functools import lru_cache

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import OpaqueType, RankedTensorType, Type
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType, element_type

_MEMDESC = re.compile(
    r"memdesc<(?P<shape>(?:\d+x)+)(?P<element>[^,]+), (?P<encoding>#.+?), "
    r"#\w+\.shared_memory(?=[,>])(?:, mutable)?(?:, (?P<allocated>\d+(?:x\d+)*))?>"
)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reason why a tensor or memory descriptor has no linear layout."""

    reason: str


Layout = LinearLayout | Unknown


@lru_cache(maxsize=4096)
def _tensor(encoding: str | None, shape: tuple[int, ...], element: str) -> Layout:
    if encoding is None:
        return Unknown("the tensor has no encoding")
    try:
        return encodings.held_layout_of(encoding, shape, element_type(element).bits)
    except ValueError as error:
        return Unknown(str(error))


@lru_cache(maxsize=4096)
def _memory(text: str) -> Layout:
    """The layout of one buffer of a memory descriptor. Dimensions before the encoding's rank number buffers."""
    if (match := _MEMDESC.fullmatch(text)) is None:
        return Unknown(f"cannot read the type '!ttg.{text}'")
    shape = tuple(map(int, match["shape"].rstrip("x").split("x")))
    if match["allocated"]:
        shape = tuple(map(int, match["allocated"].split("x")))
    try:
        rank = encodings.parse(match["encoding"]).rank or len(shape)
        return encodings.layout_of(match["encoding"], shape[-rank:], element_type(match["element"]).bits)
    except ValueError as error:
        return Unknown(str(error))


def memory_of(type_: Type) -> tuple[tuple[int, ...], str, str] | None:
    """Shape, element type and encoding of a memory descriptor; None for every other type."""
    found = _MEMDESC.fullmatch(str(type_).removeprefix("!ttg."))
    if found is None:
        return None
    return tuple(map(int, found["shape"].rstrip("x").split("x"))), found["element"], found["encoding"]


@dataclass(slots=True)
class LayoutTable:
    """A cache of layouts by type, for one run over one module: types of one context are cheap to compare."""

    known: dict[Type, Layout | None] = field(default_factory=dict)

    def of(self, type_: Type) -> Layout | None:
        """The layout of a tensor or memory descriptor, or why it has none; None for every other type."""
        try:
            return self.known[type_]
        except KeyError:
            layout = self.known[type_] = _of_type(type_)
            return layout

    def both(self, one: Type, other: Type) -> tuple[LinearLayout, LinearLayout] | str:
        """The layouts of two tensors or memory descriptors; or why one of them has none."""
        first, second = self.of(one), self.of(other)
        if isinstance(first, LinearLayout) and isinstance(second, LinearLayout):
            return first, second
        missing = second if isinstance(first, LinearLayout) else first
        return missing.reason if isinstance(missing, Unknown) else "its operand is no tensor"


def _of_type(type_: Type) -> Layout | None:
    if isinstance(type_, RankedTensorType):
        encoding = type_.encoding
        return _tensor(None if encoding is None else str(encoding), tuple(type_.shape), str(type_.element_type))
    if isinstance(type_, OpaqueType) and type_.dialect_namespace == "ttg" and type_.data.startswith("memdesc<"):
        return _memory(type_.data)
    return None


def element_of(type_: Type) -> ElementType:
    """The element type of a tensor."""
    return element_type(str(type_.element_type))


def words_of(type_: Type, table: LayoutTable) -> int:
    """The 32-bit registers in which a thread holds a tensor; 0 if its layout or element type is not known."""
    layout = table.of(type_)
    if not isinstance(layout, LinearLayout):
        return 0
    try:
        bits = element_of(type_).bits
    except ValueError:
        return 0
    return math.ceil(layout.in_dim_size(REGISTER) * bits / 32)
