"""Isolate one operation in a kernel of its own, which Triton lowers and the interpreter runs.

The code of an access to shared memory or of a reduction depends only on its types. So the isolated operation
has the same memory accesses, shuffles and inner barriers as in one iteration of the loops around it. Costs
that depend on its neighbours are not counted: shared arithmetic, and barriers before and after it.
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


class CannotIsolate(Exception):
    """An operation cannot be isolated; the message says why."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The interpreter's counts for an isolated operation, and the bytes of shared memory of its kernel."""

    counts: Counts
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class SingleOperation:
    """A kernel with one operation, as text for libtriton.

    arguments: for each argument the number of registers, 0 for a scalar, -1 for pointers, which are not
    accessed.
    """

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
        """An empty kernel with arguments of these types, and the `ttg` attributes of `like`."""
        own = like.operation.attributes
        attributes = ", ".join(f'"{name}" = {own[name]}' for name in own if name.startswith("ttg."))
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
        """Append a new operation."""
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
        """Append a copy of an operation, with other operands."""
        copy = op.clone(ip=self.end)
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        return copy

    def sink(self, value: Value) -> None:
        """Append a use of a value, so that it is computed."""
        attributes = {"asm_string": f'"{SINK}{_NAME}"', "constraints": '"=r,r"', "packed_element": "1 : i32"}
        self.make("tt.elementwise_inline_asm", [value], [value.type], pure="false", **attributes)

    def finished(self) -> SingleOperation:
        """The kernel as text."""
        table = LayoutTable()
        arguments = []
        for value in self.values:
            layout = table.of(value.type)
            is_pointer = "!tt.ptr" in str(value.type)
            registers = layout.in_dim_size(REGISTER) if isinstance(layout, LinearLayout) else 0
            arguments.append(-1 if is_pointer else registers)
        return SingleOperation(bridge.triton_text(self.module), tuple(arguments))


def isolate_access(
    op: Operation, producers: Mapping[Value, Operation], module: Module, copied: int = 0
) -> SingleOperation:
    """Isolate a store to shared memory, a load from it or a copy to it.

    `copied` is the width of a copy in bytes, which depends on pointers that are not part of the kernel; 0 if
    it is not known. Raises CannotIsolate if it is not known.
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
                raise CannotIsolate("how much is copied at once is not known")
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


def isolate_reduction(op: Operation, producers: Mapping[Value, Operation], module: Module) -> SingleOperation:
    """Isolate a reduction or a scan. Raises CannotIsolate if its region uses outside values that are not
    constants.
    """
    kernel = _Kernel.of(module, [operand.type for operand in op.operands])
    own = set(block_arguments(op))
    outside: dict[Value, Value] = {}
    for inner in operations(op)[1:]:
        for operand in inner.operands:
            if operand in own or operand in outside:
                continue
            constant = producers.get(operand)
            if constant is None or constant.name != "arith.constant":
                raise CannotIsolate("its region takes values from outside")
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


def split_reduction(kernel: SingleOperation, target: Target) -> SingleOperation | None:
    """An isolated reduction after this package's passes; None if they do not change it."""
    module = bridge.text_to_upstream(kernel.text, bridge.upstream_context(), "alone.ttgir")
    prepared = prepare(module, PipelineOptions(assign=False), target)
    if not prepared.rewritten.changed:
        return None
    return SingleOperation(next(prepared.attempts()).text, kernel.arguments)


def isolate(op: Operation, producers: Mapping[Value, Operation], module: Module) -> SingleOperation:
    """Isolate a buffer, or an operation with scratch of Triton's, to find its bytes of shared memory."""
    if op.name == "ttg.local_alloc":
        kernel = _Kernel.of(module, [])
        kernel.make("ttg.local_dealloc", [_buffer(kernel, op.results[0].type)], [])
        return kernel.finished()
    if op.name in ("tt.reduce", "tt.scan"):
        return isolate_reduction(op, producers, module)
    kernel = _Kernel.of(module, [operand.type for operand in op.operands])
    for result in kernel.clone(op, kernel.values).results:
        kernel.sink(result)
    return kernel.finished()


def _buffer(kernel: _Kernel, type_: Type) -> Value:
    """Append the allocation of a mutable buffer."""
    return kernel.make("ttg.local_alloc", [], [_mutable(type_, kernel.module)]).results[0]


def _mutable(type_: Type, module: Module) -> Type:
    return Type.parse(_MUTABLE.sub(r"\1, mutable", str(type_)), module.context)


def _viewed(kernel: _Kernel, memory: Value, producers: Mapping[Value, Operation]) -> Value:
    """Append a buffer, and the views of it that lead to `memory`, with all indices zero."""
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
def count(kernel: SingleOperation, target: Target, warps: int) -> Counted | str:
    """The interpreter's counts, or the reason why the kernel cannot be run."""
    try:
        text = lower(to_triton(kernel.text), target.name, "llvm").text("llvm")
    except ToolError as error:
        return f"Triton does not lower it alone: {error}"
    zero = np.zeros((1, 1), np.uint64)
    arguments: list[Argument] = [None if n < 0 else [zero] * n if n else 0 for n in kernel.arguments]
    try:
        outcome = simulate_function(text, _NAME, arguments, target, warps)
    except SimulationError as error:
        return _PLACE.sub("", str(error))  # the place is in the isolated kernel, which the user does not see
    match = _SHARED.search(text)
    return Counted(outcome.counts, int(match["bytes"]) if match else 0)
