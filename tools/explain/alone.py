"""One operation of a kernel in a kernel of its own, which Triton lowers and the interpreter runs.

What an access to shared memory or a reduction becomes depends on its types alone, so what is counted there is
what it takes in its own kernel, for one iteration of the loops around it: memory accesses, shuffles and the
barriers inside. Not what depends on its neighbours: arithmetic that is shared with them, barriers before and
behind.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    InsertionPoint,
    Module,
    Operation,
    Type,
    Value,
    block_arguments,
    operations,
)
from triton_linear.lowering.interpreter.assembly import SINK
from triton_linear.lowering.interpreter.counts import Counts
from triton_linear.lowering.interpreter.function import Argument, simulate_function
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.options import PipelineOptions
from triton_linear.pipeline import prepare
from triton_linear.tools.explain.memory import views_of
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton
from triton_linear.tools.support.errors import ToolError

_NAME = "alone"
_SHARED = re.compile(r"ttg\.shared = (?P<bytes>\d+) : i32")
_PLACE = re.compile(r"^\d+:\d+: ")
_MUTABLE = re.compile(r"(#ttg\.shared_memory)(?!, mutable)")


class NotAlone(Exception):
    """Why an operation cannot stand alone."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the interpreter counted for an operation that ran alone, and the shared memory that it had."""

    counts: Counts
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Alone:
    """A kernel with one operation, as text for libtriton; of each argument the registers, 0 for a number and -1
    for pointers, which nobody follows."""

    text: str
    arguments: tuple[int, ...]


@dataclass(slots=True)
class _Kernel:
    """A kernel under construction."""

    module: Module
    values: list[Value]
    results: list[Value] = field(default_factory=list)

    @classmethod
    def of(cls, like: Module, types: Sequence[Type]) -> _Kernel:
        """An empty kernel with arguments of these types, compiled as `like` is."""
        said = like.operation.attributes
        attributes = ", ".join(f'"{name}" = {said[name]}' for name in said if name.startswith("ttg."))
        names = ", ".join(f"%a{number}: {type_}" for number, type_ in enumerate(types))
        listed = ", ".join(map(str, types))
        text = (
            f'"builtin.module"() ({{ "tt.func"() <{{function_type = ({listed}) -> (), sym_name = "{_NAME}", '
            f'sym_visibility = "public"}}> ({{ ^bb0({names}): "tt.return"() : () -> () }}) : () -> () }}) '
            f"{{{attributes}}} : () -> ()"
        )
        module = Module.parse(text, like.context)
        return cls(module, list(module.body.operations[0].regions[0].blocks[0].arguments))

    @property
    def end(self) -> InsertionPoint:
        return InsertionPoint(list(self.module.body.operations[0].regions[0].blocks[0].operations)[-1])

    def make(
        self, name: str, operands: Sequence[Value], results: Sequence[Type], **attributes: str
    ) -> Operation:
        """A new operation at the end."""
        context = self.module.context
        return Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes={key: Attribute.parse(value, context) for key, value in attributes.items()},
            loc=self.module.operation.location,
            ip=self.end,
        )

    def clone(self, op: Operation, operands: Sequence[Value]) -> Operation:
        """A copy of an operation at the end, on other operands."""
        copy = op.clone(ip=self.end)
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        return copy

    def sink(self, value: Value) -> None:
        """Somebody who takes a value, so that it is made."""
        attributes = {"asm_string": f'"{SINK}{_NAME}"', "constraints": '"=r,r"', "packed_element": "1 : i32"}
        self.make("tt.elementwise_inline_asm", [value], [value.type], pure="false", **attributes)

    def finished(self) -> Alone:
        """The kernel as text."""
        table = LayoutTable()
        found = []
        for value in self.values:
            layout = table.of(value.type)
            pointers = "!tt.ptr" in str(value.type)
            held = layout.in_dim_size(REGISTER) if isinstance(layout, LinearLayout) else 0
            found.append(-1 if pointers else held)
        return Alone(bridge.triton_text(self.module), tuple(found))


def access_alone(op: Operation, producers: Mapping[Value, Operation], module: Module, copied: int = 0) -> Alone:
    """A store to shared memory, a load from it or a copy to it.

    `copied` are the bytes that a copy moves at once, which pointers tell that do not come along.
    Raises NotAlone where it cannot be seen which buffer is accessed.
    """
    match op.name:
        case "ttg.local_alloc":
            kernel = _Kernel.of(module, [op.operands[0].type])
            memory = _buffer(kernel, op.results[0].type)
            kernel.make("ttg.local_store", [kernel.values[0], memory], [])
        case "ttg.local_store":
            kernel = _Kernel.of(module, [op.operands[0].type])
            kernel.clone(op, [kernel.values[0], _viewed(kernel, op.operands[1], producers)])
        case "ttg.local_load":
            kernel = _Kernel.of(module, [])
            memory = _viewed(kernel, op.operands[0], producers)
            kernel.sink(kernel.make(op.name, [memory], [op.results[0].type]).results[0])
        case _:
            if copied == 0:
                raise NotAlone("how much is copied at once is not known")
            kernel = _Kernel.of(module, [op.operands[0].type])
            memory = _viewed(kernel, op.operands[1], producers)
            element = max(1, int(re.findall(r"\d+", str(op.operands[0].type).split("ptr<")[1])[0]) // 8)
            kernel.make(
                op.name,
                [kernel.values[0], memory],
                [op.results[0].type],
                operandSegmentSizes="array<i32: 1, 1, 0, 0>",
                contiguity=f"{copied // element} : i32",
            )
    return kernel.finished()


def reduction_alone(op: Operation, producers: Mapping[Value, Operation], module: Module) -> Alone:
    """A reduction or a scan. Raises NotAlone where its region takes what is no constant from outside."""
    kernel = _Kernel.of(module, [operand.type for operand in op.operands])
    own = set(block_arguments(op))
    outside: dict[Value, Value] = {}
    for inner in operations(op)[1:]:
        for operand in inner.operands:
            if operand in own or operand in outside:
                continue
            constant = producers.get(operand)
            if constant is None or constant.name != "arith.constant":
                raise NotAlone("its region takes values from outside")
            outside[operand] = constant.clone(ip=kernel.end).results[0]
        own.update(inner.results)
    copy = kernel.clone(op, kernel.values)
    for inner in operations(copy)[1:]:
        for number, operand in enumerate(inner.operands):
            if operand in outside:
                inner.operands[number] = outside[operand]
    for result in copy.results:
        kernel.sink(result)
    return kernel.finished()


def taken_apart(kernel: Alone, target: Target) -> Alone | None:
    """A reduction alone as this package compiles it; None where that is what Triton makes of it."""
    module = bridge.text_to_upstream(kernel.text, bridge.upstream_context(), "alone.ttgir")
    prepared = prepare(module, PipelineOptions(assign=False), target)
    if not prepared.rewritten.changed:
        return None
    return Alone(next(prepared.attempts()).text, kernel.arguments)


def alone(op: Operation, producers: Mapping[Value, Operation], module: Module) -> Alone:
    """A buffer, or an operation that has scratch of Triton's, for the bytes that it takes."""
    if op.name == "ttg.local_alloc":
        kernel = _Kernel.of(module, [])
        kernel.make("ttg.local_dealloc", [_buffer(kernel, op.results[0].type)], [])
        return kernel.finished()
    if op.name in ("tt.reduce", "tt.scan"):
        return reduction_alone(op, producers, module)
    kernel = _Kernel.of(module, [operand.type for operand in op.operands])
    for result in kernel.clone(op, kernel.values).results:
        kernel.sink(result)
    return kernel.finished()


def _buffer(kernel: _Kernel, type_: Type) -> Value:
    """A buffer that may be stored to."""
    return kernel.make("ttg.local_alloc", [], [_mutable(type_, kernel.module)]).results[0]


def _mutable(type_: Type, module: Module) -> Type:
    return Type.parse(_MUTABLE.sub(r"\1, mutable", str(type_)), module.context)


def _viewed(kernel: _Kernel, memory: Value, producers: Mapping[Value, Operation]) -> Value:
    """The part of a buffer that is accessed, the first of several."""
    views, root = views_of(memory, producers)
    value = _buffer(kernel, root.type)
    for view in reversed(views):
        numbers = [
            kernel.make("arith.constant", [], [o.type], value="0 : i32") for o in list(view.operands)[1:]
        ]
        copy = kernel.clone(view, [value, *(number.results[0] for number in numbers)])
        value = copy.results[0]
        value.set_type(_mutable(value.type, kernel.module))
    return value


@functools.lru_cache(maxsize=1024)
def count(kernel: Alone, target: Target, warps: int) -> Counted | str:
    """What the interpreter counts, or why it cannot."""
    try:
        text = lower(to_triton(kernel.text), target.name, "llvm").text("llvm")
    except ToolError as error:
        return f"Triton does not lower it alone: {error}"
    zero = np.zeros((1, 1), np.uint64)
    arguments: list[Argument] = [None if n < 0 else [zero] * n if n else 0 for n in kernel.arguments]
    try:
        outcome = simulate_function(text, _NAME, arguments, target, warps)
    except SimulationError as error:
        return _PLACE.sub("", str(error))  # of the kernel that nobody sees
    found = _SHARED.search(text)
    return Counted(outcome.counts, int(found["bytes"]) if found else 0)
