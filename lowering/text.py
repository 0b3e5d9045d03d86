"""A writer of LLVM-dialect functions: one line per operation, values named in order, constants made once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

I32 = "i32"
I64 = "i64"
SHARED = "!llvm.ptr<3>"


@dataclass(frozen=True, slots=True)
class StubHeader:
    """The signature of a stub as Triton lowered it.

    `symbol` has no @. `arguments` are (name, type) pairs: first the struct of source registers, later the
    shared-memory base `!llvm.ptr<3>` if the kernel has any. `attributes` are kept but for `noinline`.
    """

    symbol: str
    arguments: tuple[tuple[str, str], ...]
    result: str
    attributes: str = ""

    def shared_base(self) -> str:
        """The name of the shared-memory argument.

        Raises ValueError when the function has none.
        """
        for name, type_ in self.arguments:
            if type_ == SHARED:
                return name
        raise ValueError(f"@{self.symbol} has no {SHARED} argument for its scratch")


class FunctionWriter:
    """Collects the body of one function in a single block."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._constants: dict[tuple[int, str], str] = {}
        self._constant_lines: list[str] = []
        self._next = 0

    def op(self, text: str) -> str:
        """Append `%new = text` and return %new."""
        name = f"%v{self._next}"
        self._next += 1
        self._lines.append(f"    {name} = {text}\n")
        return name

    def effect(self, text: str) -> None:
        """Append an operation without result."""
        self._lines.append(f"    {text}\n")

    def constant(self, value: int, type_: str = I32) -> str:
        """The constant `value`, one operation per distinct value and type."""
        key = (value, type_)
        if key not in self._constants:
            name = f"%c{len(self._constants)}"
            self._constants[key] = name
            self._constant_lines.append(f"    {name} = llvm.mlir.constant({value} : {type_}) : {type_}\n")
        return self._constants[key]

    def binary(self, opcode: str, left: str, right: str, type_: str = I32) -> str:
        """`llvm.opcode left, right : type_`."""
        return self.op(f"llvm.{opcode} {left}, {right} : {type_}")

    def body(self) -> str:
        """Everything written so far, constants first."""
        return "".join((*self._constant_lines, *self._lines))


def struct_type(element: str, count: int) -> str:
    """The struct of `count` registers.

    >>> struct_type("f16", 2)
    '!llvm.struct<(f16, f16)>'
    """
    return f"!llvm.struct<({', '.join([element] * count)})>"


def struct_fields(type_: str) -> list[str]:
    """The field types of a struct of registers.

    Raises ValueError for any other type.

    >>> struct_fields("!llvm.struct<(ptr<1>, i8)>")
    ['!llvm.ptr<1>', 'i8']
    """
    found = re.fullmatch(r"!llvm\.struct<\((.*)\)>", type_)
    if found is None:
        raise ValueError(f"'{type_}' is not a struct of registers")
    return [re.sub(r"^ptr\b", "!llvm.ptr", field) for field in found[1].split(", ")]


def vector_type(element: str, count: int) -> str:
    """`vector<count x element>`, or the element itself for one."""
    return element if count == 1 else f"vector<{count}x{element}>"


def build_vector(writer: FunctionWriter, values: Sequence[str], element: str) -> str:
    """A vector of `values`, or the value itself for one."""
    if len(values) == 1:
        return values[0]
    type_ = vector_type(element, len(values))
    vector = writer.op(f"llvm.mlir.undef : {type_}")
    for index, value in enumerate(values):
        vector = writer.op(f"llvm.insertelement {value}, {vector}[{writer.constant(index)} : i32] : {type_}")
    return vector


def split_vector(writer: FunctionWriter, vector: str, element: str, count: int) -> list[str]:
    """The elements of a vector that `build_vector` could have made."""
    if count == 1:
        return [vector]
    type_ = vector_type(element, count)
    return [
        writer.op(f"llvm.extractelement {vector}[{writer.constant(index)} : i32] : {type_}")
        for index in range(count)
    ]
