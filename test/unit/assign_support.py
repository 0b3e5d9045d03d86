"""Modules to assign layouts of, and an interpreter that runs what they do to integers and pointers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import (
    Block,
    DenseElementsAttr,
    IntegerAttr,
    Module,
    Operation,
    RankedTensorType,
    Value,
    operations,
)
from triton_linear.passes.assignment import addressing, weights
from triton_linear.passes.assignment.axis import AxisAnalysis, pointee_bytes, shape_of

DATA = Path(__file__).parents[1] / "data" / "ttgir"
MODULES = sorted(DATA.rglob("*.ttgir"))
"""TritonGPU IR of torch.compile (`inductor` and what is not in a folder) and of other kernels (`kernels`)."""

Numbers = npt.NDArray[np.int64]
TURNS = 3
"""Turns of a loop that the interpreter takes at most."""


def upstream(path: Path) -> Module:
    return bridge.text_to_upstream(path.read_text(), bridge.upstream_context(), path.name)


def path_of(name: str) -> Path:
    """The module called `name`."""
    (path,) = [path for path in MODULES if path.stem == name]
    return path


def producers_of(root: Module) -> dict[Value, Operation]:
    return {result: op for op in operations(root.operation) for result in op.results}


def axis_of(root: Module) -> AxisAnalysis:
    return AxisAnalysis(producers_of(root))


def _mixed(*parts: Numbers | int) -> Numbers:
    """A number below 2^20 that depends on all of the parts, and on nothing else."""
    result = np.asarray(0x1E3779B9, np.int64)
    for part in parts:
        result = ((result ^ np.asarray(part)) & 0x7FFFFFFF) * 0x3F58476D
        result = result ^ (result >> 17)
    mixed: Numbers = result >> 9 & 0xFFFFF
    return mixed


UNSIGNED = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
SIGNED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}


def _compared(predicate: str, a: Numbers, b: Numbers) -> Numbers:
    if predicate in SIGNED:
        return SIGNED[predicate](a, b).astype(np.int64)
    return UNSIGNED[predicate](a.astype(np.uint64), b.astype(np.uint64)).astype(np.int64)


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    """Rounded towards zero, as the machine does; any number for a division by zero."""
    safe = np.where(b == 0, 1, b)
    result: Numbers = np.sign(a) * np.sign(safe) * (abs(a) // abs(safe))
    return result


_INTEGERS = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.remsi": lambda a, b: a - b * _quotient(a, b),
    "arith.remui": lambda a, b: a - b * _quotient(a, b),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": lambda a, b: a << np.clip(b, 0, 20),
    "arith.shrsi": lambda a, b: a >> np.clip(b, 0, 62),
    "arith.shrui": lambda a, b: a >> np.clip(b, 0, 62),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.select": lambda condition, a, b: np.where(condition != 0, a, b),
}
_SAME = frozenset(
    {"ttg.convert_layout", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.bitcast"}
)


class Interpreter:
    """Runs the functions of a module on random arguments that keep the promises made of them.

    `seen` gets, for each value, every tensor of numbers that it was. Integers do not wrap around. What is
    loaded depends on the place it is loaded from; of floats, only what they depend on is modelled. What is not
    known is random.
    """

    def __init__(self, root: Module, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.seen: dict[Value, list[Numbers]] = {}
        self.now: dict[Value, Numbers] = {}
        for op in operations(root.operation):
            if op.name == "tt.func":
                self._function(op)

    def _set(self, value: Value, numbers: Numbers) -> None:
        numbers = np.broadcast_to(numbers, shape_of(value.type))
        self.now[value] = numbers
        self.seen.setdefault(value, []).append(numbers)

    def _any(self, value: Value) -> Numbers:
        limit = 2 if _is_flag(value) else 1 << 20
        return self.random.integers(0, limit, shape_of(value.type))

    def _function(self, op: Operation) -> None:
        block = op.regions[0].blocks[0]
        for index, argument in enumerate(block.arguments):
            promised = 1
            if "arg_attrs" in op.attributes and "tt.divisibility" in op.attributes["arg_attrs"][index]:
                promised = op.attributes["arg_attrs"][index]["tt.divisibility"].value
            self._set(argument, np.asarray(self.random.integers(0, 40) * promised))
        self._block(block)

    def _block(self, block: Block) -> list[Numbers]:
        """What the block's terminator takes."""
        taken: list[Numbers] = []
        for view in block.operations:
            op = view.operation
            taken = [self.now[operand] for operand in op.operands]
            self._operation(op, taken)
        return taken

    def _operation(self, op: Operation, taken: Sequence[Numbers]) -> None:
        name, attributes = op.name, op.attributes
        if name == "scf.for":
            self._loop(op, taken)
        elif name == "scf.if":
            branches = [region.blocks[0] for region in op.regions if len(region.blocks)]
            for branch in branches:  # the values of both are looked at, the results are those of one
                yielded = self._block(branch)
            for result, numbers in zip(op.results, yielded, strict=False):
                self._set(result, numbers)
        elif len(op.results) != 1 or len(op.regions):
            for result in op.results:
                self._set(result, self._any(result))
        else:
            self._set(op.results[0], self._value(op, op.results[0], name, attributes, taken))

    def _loop(self, op: Operation, taken: Sequence[Numbers]) -> None:
        block = op.regions[0].blocks[0]
        low, high, step = (int(numbers) for numbers in taken[:3])
        carried = list(taken[3:])
        for counter in range(low, high, max(1, step))[:TURNS]:
            self._set(block.arguments[0], np.asarray(counter))
            for argument, numbers in zip(list(block.arguments)[1:], carried, strict=True):
                self._set(argument, numbers)
            carried = self._block(block)
        for result, numbers in zip(op.results, carried, strict=True):
            self._set(result, numbers)

    def _value(
        self, op: Operation, result: Value, name: str, attributes: Any, taken: Sequence[Numbers]
    ) -> Numbers:
        shape = shape_of(result.type)
        if name == "arith.constant":
            return _constant(attributes["value"])
        if name == "tt.make_range":
            return np.arange(attributes["start"].value, attributes["end"].value)
        if name == "tt.splat" or name in _SAME:
            return taken[0]
        if name == "tt.expand_dims":
            return np.expand_dims(taken[0], attributes["axis"].value)
        if name == "tt.broadcast":
            return np.broadcast_to(taken[0], shape)
        if name == "tt.trans":
            return taken[0].transpose(tuple(attributes["order"]))
        if name == "tt.addptr":
            return taken[0] + taken[1] * pointee_bytes(result.type)
        if name == "arith.cmpi":
            return _compared(addressing.PREDICATES[attributes["predicate"].value], *taken)
        if name in _INTEGERS:
            computed: Numbers = _INTEGERS[name](*taken)
            return computed
        if name == "tt.load" and shape == shape_of(op.operands[0].type):
            loaded = _mixed(taken[0], 7)
            loaded = loaded & 1 if _is_flag(result) else loaded
            other = taken[2] if len(taken) > 2 else np.zeros(shape, np.int64)
            return np.where(taken[1] != 0, loaded, other) if len(taken) > 1 else loaded
        if weights.is_elementwise(name) and taken:
            mixed = _mixed(*taken, len(name))
            return mixed & 1 if _is_flag(result) else mixed
        return self._any(result)


def _constant(attribute: Any) -> Numbers:
    if isinstance(attribute, IntegerAttr):
        return np.asarray(int(attribute.value), np.int64)
    if isinstance(attribute, DenseElementsAttr) and attribute.is_splat:
        splat = attribute.get_splat_value()
        return np.asarray(int(splat.value) if isinstance(splat, IntegerAttr) else 5, np.int64)
    return np.asarray(5, np.int64)


def _is_flag(value: Value) -> bool:
    type_ = value.type
    return str(type_.element_type if isinstance(type_, RankedTensorType) else type_) == "i1"
