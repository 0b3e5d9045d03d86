"""A machine that runs a whole TritonGPU module on tensors, and tells every element from every other.

A tensor is an array of its shape: layouts say where elements are, not what they are. Integers and pointers
are what they are, wrapped to their width. Of floats it matters only where they come from: a load gives a number
mixed from the address, any other operation one mixed from its name and what it takes. So modules that store the
same to every address compute the same, whatever the operations mean.

Sums (of a reduction, or of a dot over k) are exact modulo 2^64, maxima those of the numbers. So what comes out
does not depend on the order of elements where rounding alone would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from machine_operations import (
    EXTREMES,
    NOTHING,
    RULES,
    SAME,
    SAYING,
    SIGNED,
    UNSIGNED,
    Numbers,
    Unsupported,
    integer_bits,
    mixed,
    named,
    unsigned,
    wrapped,
)

from triton_linear.dialect.mlir_adapter import (
    Block,
    Module,
    Operation,
    RankedTensorType,
    Type,
    Value,
    operations,
)
from triton_linear.passes.analysis.axis import shape_of
from triton_linear.passes.operations.table import named as known_as

MOST_BLOCKS = 64
"""Blocks of a function that are run at most, one after another."""


@dataclass(eq=False)
class Memory:
    """Values by the address of their first byte. Where nothing was written is what `initial` gives."""

    initial: Callable[[Numbers], Numbers] = mixed
    addresses: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    values: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))

    def load(self, addresses: Numbers) -> Numbers:
        result = self.initial(addresses)
        if not len(self.addresses):
            return result
        places = np.minimum(np.searchsorted(self.addresses, addresses), len(self.addresses) - 1)
        return np.where(self.addresses[places] == addresses, self.values[places], result)

    def store(self, addresses: Numbers, values: Numbers) -> None:
        """Of several values for an address the last stays."""
        every = np.concatenate([self.addresses, addresses])[::-1]
        kept, places = np.unique(every, return_index=True)
        self.addresses, self.values = kept, np.concatenate([self.values, values])[::-1][places]

    def same(self, other: Memory) -> bool:
        """Whether the same was written to the same addresses."""
        return np.array_equal(self.addresses, other.addresses) and np.array_equal(self.values, other.values)


@dataclass
class Machine:
    """Runs the functions of a module.

    memory: what was stored. watch: called with each value and what it is, as often as it is computed. masked:
    whether an access was left out, and whether one was not.
    """

    memory: Memory = field(default_factory=Memory)
    watch: Callable[[Value, Any], None] | None = None
    masked: set[bool] = field(default_factory=set)
    program: tuple[int, ...] = (0, 0, 0)
    now: dict[Value, Any] = field(default_factory=dict)
    _bits: dict[Type, int] = field(default_factory=dict)

    def call(self, function: Operation, arguments: Sequence[Numbers | int]) -> None:
        """Run a function that gives nothing."""
        block: Block = function.regions[0].blocks[0]
        given: list[Any] = [np.asarray(each, np.int64) for each in arguments]
        for _ in range(MOST_BLOCKS):
            taken = self.block(block, given)
            end = list(block.operations)[-1].operation
            if end.name == "cf.br":
                block, given = end.successors[0], taken
            elif end.name == "cf.cond_br":
                _, yes, _ = end.attributes["operandSegmentSizes"]
                block = end.successors[0 if taken[0] else 1]
                given = taken[1 : 1 + yes] if taken[0] else taken[1 + yes :]
            else:
                return
        raise Unsupported(f"the machine does not go through more than {MOST_BLOCKS} blocks")

    def bits(self, type_: Type) -> int:
        if type_ not in self._bits:
            self._bits[type_] = integer_bits(type_)
        return self._bits[type_]

    def set(self, value: Value, what: Any) -> None:
        if isinstance(value.type, RankedTensorType):
            what = np.broadcast_to(what, shape_of(value.type))
        self.now[value] = what
        if self.watch is not None:
            self.watch(value, what)

    def block(self, block: Block, arguments: Sequence[Any] = ()) -> list[Any]:
        """What the block's terminator takes."""
        for argument, what in zip(block.arguments, arguments, strict=False):
            self.set(argument, what)
        taken: list[Any] = []
        for view in block.operations:
            op = view.operation
            taken = [self.now[operand] for operand in op.operands]
            results = list(op.results)
            for result, what in zip(results, self._does(op, taken) if results else (), strict=True):
                self.set(result, what)
            if not results:
                self._does(op, taken)
        return taken

    def _does(self, op: Operation, taken: list[Any]) -> Sequence[Any]:
        name = op.name
        rule = RULES.get(name)
        if rule is not None:
            return rule(self, op, taken)
        if name in SAME:
            return [wrapped(taken[0], self.bits(op.results[0].type))]
        if name in SIGNED:
            return [wrapped(SIGNED[name](*taken), self.bits(op.results[0].type))]
        if name in UNSIGNED:
            bits = self.bits(op.results[0].type)
            found = UNSIGNED[name](*(unsigned(np.asarray(each), bits) for each in taken))
            return [wrapped(np.asarray(found, np.uint64).view(np.int64), bits)]
        if name in EXTREMES:
            return [EXTREMES[name](*taken)]
        if name in NOTHING:
            return [None] * len(op.results)
        if known_as(name).elementwise and len(op.results) == 1:
            said = [str(op.attributes[key]) for key in SAYING if key in op.attributes]
            bits = self.bits(op.results[0].type)
            kind = str(getattr(op.results[0].type, "element_type", op.results[0].type))
            return [wrapped(mixed(named(name, kind, *said), *taken), bits)]
        raise Unsupported(f"the machine does not know '{name}'")

    def fold(self, op: Operation, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """What the region of a reduction or scan makes of elements."""
        watch, self.watch = self.watch, None
        taken = self.block(op.regions[0].blocks[0], [*left, *right])
        self.watch = watch
        return taken

    def load(self, value: Value, addresses: Numbers, mask: Any, other: Any) -> Numbers:
        """What is at the addresses, in the type of `value`; where masked off, `other`, or nothing known."""
        loaded = wrapped(self.memory.load(np.asarray(addresses)), self.bits(value.type))
        if mask is None:
            return loaded
        self.masked |= set(np.unique(mask != 0).tolist())
        return np.where(mask != 0, loaded, 0 if other is None else other)

    def store(self, addresses: Numbers, values: Numbers, mask: Any) -> None:
        addresses, values = np.broadcast_arrays(addresses, values)
        flags = np.broadcast_to(True if mask is None else mask != 0, addresses.shape)
        if mask is not None:
            self.masked |= set(np.unique(flags).tolist())
        self.memory.store(addresses[flags], values[flags])


def run(root: Module, arguments: Sequence[int], machine: Machine) -> Memory:
    """What the kernel of a module stores."""
    function = next(op for op in operations(root.operation) if op.name == "tt.func")
    with np.errstate(over="ignore"):
        machine.call(function, arguments)
    return machine.memory


def arguments_of(root: Module, seed: int) -> list[int]:
    """Random arguments that keep the promises made of them: pointers far apart, and small numbers."""
    random = np.random.default_rng(seed)
    function = next(op for op in operations(root.operation) if op.name == "tt.func")
    given = []
    for index, argument in enumerate(function.regions[0].blocks[0].arguments):
        promised = 1
        if "arg_attrs" in function.attributes:
            promises = function.attributes["arg_attrs"][index]
            promised = promises["tt.divisibility"].value if "tt.divisibility" in promises else 1
        small = int(random.integers(1, 2 if seed == 0 else 12)) * promised
        given.append((index + 1 << 44) + small if str(argument.type).startswith("!tt.ptr") else small)
    return given
