"""Find the operations that force a layout: the producer and the consumer of a value, through operations
between."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_linear.dialect.locations import library_position, user_position
from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.lowering.plan.stubs import GATHER_PREFIX
from triton_linear.passes.conversions.stubs import CONVERSION_PREFIX
from triton_linear.passes.operations.names import CONVERT, GATHER

# For each operation that forces a layout, the reason in words.
REASONS: Mapping[str, str] = {
    "tt.load": "coalesced for this load",
    "tt.store": "coalesced for this store",
    "tt.atomic_rmw": "coalesced for this atomic",
    "tt.atomic_cas": "coalesced for this atomic",
    "tt.descriptor_load": "filled by this descriptor load",
    "tt.descriptor_store": "read by this descriptor store",
    "tt.dot": "set by the matrix instruction of this dot",
    "tt.dot_scaled": "set by the matrix instruction of this dot",
    "ttng.warp_group_dot": "set by the matrix instruction of this dot",
    "tt.reduce": "left by this reduction",
    "tt.scan": "left by this scan",
    "tt.gather": "chosen for this gather",
    "tt.histogram": "chosen for this histogram",
    "ttg.local_load": "loaded from shared memory here",
    "ttg.local_store": "stored to shared memory here",
    "ttg.local_alloc": "stored to shared memory here",
    "ttg.async_copy_global_to_local": "copied to shared memory here",
    "ttng.tmem_load": "loaded from tensor memory here",
    "ttng.tmem_store": "stored to tensor memory here",
    "tt.call": "set by the signature of this call",
    "tt.return": "set by the signature of the function",
    CONVERT: "as another conversion has it",
}
_REGIONS = ("scf.for", "scf.if", "scf.while")
_MOST_VALUES = 4096
"""The number of values after which the search ends."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """An operation that forces a layout, the reason, and its place (`line` and `column` are 0 if unknown)."""

    operation: str
    reason: str
    file: str
    line: int
    column: int


class Uses:
    """The producer and the users of each value of a module."""

    def __init__(self, ops: Iterable[Operation]) -> None:
        ops = list(ops)
        self.producers = producers_of(ops)
        self.users: dict[Value, list[Operation]] = {}
        for op in ops:
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)

    def source(self, conversion: Operation) -> Anchor | None:
        """The nearest operation before the conversion that forces its source layout; None if there is none."""
        return self._nearest(self._before(conversion))

    def destination(self, conversion: Operation) -> Anchor | None:
        """The nearest operation after the conversion that forces its destination layout; None if there is
        none.
        """
        return self._nearest(self._after(conversion))

    @staticmethod
    def _nearest(ops: Iterator[Operation]) -> Anchor | None:
        forcing = [op for op in ops if op.name in REASONS]
        # Another conversion is a reason only where nothing else is: its layout has a reason of its own.
        op = next((op for op in forcing if op.name != CONVERT), forcing[0] if forcing else None)
        if op is None:
            return None
        name, place = name_of(op), user_position(str(op.location))
        if sort := sort_of(str(op.location)) if name == "tt.reduce" else "":
            return Anchor(sort, "left by a step of this sort", *place)
        return Anchor(name, REASONS[name], *place)

    def _before(self, conversion: Operation) -> Iterator[Operation]:
        """Producers of the conversion's operand, nearest first, not beyond an anchor."""
        pending, seen = [conversion.operands[0]], set[Value]()
        while pending and len(seen) < _MOST_VALUES:
            value = pending.pop(0)
            if value in seen:
                continue
            seen.add(value)
            producer = self.producers.get(value)
            if producer is None:
                pending += _carried_in(value)
                continue
            yield producer
            if producer.name in _REGIONS:
                pending += _yielded(producer, value)
            elif producer.name not in REASONS:
                pending += producer.operands

    def _after(self, conversion: Operation) -> Iterator[Operation]:
        """Users of the conversion's result, nearest first, not beyond an anchor."""
        pending, seen = list(conversion.results), set[Value]()
        while pending and len(seen) < _MOST_VALUES:
            value = pending.pop(0)
            if value in seen:
                continue
            seen.add(value)
            for user in self.users.get(value, ()):
                yield user
                if user.name in _REGIONS or user.name == "scf.yield":
                    pending += _carried_on(user, value)
                elif user.name not in REASONS:
                    pending += user.results


def name_of(op: Operation) -> str:
    """The name of an operation; for the call of a stub, the name of the outlined operation."""
    if op.name == "tt.call":
        callee = str(op.attributes["callee"].value)
        if callee.startswith(GATHER_PREFIX):
            return GATHER
        if callee.startswith(CONVERSION_PREFIX):
            return CONVERT
    return str(op.name)


def _carried_in(value: Value) -> list[Value]:
    """The initial value of a loop's argument, and its value in later iterations; empty for other values."""
    owner = value.owner if hasattr(value, "owner") else None
    loop = getattr(owner, "owner", None)
    if loop is None or loop.name != "scf.for":
        return []
    number = value.arg_number - 1  # the first is the induction variable
    return [] if number < 0 else [loop.operands[3 + number], *_terminated(loop, number)]


def _terminated(op: Operation, number: int) -> list[Value]:
    """The value with this number that each region of an operation yields."""
    yielded = []
    for region in op.regions:
        for block in region.blocks:
            last = list(block.operations)[-1].operation
            if last.name == "scf.yield" and number < len(last.operands):
                yielded.append(last.operands[number])
    return yielded


def _yielded(op: Operation, value: Value) -> list[Value]:
    """The values from which a result of an operation with regions comes: yielded ones, and a loop's initial
    value.
    """
    number = list(op.results).index(value)
    first = [op.operands[3 + number]] if op.name == "scf.for" else []
    return [*_terminated(op, number), *first]


def _carried_on(op: Operation, value: Value) -> list[Value]:
    """The values that a value becomes as an operand of a loop or of a yield."""
    values: list[Value] = []
    for number, operand in enumerate(op.operands):
        if operand != value:
            continue
        if op.name == "scf.for" and number >= 3:
            values.append(op.regions[0].blocks[0].arguments[number - 2])
        if op.name == "scf.yield":
            parent = op.parent
            if parent is not None and number < len(parent.results):
                values.append(parent.results[number])
                if parent.name == "scf.for":
                    values.append(parent.regions[0].blocks[0].arguments[number + 1])
    return values


def loop_depth(op: Operation) -> int:
    """The number of loops around an operation."""
    depth, at = 0, op.parent
    while at is not None:
        depth += at.name in ("scf.for", "scf.while")
        at = at.parent
    return depth


SORTS = ("sort", "topk", "bitonic_merge")
"""The functions of Triton's library that exchange elements by XOR reductions over pairs."""


def sort_of(location: str) -> str:
    """The function of `SORTS` that the user's line calls and the operation belongs to, as `tl.sort`; else
    empty.
    """
    file, line = library_position(location)
    name = _functions(file).get(line, "") if file else ""
    return f"tl.{name}" if name in SORTS else ""


@functools.cache
def _functions(file: str) -> dict[int, str]:
    """The function around each line of a file; empty if it cannot be read, as on another machine."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {line: node.name for node in functions for line in range(node.lineno, (node.end_lineno or 0) + 1)}
