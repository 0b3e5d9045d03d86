"""Find the operations that force a layout, the producer and the consumer of a value through operations between;
and advise on changes of the source that make a conversion unnecessary."""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_linear.dialect.linear_layout import LANE, LinearLayout
from triton_linear.dialect.locations import library_position, user_position
from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.passes.analysis.flow import handed_on, taken_by
from triton_linear.passes.conversions.stubs import STUB_PREFIX
from triton_linear.passes.operations.names import CONVERT, DOTS
from triton_linear.tools.support.words import vector_of

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
        """The nearest operation before the conversion that forces its source layout, or None."""
        return _nearest(conversion.operands, self._before)

    def destination(self, conversion: Operation) -> Anchor | None:
        """The nearest operation after the conversion that forces its destination layout, or None."""
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
    """The function of `SORTS` that the user's line calls and the operation belongs to, as `tl.sort`; or ""."""
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


_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
_FREE = ("noop", "registers")
# Operations that use a loaded value in a layout that does not suit the load.
_CONSUMERS = {
    "tt.reduce": "the reduction",
    "tt.scan": "the scan",
    "tt.gather": "the gather",
    "tt.histogram": "the histogram",
}


def advice(
    kind: str,
    before: Anchor | None,
    after: Anchor | None,
    source: LinearLayout | None,
    destination: LinearLayout | None,
) -> str:
    """One sentence of advice, from the anchors of both layouts; empty if the conversion is free, or none is
    known. For loads and stores it depends on the dimension of neighbouring elements of a thread, or else of
    neighbouring lanes."""
    if kind in _FREE:
        return ""
    ends = before.operation if before else "", after.operation if after else ""
    if source is not None and destination is not None:
        match ends:
            case ("tt.scan", "tt.store"):
                return _memory_to_memory("scan", "tt.store", source, destination)
            case ("tt.load", to) if to in ("tt.load", "tt.store", *_ATOMICS):
                return _memory_to_memory("load", to, source, destination)
            case ("tt.load", to) if to in _CONSUMERS:
                return _load_for(_CONSUMERS[to], source, destination)
    match ends:
        case ("tt.reduce", "tt.store"):
            return "a reduction leaves its result spread as its operand was: reduce over another dimension"
        case (origin, "tt.store") if origin in DOTS:
            return (
                "an accumulator is stored by rows: a descriptor store (TMA) brings its own way through memory"
            )
        case (origin, use) if origin in DOTS and use in DOTS:
            return "an accumulator is an operand of another dot: in 16 bits it may be one as it lies"
        case ("tt.load", use) if use in DOTS:
            return "an operand goes through registers: without arithmetic before the dot it need not"
        case ("tt.call", _) | (_, "tt.call" | "tt.return"):
            return (
                "a function that is not inlined fixes layouts in its signature: without noinline it would not"
            )
    return ""


def _load_for(consumer: str, source: LinearLayout, destination: LinearLayout) -> str:
    """Advice for a loaded value that a consumer uses in a layout of its own."""
    here, there = _fastest_dimension(source), _fastest_dimension(destination)
    one, other = vector_of(source)[1], vector_of(destination)[1]
    if here == there:
        return f"the load would have to take {other} at once along dim{here}, not {one}" if one != other else ""
    if here is None or there is None:
        return ""
    where = f"along dim{there}, as {consumer} takes it, not along dim{here}"
    return f"the load would have to run {where}: a tensor with that dimension contiguous"


def _memory_to_memory(origin: str, to: str, source: LinearLayout, destination: LinearLayout) -> str:
    """Advice for a loaded or scanned value that is stored, or from which addresses or masks are computed."""
    both = f"{origin} and {'atomic' if to in _ATOMICS else to.removeprefix('tt.')} run along"
    if _fastest_dimension(source) != _fastest_dimension(destination):
        if to == "tt.load":
            return (
                "a loaded value leads to a load that is coalesced otherwise: one order of dimensions for both"
            )
        return f"{both} different dimensions of memory: one of both tensors stored transposed"
    one, other = vector_of(source)[1], vector_of(destination)[1]
    widths = f"by {one} and {other} elements: with elements of one width and equal alignment both take as many"
    return "" if one == other else f"{both} the same dimension, {widths}"


def _fastest_dimension(layout: LinearLayout) -> int | None:
    """The dimension along which a thread's first registers run; if they do not, that of the first lanes."""
    axis, length = vector_of(layout)
    if length > 1:
        return axis
    for vector in dict(layout.bases)[LANE]:
        for axis, value in enumerate(vector):
            if value:
                return axis
    return None
