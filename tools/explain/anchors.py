"""What forces a layout: the operation a value comes from and the one it goes to, seen through those between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from triton_linear.dialect.locations import user_position
from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.lowering.plan.stubs import GATHER_PREFIX
from triton_linear.passes.conversions.gather import GATHER
from triton_linear.passes.conversions.stubs import CONVERSION_PREFIX
from triton_linear.passes.framework.verifiers import CONVERT
from triton_linear.tools.explain.library import sort_of

# What a layout is chosen for, by the name of the operation.
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
    CONVERT: "made by another conversion",
}
_REGIONS = ("scf.for", "scf.if", "scf.while")
_MOST_SEEN = 4096


@dataclass(frozen=True, slots=True)
class Anchor:
    """An operation that asks for a layout, why, and where it is (`file`, `line`, `column`; 0 if unknown)."""

    operation: str
    reason: str
    file: str
    line: int
    column: int


class Uses:
    """Who makes and who takes each value of a module; built once for all questions."""

    def __init__(self, ops: Iterable[Operation]) -> None:
        ops = list(ops)
        self.producers = producers_of(ops)
        self.users: dict[Value, list[Operation]] = {}
        for op in ops:
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)

    def source(self, conversion: Operation) -> Anchor | None:
        """The nearest operation before that fixed the layout converted from; None where nothing did."""
        return self._nearest(self._before(conversion))

    def destination(self, conversion: Operation) -> Anchor | None:
        """The nearest operation after that wants the layout converted to; None where nothing does."""
        return self._nearest(self._after(conversion))

    @staticmethod
    def _nearest(met: Iterator[Operation]) -> Anchor | None:
        for op in met:
            if op.name in REASONS:
                name = name_of(op)
                place = user_position(str(op.location))
                if sort := sort_of(str(op.location)) if name == "tt.reduce" else "":
                    return Anchor(sort, "left by a step of this sort", *place)
                return Anchor(name, REASONS[name], *place)
        return None

    def _before(self, conversion: Operation) -> Iterator[Operation]:
        """Producers, nearest first, not beyond an anchor."""
        pending, seen = [conversion.operands[0]], set[Value]()
        while pending and len(seen) < _MOST_SEEN:
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
        """Users, nearest first, not beyond an anchor."""
        pending, seen = list(conversion.results), set[Value]()
        while pending and len(seen) < _MOST_SEEN:
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
    """The name of an operation; that of what was outlined, for a call of its stub."""
    if op.name == "tt.call":
        callee = str(op.attributes["callee"].value)
        if callee.startswith(GATHER_PREFIX):
            return GATHER
        if callee.startswith(CONVERSION_PREFIX):
            return CONVERT
    return str(op.name)


def _carried_in(value: Value) -> list[Value]:
    """What a loop's argument is at first and in later iterations."""
    owner = value.owner if hasattr(value, "owner") else None
    loop = getattr(owner, "owner", None)
    if loop is None or loop.name != "scf.for":
        return []
    number = value.arg_number - 1  # the first is the induction variable
    return [] if number < 0 else [loop.operands[3 + number], *_terminated(loop, number)]


def _terminated(op: Operation, number: int) -> list[Value]:
    """The value number `number` that each region of an operation ends with."""
    found = []
    for region in op.regions:
        for block in region.blocks:
            last = list(block.operations)[-1].operation
            if last.name == "scf.yield" and number < len(last.operands):
                found.append(last.operands[number])
    return found


def _yielded(op: Operation, value: Value) -> list[Value]:
    """What one of the results of an operation with regions was before: at first, and where they end."""
    number = list(op.results).index(value)
    first = [op.operands[3 + number]] if op.name == "scf.for" else []
    return [*_terminated(op, number), *first]


def _carried_on(op: Operation, value: Value) -> list[Value]:
    """Where a value goes that a loop takes or a region ends with."""
    found: list[Value] = []
    for number, operand in enumerate(op.operands):
        if operand != value:
            continue
        if op.name == "scf.for" and number >= 3:
            found.append(op.regions[0].blocks[0].arguments[number - 2])
        if op.name == "scf.yield":
            parent = op.parent
            if parent is not None and number < len(parent.results):
                found.append(parent.results[number])
                if parent.name == "scf.for":
                    found.append(parent.regions[0].blocks[0].arguments[number + 1])
    return found


def loop_depth(op: Operation) -> int:
    """Loops around an operation."""
    depth, at = 0, op.parent
    while at is not None:
        depth += at.name in ("scf.for", "scf.while")
        at = at.parent
    return depth
