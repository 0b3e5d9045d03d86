"""Lets no iteration of a loop write to registers that a dot of the one before still reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    InsertionPoint,
    Operation,
    RankedTensorType,
    UnitAttr,
    Value,
    operations,
    producers_of,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.building import create
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

_ASSEMBLED = frozenset({names.ASSEMBLY, "ttg.fp4_to_fp"})

Producers = dict[Value, Operation]


@dataclass(frozen=True)
class AwaitOperands(Pass):
    """Lets no iteration of a loop write to registers that a dot of the one before still reads.

    `wgmma.mma_async` reads its left operand, where that is in registers, until a `wgmma.wait_group` that covers
    it; to write to them before is undefined (PTX ISA, asynchronous warpgroup-level matrix instructions). Triton
    3.6 cuts a dot whose left operand is computed in the loop along k, and leaves all parts but the first in
    flight when the next iteration computes their operands. Since 3.8 operands are copied first, and ptxas of
    CUDA 12.8 and 12.9 takes the copies out; that of 13.4 does not. Whether results are wrong depends on how
    long that takes: 13 % of them in a dot of 1024x4096x4096 by mxfp4 on an H200, none in others.

    Here the next iteration waits, just before it begins to make such an operand; where the accumulator is not
    at hand there, the last dot is waited for where it is.

    Requires: nothing. Loops other than `scf.for` stay as they are.
    Ensures: nothing that may write a left operand in registers comes, in the next iteration, before a wait for
    the dot that reads it; arithmetic may as soon as what it takes is there: LLVM keeps it behind no wait. A
    module that changed has `ll.awaited`.

        scf.for { %a = ttg.local_load %m ; %2 = ttng.warp_group_dot %a, %b, %acc {isAsync} ; scf.yield %2 }
        scf.for { %1 = ttng.warp_group_dot_wait %acc {pendings = 0} ; %a = ttg.local_load %m ; ... %a, %b, %1 }
    """

    name: ClassVar[str] = "linear-await-operands"
    summary: ClassVar[str] = "wait for dots whose operands in registers the next iteration would overwrite"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        if not any(map(_reads_registers, ops)):
            return False
        producers = producers_of(ops)
        loops = [each for each in ops if each.name == names.FOR]
        if not any(_Body.of(loop, producers).hazard() for loop in loops):
            return False
        erased: dict[Value, Value] = {}
        with Numbering(erased=erased).same(op, "waits for dots"):
            for loop in loops:
                body = _Body.of(loop, producers)
                for wait in _await(body, hazard) if (hazard := body.hazard()) else ():
                    erased.update(zip(wait.results, wait.operands, strict=True))
        op.attributes[ll.AWAITED] = UnitAttr.get(op.context)
        return True


@dataclass(frozen=True)
class _Step:
    """An operation inside a loop, and the number of the one of its body that it is, or is inside of."""

    op: Operation
    top: int
    nested: bool


@dataclass(frozen=True)
class _Writes:
    """The operations that lead to a value in registers, up to dots and loads. last: those of them that
    write it; what comes after may leave it in the registers where it is. handed: whether those may be the
    registers of an argument of the loop, which are written at its end."""

    all: frozenset[int]
    last: frozenset[int]
    handed: bool


@dataclass(frozen=True)
class _Hazard:
    """A dot whose operand is overwritten while it is read; top: the operation of the body before which a
    wait prevents that, None if there is none."""

    dot: Operation
    top: int | None = None


Flight = tuple[Operation, ...]
"""Dots that may not have ended, oldest first."""


@dataclass(frozen=True)
class _Body:
    """The body of a loop. flights: what may be in flight before each step, and after the last; the next
    iteration begins with that. carried: those of the dots that read registers which the body writes."""

    loop: Operation
    steps: tuple[_Step, ...]
    producers: Producers
    numbers: dict[Operation, int]
    flights: tuple[Flight, ...]
    carried: Flight

    @classmethod
    def of(cls, loop: Operation, producers: Producers) -> _Body:
        block, tops, steps = loop.regions[0].blocks[0], list[Operation](), list[_Step]()
        for op in operations(loop)[1:]:
            nested = op.block != block
            if not nested:
                tops.append(op)
            steps.append(_Step(op, len(tops) - 1, nested))
        numbers = {step.op: i for i, step in enumerate(steps)}
        end = _flown(tops, (), [])
        flights: list[Flight] = []
        flights.append(_flown(tops, end, flights))
        body = cls(loop, tuple(steps), producers, numbers, tuple(flights), ())
        carried = tuple(dot for dot in end if _reads_registers(dot) and body._makes(dot.operands[0]))
        return replace(body, carried=carried)

    def _makes(self, value: Value) -> bool:
        """Whether each iteration gives a value anew."""
        producer = self.producers.get(value)
        return self._is_handed(value) if producer is None else producer in self.numbers

    def _is_handed(self, value: Value) -> bool:
        """Whether a value is an argument of the loop that gets another one at its end."""
        arguments = list(self.loop.regions[0].blocks[0].arguments)[1:]
        yielded = list(self.steps[-1].op.operands)
        return any(value == mine and its != mine for mine, its in zip(arguments, yielded, strict=True))

    def hazard(self) -> _Hazard | None:
        """A dot of the last iteration whose registers this one writes while they may be read."""
        found: list[_Hazard] = []
        there = self._there() if self.carried else []
        for dot in self.carried:
            writes = self._writes(dot.operands[0])
            if writes.handed:
                return _Hazard(dot)
            early = [there[number] for number in writes.last if dot in self.flights[max(0, there[number])]]
            if early:
                first = min(*early, *writes.all)
                found.append(_Hazard(dot, None if first < 0 else self.steps[first].top))
        return min(found, key=lambda each: -1 if each.top is None else each.top, default=None)

    def _there(self) -> list[int]:
        """Before which step the code of each may come at the earliest; -1: before all."""
        found: list[int] = []
        for number, step in enumerate(self.steps):
            if _moves(step.op.name) or _may_come_early(step.op.name):
                made = (self.producers.get(operand) for operand in step.op.operands)
                inside = (self.numbers.get(producer) for producer in made if producer is not None)
                found.append(max((found[each] for each in inside if each is not None), default=-1))
            else:
                found.append(number + (step.op.name in names.IN_FLIGHT))
        return found

    def _writes(self, value: Value) -> _Writes:
        seen: set[tuple[int, bool]] = set()
        last: set[int] = set()
        handed = False
        pending = [(value, True)]
        while pending:
            value, in_place = pending.pop()
            producer = self.producers.get(value)
            if producer is None:
                handed = handed or (in_place and self._is_handed(value))
                continue
            number = self.numbers.get(producer)
            if (
                number is None
                or (number, in_place) in seen
                or producer.name in (*names.IN_FLIGHT, names.CONSTANT)
            ):
                continue
            seen.add((number, in_place))
            if in_place and not _moves(producer.name):
                last.add(number)
            in_place = in_place and _moves(producer.name)
            pending += [(operand, in_place) for operand in producer.operands if _in_registers(operand)]
        return _Writes(frozenset(number for number, _ in seen), frozenset(last), handed)

    def accumulators(self) -> list[Value]:
        """The arguments of the body that hold what dots in flight add to."""
        arguments = list(self.loop.regions[0].blocks[0].arguments)[1:]
        yielded = list(self.steps[-1].op.operands)
        return [
            argument
            for argument, value in zip(arguments, yielded, strict=True)
            if (dot := self._summed(value)) is not None and dot in self.flights[-1]
        ]

    def _summed(self, value: Value) -> Operation | None:
        """The dot that gives a value, through waits."""
        while (producer := self.producers.get(value)) is not None and producer.name == names.WARP_GROUP_WAIT:
            value = producer.operands[list(producer.results).index(value)]
        return producer


def _flown(ops: Iterable[Operation], now: Flight, found: list[Flight]) -> Flight:
    """What may be in flight behind operations of a block, where `now` was before; `found` gets what may be
    before each of them, and of those inside them."""
    for op in ops:
        found.append(now)
        if op.name == names.WARP_GROUP_WAIT:
            left = int(op.attributes["pendings"])
            now = now[len(now) - left :] if left < len(now) else now
        elif op.name == names.WARP_GROUP_DOT:
            now = (*now, op) if _is_async(op) else ()
        elif len(op.regions):
            now = _flown_inside(op, now, found)
    return now


def _flown_inside(op: Operation, now: Flight, found: list[Flight]) -> Flight:
    """The same of an operation with regions, which may or may not run, those of a loop more than once."""
    blocks = [list(block.operations) for region in op.regions for block in region.blocks]
    if op.name == names.FOR:
        now = _joined(now, _flown(blocks[0], now, []))
    return _joined(now, *(_flown(block, now, found) for block in blocks))


def _joined(*flights: Flight) -> Flight:
    return tuple(dict.fromkeys(dot for flight in flights for dot in flight))


def _moves(name: str) -> bool:
    """Whether an operation may leave what it takes in the registers where it is."""
    return named(name).view or named(name).in_place or name == names.CONVERT


def _may_come_early(name: str) -> bool:
    """Whether the code of an operation may come as soon as what it takes is there: nothing keeps it behind a
    wait."""
    return named(name).elementwise or name in _ASSEMBLED


def _is_async(op: Operation) -> bool:
    if op.name != names.WARP_GROUP_DOT or "isAsync" not in op.attributes:
        return False
    return str(op.attributes["isAsync"]) == "true"


def _reads_registers(op: Operation) -> bool:
    return _is_async(op) and isinstance(op.operands[0].type, RankedTensorType)


def _in_registers(value: Value) -> bool:
    """Whether a value is a tensor of numbers: pointers lead to what is loaded, and are not where that goes."""
    type_ = value.type
    return isinstance(type_, RankedTensorType) and "!tt.ptr" not in str(type_.element_type)


def _await(body: _Body, hazard: _Hazard) -> list[Operation]:
    """Wait before the hazard, or where the last dot is; returns the waits.

    ptxas of CUDA 12.8 and 12.9, which Triton 3.6 brings, gives registers that dots in flight read to other
    values as well, so it is as early as can be: before the operand begins to be computed.
    """
    block = body.loop.regions[0].blocks[0]
    accumulators = body.accumulators()
    if hazard.top is not None and accumulators and not _used_before(body, accumulators, hazard.top):
        before = block.operations[hazard.top]
        wait = _wait(accumulators, before, InsertionPoint(before))
        for value, result in zip(accumulators, wait.results, strict=True):
            value.replace_all_uses_except(result, wait)
        diagnostics.remark(hazard.dot, "waited for before the next iteration writes to its left operand")
        return [wait]
    last, waits = body.flights[-1][-1], []
    for dot in body.carried if body.steps[body.numbers[last]].nested else (last,):
        wait = _wait([dot.results[0]], dot, InsertionPoint.after(dot))
        dot.results[0].replace_all_uses_except(wait.results[0], wait)
        diagnostics.remark(dot, "waited for at once, as the next iteration writes to a left operand")
        waits.append(wait)
    return waits


def _used_before(body: _Body, values: Sequence[Value], top: int) -> bool:
    """Whether an operation of the body before that one uses one of the values."""
    return any(operand in values for step in body.steps if step.top < top for operand in step.op.operands)


def _wait(values: list[Value], where: Operation, ip: InsertionPoint) -> Operation:
    attributes = {"pendings": Attribute.parse("0 : i32", where.context)}
    types = [value.type for value in values]
    return create(names.WARP_GROUP_WAIT, values, types, ip, where.location, attributes)
