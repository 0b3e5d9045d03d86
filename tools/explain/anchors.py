"""Find the operations that force a layout: the producer and the consumer of a value, through operations
between."""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_linear.dialect.locations import library_position, user_position
from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.passes.analysis.flow import handed_on, taken_by
from triton_linear.passes.conversions.stubs import STUB_PREFIX
from triton_linear.passes.operations.names import CONVERT

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
        self.users: dict[Value, list[tuple[Operation, int]]] = {}
        for op in ops:
            for number, operand in enumerate(op.operands):
                self.users.setdefault(operand, []).append((op, number))

    def source(self, conversion: Operation) -> Anchor | None:
        """The nearest operation before the conversion that forces its source layout; None if there is none."""
        return _nearest(conversion.operands, self._before)

    def destination(self, conversion: Operation) -> Anchor | None:
        """The nearest operation after the conversion that forces its destination layout; None if there is
        none.
        """
        return _nearest(conversion.results, self._after)

    def _before(self, value: Value) -> list[_Met]:
        """The producer of a value, and the operands from which it may come."""
        handed = handed_on(value, self.producers)
        if handed is not None:
            return [(None, handed)]
        producer = self.producers[value]
        return [(producer, producer.operands)]

    def _after(self, value: Value) -> list[_Met]:
        """The users of a value, and what it may become in each."""
        return [
            (user, list(taken_by(user, number)) or user.results) for user, number in self.users.get(value, ())
        ]


_Met = tuple[Operation | None, Iterable[Value]]
"""An operation on the way from a value, None for a mere loop or branch, and where the way goes on."""


def _nearest(start: Iterable[Value], met: Callable[[Value], list[_Met]]) -> Anchor | None:
    """The first operation on the way from some values that forces a layout. Another conversion is a reason only
    where nothing else is: its layout has a reason of its own."""
    pending, seen = deque(start), set[Value]()
    other: Operation | None = None
    while pending and len(seen) < _MOST_VALUES:
        value = pending.popleft()
        if value in seen:
            continue
        seen.add(value)
        for op, further in met(value):
            if op is None or op.name not in REASONS:
                pending += further
            elif op.name != CONVERT:
                return _anchor(op)
            else:
                other = other or op
    return None if other is None else _anchor(other)


def _anchor(op: Operation) -> Anchor:
    name, place = name_of(op), user_position(str(op.location))
    if sort := sort_of(str(op.location)) if name == "tt.reduce" else "":
        return Anchor(sort, "left by a step of this sort", *place)
    return Anchor(name, REASONS[name], *place)


def name_of(op: Operation) -> str:
    """The name of an operation; for the call of a stub, that of a conversion."""
    is_stub = op.name == "tt.call" and str(op.attributes["callee"].value).startswith(STUB_PREFIX)
    return CONVERT if is_stub else str(op.name)


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
