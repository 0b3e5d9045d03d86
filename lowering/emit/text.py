"""A writer of LLVM-dialect code: one line for each operation, values numbered in order, constants shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BARRIER = "gpu.barrier"
"""The CTA's barrier, in the form that Triton's barrier analysis knows."""

I32 = "i32"
I64 = "i64"
SHARED = "!llvm.ptr<3>"


class FunctionWriter:
    """Collects the operations of one block, a line each.

    prefix: prefix of the name of every value.
    location: suffix of every line, ` loc(...)`; empty for none.
    types: aliases of long types.
    barrier: the operation of the CTA's barrier.
    thread: an existing value with the number of the thread; `uses_thread` is then true if code uses it.
    """

    def __init__(
        self,
        prefix: str = "%",
        location: str = "",
        types: Mapping[str, str] | None = None,
        barrier: str = BARRIER,
        thread: str | None = None,
    ) -> None:
        self.prefix = prefix
        self.barrier = barrier
        self.thread = thread
        self.uses_thread = False
        self.waits_for_cta = False
        self._types = types or {}
        self._end = f"{location}\n"
        self._lines: list[str] = []
        self._constants: dict[int, str] = {}
        self._constant_lines: list[str] = []
        self._once: dict[str, str] = {}
        self._next = 0
        self._value, self._append = f"{prefix}v", self._lines.append  # asked for by most of what is written

    def op(self, text: str) -> str:
        """Append `%new = text` and return %new."""
        number = self._next
        self._next = number + 1
        name = f"{self._value}{number}"
        self._append(f"    {name} = {text}{self._end}")
        return name

    def define(self, name: str, text: str) -> str:
        """Append `name = text` and return the name, which the caller chooses."""
        self._lines.append(f"    {name} = {text}{self._end}")
        return name

    def type(self, text: str) -> str:
        """The alias of a type, or the type itself."""
        return self._types.get(text, text)

    def wait_for_cta(self) -> None:
        """Append the barrier of the CTA."""
        self.waits_for_cta = True
        self.effect(self.barrier)

    def once(self, text: str) -> str:
        """`op`, but equal texts share one operation."""
        if text not in self._once:
            self._once[text] = self.op(text)
        return self._once[text]

    def effect(self, text: str) -> None:
        """Append an operation without result."""
        self._lines.append(f"    {text}{self._end}")

    def constant(self, value: int) -> str:
        """The word `value`; equal values share an operation."""
        if value not in self._constants:
            name = self._constants[value] = f"{self.prefix}c{len(self._constants)}"
            self._constant_lines.append(f"    {name} = llvm.mlir.constant({value} : {I32}) : {I32}{self._end}")
        return self._constants[value]

    def binary(self, opcode: str, left: str, right: str) -> str:
        """`llvm.opcode left, right` of words."""
        return self.op(f"llvm.{opcode} {left}, {right} : {I32}")

    def append(self, other: FunctionWriter) -> None:
        """Append all lines of another writer."""
        self._lines.append(other.body())

    def body(self) -> str:
        """All lines so far, constants first."""
        return "".join((*self._constant_lines, *self._lines))


def struct_type(element: str, count: int) -> str:
    """The struct of `count` registers.

    >>> struct_type("f16", 2)
    '!llvm.struct<(f16, f16)>'
    """
    return f"!llvm.struct<({', '.join([element.removeprefix('!llvm.')] * count)})>"


def vector_type(element: str, count: int) -> str:
    """`vector<count x element>`, or the element itself for one."""
    return element if count == 1 else f"vector<{count}x{element}>"


def build_vector(writer: FunctionWriter, values: Sequence[str], element: str) -> str:
    """A vector of `values`, or the value itself for one."""
    if len(values) == 1:
        return values[0]
    type_ = vector_type(element, len(values))
    vector = writer.once(f"llvm.mlir.undef : {type_}")
    for index, value in enumerate(values):
        vector = writer.op(f"llvm.insertelement {value}, {vector}[{writer.constant(index)} : i32] : {type_}")
    return vector


def split_vector(writer: FunctionWriter, vector: str, count: int) -> list[str]:
    """The words of a vector: the inverse of `build_vector`."""
    if count == 1:
        return [vector]
    type_ = vector_type(I32, count)
    return [
        writer.op(f"llvm.extractelement {vector}[{writer.constant(index)} : i32] : {type_}")
        for index in range(count)
    ]
