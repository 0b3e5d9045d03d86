"""A `module_machine` on which it shows in which order sums are added, and what is added where it is multiplied.

The plain machine knows where elements come from, and adds them up exactly. Here an addition of two floats is a
number mixed from both, whichever comes first, so every other order gives another number:

- a reduction combines the registers of a thread one after another, then lanes, then warps, as the encoding of
  its operand has them;
- a dot adds one product after another along k;
- a sum of a product is another number where both are done in the same thread, with no conversion in between.

What is exact in any order, integers and extremes, is as on the plain machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from machine_operations import RULES, mixed, named
from module_equivalence import PROGRAMS
from module_machine import Machine, Memory, arguments_of, run

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import Module, Operation, Value, operations, producers_of
from triton_linear.lowering.interpreter.verify import held_elements
from triton_linear.passes.analysis.axis import shape_of

SUMS = ("arith.addf", "arith.subf")
HANDED_ON = frozenset({"arith.extf", "arith.negf", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.splat"})
EXACT = frozenset({"arith.addi", "arith.muli", "arith.andi", "arith.ori", "arith.xori"}) | {
    f"arith.{side}{kind}" for side in ("max", "min") for kind in ("si", "ui", "numf", "imumf")
}


@dataclass
class OrderMachine(Machine):
    """The machine for one module, of which `producers` are known."""

    producers: dict[Value, Operation] = field(default_factory=dict)

    def _does(self, op: Operation, taken: list[Any]) -> Sequence[Any]:
        name = op.name
        if name in SUMS:
            together = [self.is_product(operand) for operand in op.operands]
            if name == "arith.addf" and together[0] == together[1]:
                taken = [np.minimum(*taken), np.maximum(*taken)]
            return [mixed(named(name, *together), *taken)]
        if name == "tt.reduce" and not in_any_order(op):
            return self.reduced(op, taken)
        if name in ("tt.dot", "ttng.warp_group_dot"):
            return self.multiplied(op, taken)
        return super()._does(op, taken)

    def is_product(self, value: Value) -> bool:
        """Whether a thread has multiplied what it has here, with nothing in between."""
        producer = self.producers.get(value)
        while producer is not None and producer.name in HANDED_ON:
            producer = self.producers.get(producer.operands[0])
        return producer is not None and producer.name == "arith.mulf"

    def reduced(self, op: Operation, taken: list[Any]) -> Sequence[Any]:
        """Registers of a thread in a row, then lanes two by two, then warps."""
        axis = op.attributes["axis"].value
        type_ = op.operands[0].type
        order, sizes = order_along(str(type_.encoding), shape_of(type_), axis)
        parts = []
        for operand, values in zip(op.operands, taken, strict=True):
            told = mixed(named("product"), values) if self.is_product(operand) else np.asarray(values)
            row = np.moveaxis(np.take_along_axis(told, order, axis), axis, -1)
            parts.append(row.reshape(*row.shape[:-1], *sizes))
        made = [part[..., 0] for part in parts]
        for register in range(1, sizes[2]):
            made = self.fold(op, made, [part[..., register] for part in parts])
        for _ in ("lanes", "warps"):
            while made[0].shape[-1] > 1:
                made = self.fold(op, [each[..., 0::2] for each in made], [each[..., 1::2] for each in made])
            made = [each[..., 0] for each in made]
        return made

    def multiplied(self, op: Operation, taken: list[Any]) -> Sequence[Any]:
        left, right, total, *others = taken
        if self.bits(op.results[0].type):  # integers are added exactly
            return RULES["tt.dot"](self, op, taken)
        if others and not others[0]:
            total = np.zeros_like(total)
        for k in range(left.shape[-1]):
            total = mixed(named("multiply and add"), total, left[..., :, k, None], right[..., k, None, :])
        return [total]


def in_any_order(op: Operation) -> bool:
    """Whether the region of a reduction is one operation that is exact."""
    first, *others = (view.operation for view in op.regions[0].blocks[0].operations)
    return len(others) == 1 and first.name in EXACT


@lru_cache(maxsize=256)
def order_along(encoding: str, shape: tuple[int, ...], axis: int) -> tuple[Any, tuple[int, int, int]]:
    """The coordinates along an axis by warp, lane and register, for each place of the other dimensions, and how
    many there are of each along it."""
    layout = layout_of(encoding, shape)
    lanes = layout.in_dim_size("lane")
    warps = layout.in_dim_size("warp") if layout.has_in_dim("warp") else 1
    held = held_elements(layout, lanes, warps, 0)
    registers, threads = held.shape
    owner = np.zeros(int(np.prod(shape)), np.int64)
    # Of copies the first counts, so it is written last.
    numbers = np.arange(threads)[None, :] * registers + np.arange(registers)[:, None]
    first = np.argsort(-numbers.reshape(-1))
    owner[held.reshape(-1)[first]] = numbers.reshape(-1)[first]
    places = owner.reshape(*reversed(shape)).transpose()
    order = np.argsort(places, axis=axis, kind="stable")
    row = np.moveaxis(places, axis, -1).reshape(-1, shape[axis])[0]
    in_warps = len(set((row // registers // lanes).tolist()))
    in_lanes = len(set((row // registers % lanes).tolist()))
    return order, (in_warps, in_lanes, shape[axis] // (in_warps * in_lanes))


def stored(root: Module) -> list[Memory]:
    """What a module stores in each run."""
    found = []
    producers = producers_of(operations(root.operation))
    for seed, program in enumerate(PROGRAMS):
        machine = OrderMachine(program=program, producers=producers)
        found.append(run(root, arguments_of(root, seed), machine))
    return found
