"""A writer of LLVM-dialect code: one line per operation, values named in order, constants made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.records import dataclass

BARRIER = "gpu.barrier"
"""The CTA's barrier, in the form that Triton's barrier analysis knows."""

I32 = "i32"
I64 = "i64"
SHARED = "!llvm.ptr<3>"
CLUSTER_SHARED = "!llvm.ptr<7>"
"""A pointer to the shared memory of any CTA of the cluster."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The structs of registers that a conversion takes and gives: one field of type `element` each."""

    element: str
    source_registers: int
    result_registers: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """The types of the structs that it takes."""
        return (self.source,)

    @property
    def source(self) -> str:
        """The type of the struct of source registers."""
        return struct_type(self.element, self.source_registers)

    @property
    def result(self) -> str:
        """The type of the struct of destination registers."""
        return struct_type(self.element, self.result_registers)


class FunctionWriter:
    """Collects the operations of one block, a line each.

    prefix: begins the name of every value.
    location: ends every line, ` loc(...)`; empty for none.
    types: aliases of long types.
    barrier: the operation that the CTA's barrier is.
    thread, rank: the values that are the number of the thread and of its CTA in the cluster, where they are
    there already; `uses_thread` and `uses_rank` then tell whether they were asked for.
    cluster_barrier: the operation that the whole barrier of the cluster is, if it is one.
    """

    def __init__(
        self,
        prefix: str = "%",
        location: str = "",
        types: Mapping[str, str] | None = None,
        barrier: str = BARRIER,
        thread: str | None = None,
        rank: str | None = None,
        cluster_barrier: str = "",
    ) -> None:
        self.prefix = prefix
        self.barrier = barrier
        self.thread = thread
        self.rank = rank
        self.cluster_barrier = cluster_barrier
        self.uses_thread = self.uses_rank = False
        self.waits_for_cta = False
        self._types = types or {}
        self._end = f"{location}\n"
        self._lines: list[str] = []
        self._constants: dict[tuple[int, str], str] = {}
        self._constant_lines: list[str] = []
        self._once: dict[str, str] = {}
        self._next = 0

    def op(self, text: str) -> str:
        """Append `%new = text` and return %new."""
        name = f"{self.prefix}v{self._next}"
        self._next += 1
        self._lines.append(f"    {name} = {text}{self._end}")
        return name

    def define(self, name: str, text: str) -> str:
        """Append `name = text`, a name that others know, and return it."""
        self._lines.append(f"    {name} = {text}{self._end}")
        return name

    def type(self, text: str) -> str:
        """What a type is called here: its alias, or as it is written."""
        return self._types.get(text, text)

    def wait_for_cta(self) -> None:
        """Append the barrier of the CTA."""
        self.waits_for_cta = True
        self.effect(self.barrier)

    def once(self, text: str) -> str:
        """`op`, but one operation for the same text."""
        if text not in self._once:
            self._once[text] = self.op(text)
        return self._once[text]

    def effect(self, text: str) -> None:
        """Append an operation without result."""
        self._lines.append(f"    {text}{self._end}")

    def constant(self, value: int, type_: str = I32) -> str:
        """The constant `value`, one operation per distinct value and type."""
        key = (value, type_)
        if key not in self._constants:
            name = f"{self.prefix}c{len(self._constants)}"
            self._constants[key] = name
            self._constant_lines.append(
                f"    {name} = llvm.mlir.constant({value} : {type_}) : {type_}{self._end}"
            )
        return self._constants[key]

    def binary(self, opcode: str, left: str, right: str, type_: str = I32) -> str:
        """`llvm.opcode left, right : type_`."""
        return self.op(f"llvm.{opcode} {left}, {right} : {type_}")

    def append(self, other: FunctionWriter) -> None:
        """Append everything that another writer has written."""
        self._lines.append(other.body())

    def body(self) -> str:
        """Everything written so far, constants first."""
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


def split_vector(writer: FunctionWriter, vector: str, element: str, count: int) -> list[str]:
    """The elements of a vector that `build_vector` could have made."""
    if count == 1:
        return [vector]
    type_ = vector_type(element, count)
    return [
        writer.op(f"llvm.extractelement {vector}[{writer.constant(index)} : i32] : {type_}")
        for index in range(count)
    ]
