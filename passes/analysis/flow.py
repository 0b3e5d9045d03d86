"""What values may come from and come to, through loops, branches and functions; and the order of operations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from triton_linear.dialect.mlir_adapter import Attribute, Block, DenseElementsAttr, Operation, Value
from triton_linear.passes.operations import names
from triton_linear.passes.operations.names import LOOPS

BOUNDS = 3
"""Operands of a loop before what it carries: its lower bound, its upper bound and its step."""
_Place = TypeVar("_Place", bound=Hashable)


def reached(start: Iterable[_Place], step: Callable[[_Place], Iterable[_Place]]) -> set[_Place]:
    """`start`, and all that `step` leads to from there, again and again.

    >>> sorted(reached([1], lambda number: [2 * number % 7]))
    [1, 2, 4]
    """
    seen: set[_Place] = set()
    pending = list(start)
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            pending += step(at)
    return seen


def handed_on(value: Value, producers: Mapping[Value, Operation]) -> list[Value] | None:
    """What a value may be that is the argument of a block, or the result of a loop or branch; None for what
    other operations give."""
    producer = producers.get(value)
    if producer is None:
        return passed_to(value)
    return results_of(producer, list(producer.results).index(value)) if producer.name[:4] == "scf." else None


def passed_to(argument: Value) -> list[Value]:
    """What the argument of a block can be: for a loop its initial value and what the body yields."""
    block = argument.owner
    op = block.owner.operation
    if op.name == names.FOR:
        carried = list(block.arguments).index(argument) - 1
        return [] if carried < 0 else results_of(op, carried)
    return [*op.operands, *terminated(op)] if op.name.startswith("scf.") else []


def results_of(op: Operation, index: int) -> list[Value]:
    """What result `index` of a loop or branch can be."""
    if op.name == names.FOR:
        return [op.operands[BOUNDS + index], terminator(op.regions[0].blocks[0]).operands[index]]
    if op.name == names.IF:
        return [terminator(block).operands[index] for region in op.regions for block in region.blocks]
    return [*op.operands, *terminated(op)]


def terminated(op: Operation) -> Iterator[Value]:
    """What the blocks of an operation yield."""
    for region in op.regions:
        for block in region.blocks:
            yield from terminator(block).operands


def maker(value: Value) -> Operation | None:
    """The operation that gives a value; None for the argument of a block."""
    return None if isinstance(value.owner, Block) else value.owner.operation


def constant(value: Value) -> Attribute | None:
    """What a constant is, or each element of a constant tensor; None if they differ, and for other values."""
    op = maker(value)
    if op is None or op.name != names.CONSTANT:
        return None
    attribute: Attribute = op.attributes["value"]
    if isinstance(attribute, DenseElementsAttr):
        return attribute.get_splat_value() if attribute.is_splat else None
    return attribute


def is_used(value: Value) -> bool:
    """Whether anything takes a value."""
    return next(iter(value.uses), None) is not None


def is_kernel(function: Operation) -> bool:
    """True if the host launches a function; others are called."""
    attributes = function.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def terminator(block: Block) -> Operation:
    """The last operation of a block."""
    return block.operations[len(block.operations) - 1].operation


def taken_by(op: Operation, number: int) -> Iterable[Value]:
    """What may be operand `number` of a loop, of what ends a loop or a branch, or of a jump."""
    name = op.name
    if name == names.FOR:
        return _carried(op, number - BOUNDS) if number >= BOUNDS else ()
    if name == names.WHILE:
        return (_argument(op, 0, number),)
    if name.startswith("cf."):
        return _jumped(op, number)
    if name not in (names.CONDITION, names.YIELD, "ttg.warp_yield"):
        return ()
    around = op.parent.operation
    if name == names.CONDITION:
        return (around.results[number - 1], _argument(around, 1, number - 1)) if number else ()
    if name == names.YIELD and around.name == names.FOR:
        return _carried(around, number)
    if name == names.YIELD and around.name == names.WHILE:
        return (_argument(around, 0, number),)
    return (around.results[number],)


def _jumped(op: Operation, number: int) -> Iterator[Value]:
    """The argument that a branch goes to with; `cf.cond_br` has its condition first."""
    place = number - (op.name == "cf.cond_br")
    for block in op.successors:
        if 0 <= place < len(block.arguments):
            yield block.arguments[place]
            return
        place -= len(block.arguments)


def _carried(loop: Operation, number: int) -> tuple[Value, Value]:
    """Loop-carried value `number`, in a loop and behind it; the body's first argument counts the iterations."""
    return _argument(loop, 0, number + 1), loop.results[number]


def _argument(op: Operation, region: int, number: int) -> Value:
    return op.regions[region].blocks[0].arguments[number]


class Places:
    """The operations of a module, outermost first, in the order in which they are written: `operations(root)`.

    numbers: the number of each operation. ends: the number of the last operation inside each; its own number if
    it has no regions.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.ops = ops
        self.numbers = {op: number for number, op in enumerate(ops)}
        self.ends = dict(self.numbers)
        for op in reversed(ops):
            if len(op.regions):
                blocks = [block for region in op.regions for block in region.blocks if len(block.operations)]
                self.ends[op] = max([self.ends[terminator(each)] for each in blocks], default=self.ends[op])

    def around(self, op: Operation) -> list[Operation]:
        """The operations around an operation, the innermost first."""
        parents, parent = [], op.parent
        while parent in self.numbers:
            parents.append(parent)
            parent = parent.parent
        return parents

    def loop_end(self, user: Operation, outside: Sequence[Operation]) -> int | None:
        """The number up to which a value is live that `user` uses inside loops and that is defined outside of
        them: the end of the outermost of these loops. None if there is no such loop. `outside`: the operations
        around the definition."""
        last = None
        for parent in self.around(user):
            if parent in outside:
                break
            if parent.name in LOOPS:
                last = self.ends[parent]
        return last
