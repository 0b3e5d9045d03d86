"""Lets a loop begin the loads of its next iteration in the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar

from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Block,
    DenseElementsAttr,
    InsertionPoint,
    IntegerAttr,
    Location,
    Operation,
    RankedTensorType,
    Type,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.flow import BOUNDS, reached
from triton_linear.passes.analysis.registers import BESIDE, live_by_place
from triton_linear.passes.analysis.writes import Pair, Writes, mark_early
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.building import create, made
from triton_linear.passes.framework.layouts import words_of
from triton_linear.passes.framework.planning import distinct_field, find_target, target_field, unfit, warps_of
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import is_pure, named
from triton_linear.passes.scheduling import induction
from triton_linear.passes.scheduling.exchanges import is_exchange, lets_pass
from triton_linear.passes.scheduling.induction import SEGMENTS, attributes_of, less

_PASSED = frozenset({names.STORE, names.IF, names.YIELD})
"""Operations that a load may pass, besides those of `exchanges.lets_pass`."""
_WAIT = "ttg.async_wait"
"""Has a barrier."""
_OTHERS = "tt.extern_elementwise"
_MASKED, _WITH_OTHER = "array<i32: 1, 1, 0>", "array<i32: 1, 1, 1>"


@dataclass(frozen=True)
class LoadAhead(Pass):
    """Lets a loop begin the loads of its next iteration in the one before.

    A barrier holds back every load behind it. So where an iteration exchanges data between warps, the loads of
    the next one begin only when all of that has ended. Triton takes loads ahead where they lead to dots. Here
    the loop carries what it loads: the first values are loaded in front of it, and each iteration loads those
    of the next, behind the last use of its own and in front of its first exchange:

        scf.for %i = %a to %b step %s { %x = tt.load f(%i) ; %y = ttg.convert_layout %x ; ... }

        %first = tt.load f(%a), %a < %b
        scf.for %i = %a to %b step %s iter_args(%x = %first) {
          %j = %i + %s ; %next = tt.load f(%j), %j < %b ; %y = ttg.convert_layout %x ; ... ; scf.yield %next }

    A loop stays as it is

    - if it has no exchange (`exchanges.is_exchange`): there LLVM unrolls it, and loads begin together. Of 98
      kernels 16 were slower with loads ahead in such loops, down to 0.23 of their speed, and 8 faster, by 1 to
      5 %;
    - if it has a dot, or what Triton has pipelined for one. Of 303 launches of servers' operators, four such
      loops had 0.78 to 0.92 of their speed with loads ahead, and none was faster by more than 4 %: that is
      what Triton's pipeliner decides about;
    - if it has another loop inside, or anything that a load may not pass (`exchanges.lets_pass`), besides
      stores;
    - if too few warps stayed resident (`Policy.warps_ahead`);
    - in clusters and beside warp-specialised regions.

    A load stays if the kernel may have written before to what it reads (`analysis/writes.py`; Triton's own
    pipeliner does not ask), if every iteration has the same address, if the loop carries what it loads already,
    or if its address or its mask takes anything else than arithmetic on the loop's counter and on what the loop
    carries.

    Requires: nothing. Conversions whose plans are not known count as exchanges between warps.
    Ensures: what is loaded for which iteration is the same, and so are all results. A module that changed has
    `ll.early`.
    """

    target: str | None = target_field()
    distinct: bool = distinct_field()

    name: ClassVar[str] = "linear-load-ahead"
    summary: ClassVar[str] = "let loops begin the loads of their next iteration in the one before"

    def __call__(self, op: Operation, pass_: PassRun) -> bool | None:
        ops = pass_.operations(op)
        loops = [each for each in ops if each.name == names.FOR]
        if not loops or not any(each.name == names.LOAD for each in ops) or unfit(op, ops) is not None:
            return False
        gpu = find_target(self.name, op, self.target, pass_)
        if gpu is None or gpu.policy.warps_ahead > gpu.resident_warps:
            return False
        bodies = [_Body.of(each, pass_) for each in loops]
        found = [body for body in bodies if body is not None and body.exchange is not None]
        writes = Writes.of(ops, distinct=self.distinct) if found else None
        advances = [_Advance.of(body, writes) for body in found if writes is not None]
        advances = [advance for advance in advances if advance.loads]
        live = live_by_place(op) if advances else {}
        most, warps = max(live.values(), default=0.0), warps_of(op)
        fitting = []
        for advance in advances:
            after = max(most, advance.words(live, pass_))
            fits = _has_registers(after, warps, gpu)
            advance.remark(most, after, fits)
            if fits:
                fitting.append(advance)
        if not fitting:
            return False
        pairs = {pair for advance in fitting for pair in advance.pairs}
        numbering = Numbering(loads_move=True, distinct=self.distinct)
        with numbering.same(op, "loads an iteration ahead"):
            for advance in fitting:
                numbering.carried |= advance.rewrite()
            induction.check(numbering.carried)
        for loaded in numbering.carried.values():
            loaded.owner.erase()
        mark_early(op, pairs)
        return None


def _has_registers(words: float, warps: int, gpu: Target) -> bool:
    """True if enough warps of CTAs of `warps` are resident when threads hold so many words of tensors."""
    return warps * int(gpu.registers / (gpu.lanes * warps * (BESIDE + words))) >= gpu.policy.warps_ahead


def _inside(body: Sequence[Operation]) -> Iterator[Operation]:
    """Operations, and those of the branches among them."""
    for op in body:
        yield op
        if op.name == names.IF:
            for region in op.regions:
                for block in region.blocks:
                    yield from _inside([view.operation for view in block.operations])


def _is_passed(op: Operation) -> bool:
    return op.name in _PASSED or (op.name not in names.DOTS and lets_pass(op))


def _repeats(op: Operation) -> bool:
    """True if an operation of an address or a mask may be done for another iteration too, even if that does not
    run, where a division might be by zero, and code of others might read memory that is not there."""
    known = named(op.name)
    if known.divides:
        divisor = op.operands[1].owner
        return not isinstance(divisor, Block) and divisor.operation.name == names.CONSTANT
    return len(op.results) == 1 and (
        known.recomputed or op.name == names.TRANS or (is_pure(op) and op.name != _OTHERS)
    )


@dataclass
class _Body:
    """The body of a loop that loads, and in which a load may pass everything.

    ops: its operations. exchange: the first one that exchanges data between warps. places: the numbers of its
    operations. makers: those that give a value. numbers: the arguments, the counter first.
    """

    loop: Operation
    block: Block
    ops: list[Operation]
    exchange: Operation | None = None
    places: dict[Operation, int] = field(init=False)
    makers: dict[Value, Operation] = field(init=False)
    numbers: dict[Value, int] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {op: number for number, op in enumerate(self.ops)}
        self.makers = {result: op for op in self.ops for result in op.results}
        self.numbers = {argument: number for number, argument in enumerate(self.block.arguments)}

    @classmethod
    def of(cls, loop: Operation, pass_: PassRun) -> _Body | None:
        """The body of a loop; None if it is another one."""
        block = loop.regions[0].blocks[0]
        ops = [view.operation for view in block.operations]
        if not any(op.name == names.LOAD for op in ops):
            return None
        exchange = None
        for op in ops:
            inside = list(_inside([op]))
            if not all(map(_is_passed, inside)):
                return None
            if exchange is None and any(
                each.name == _WAIT or is_exchange(each, True, pass_) for each in inside
            ):
                exchange = op
        return cls(loop, block, ops, exchange)

    @property
    def yielded(self) -> list[Value]:
        return list(self.ops[-1].operands)

    def slice(self, values: Iterable[Value]) -> tuple[set[Operation], set[Value]]:
        """The operations of the body that lead to `values`, and the arguments that these come from."""
        seen = reached(values, lambda value: self.makers[value].operands if value in self.makers else ())
        ops = {self.makers[value] for value in seen if value in self.makers}
        return ops, {value for value in seen if value in self.numbers}

    def in_order(self, ops: Iterable[Operation]) -> list[Operation]:
        return sorted(ops, key=self.places.__getitem__)

    def around(self, op: Operation) -> Operation:
        """The operation of the body that an operation is, or is inside of."""
        op = op.operation
        while op.block != self.block:
            op = op.parent.operation
        return op


@dataclass
class _Advance:
    """The loads of a body that go ahead.

    repeated: the operations that lead to their operands, which are done for the next iteration too. hoisted:
    those of this iteration that lead to what the loop carries for that. pairs: see `Writes.passed`.
    """

    body: _Body
    loads: list[Operation] = field(default_factory=list)
    repeated: set[Operation] = field(default_factory=set)
    hoisted: set[Operation] = field(default_factory=set)
    pairs: set[Pair] = field(default_factory=set)

    @classmethod
    def of(cls, body: _Body, writes: Writes) -> _Advance:
        """All the loads of a body that can go ahead."""
        found = cls(body)
        for op in body.ops:
            if op.name == names.LOAD and found._varies(op) and (pairs := writes.passed(op)) is not None:
                repeated, arguments = body.slice(op.operands)
                carried = (body.numbers[argument] - 1 for argument in arguments)
                hoisted, _ = body.slice(body.yielded[number] for number in carried if number >= 0)
                if all(map(_repeats, repeated | hoisted)):
                    found.loads.append(op)
                    found.pairs |= pairs
                    found.repeated |= repeated
                    found.hoisted |= hoisted
        return found

    def _varies(self, load: Operation) -> bool:
        """True if a load has other addresses in each iteration, and something else than the next iteration uses
        what it loads. What is loaded from one place again and again may have been stored there meanwhile,
        through another argument."""
        body = self.body
        _, arguments = body.slice([load.operands[0]])
        steps = (number for number in map(body.numbers.__getitem__, arguments))
        others = any(number == 0 or body.yielded[number - 1] not in body.numbers for number in steps)
        return others and any(use.owner.operation != body.ops[-1] for use in load.results[0].uses)

    def words(self, live: Mapping[Operation, float], pass_: PassRun) -> float:
        """Words of tensors that a thread holds in the loop when it carries what it loads. live: those that it
        holds at each operation now."""
        now = max((live.get(each, 0.0) for each in _inside(self.body.ops)), default=0.0)
        return now + sum(words_of(load.results[0].type, pass_.layouts) for load in self.loads)

    def remark(self, before: float, after: float, fits: bool) -> None:
        """Say whether the loads go ahead. before, after: words that a thread holds without that and with it."""
        if diagnostics.wanted():
            loads = "1 load" if len(self.loads) == 1 else f"{len(self.loads)} loads"
            registers = f"{BESIDE + after:.0f} registers of a thread instead of {BESIDE + before:.0f}"
            done = "an iteration ahead" if fits else "not an iteration ahead: too few warps would stay resident"
            diagnostics.remark(self.body.loop, f"{loads} of the loop {done}, with an estimated {registers}")

    def rewrite(self) -> dict[Value, Value]:
        """Carry what the loads load: in front of the loop for its first iteration, in each for the next.

        Returns for each new argument of the loop what it stands for; nothing uses that any more.
        """
        loop, block, end = self.body.loop, self.body.block, self.body.ops[-1]
        given, arguments = list(loop.operands), list(block.arguments)
        anchor = self._anchor()
        for op in self.body.in_order(self.hoisted):
            if not op.is_before_in_block(anchor):
                op.move_before(anchor)
        counter = made(names.ADD, [arguments[0], given[2]], given[0].type, anchor, loop.location)
        first = dict(zip(arguments, [given[0], *given[BOUNDS:]], strict=True))
        firsts = self._loaded(first, given[0], loop)
        following = dict(zip(arguments, [counter, *self.body.yielded], strict=True))
        nexts = self._loaded(following, counter, anchor)
        loaded = [load.results[0] for load in self.loads]
        for result in loaded:
            result.replace_all_uses_with(block.add_argument(result.type, result.owner.location))
        carried = [*end.operands, *nexts]
        create(names.YIELD, carried, [], end, end.location)
        end.erase()
        wider = Operation.create(
            names.FOR,
            results=[value.type for value in carried],
            operands=[*given, *firsts],
            attributes=attributes_of(loop),
            regions=1,
            loc=loop.location,
            ip=InsertionPoint(loop),
        )
        block.append_to(wider.regions[0])
        for old, new in zip(loop.results, wider.results, strict=False):
            old.replace_all_uses_with(new)
        loop.erase()
        return dict(zip(list(wider.regions[0].blocks[0].arguments)[len(arguments) :], loaded, strict=True))

    def _anchor(self) -> Operation:
        """The operation in front of which the next iteration's loads come: the exchange, or one before it if
        that is behind the last use of this iteration's, so that these need no registers meanwhile."""
        body, at = self.body, 0
        if body.exchange is not None:
            uses = (body.places[body.around(use.owner)] for load in self.loads for use in load.results[0].uses)
            at = min(body.places[body.exchange], max(uses, default=0) + 1)
        while body.ops[at] in self.hoisted:  # which comes before these loads
            at += 1
        return body.ops[at]

    def _loaded(self, known: dict[Value, Value], counter: Value, place: Operation) -> list[Value]:
        """What the loads load in another iteration, if it runs; they come in front of `place`. known: the
        arguments of the body in that iteration. counter: its counter."""
        loop = self.body.loop
        bit, number = (Type.parse(text, loop.context) for text in ("i1", "i64"))
        predicate = IntegerAttr.get(number, less(loop))
        pair = [counter, loop.operands[1]]
        runs = made(names.COMPARE, pair, bit, place, loop.location, {"predicate": predicate})
        for op in self.body.in_order(self.repeated):
            clone = op.clone(ip=InsertionPoint(place))
            for index, operand in enumerate(op.operands):
                clone.operands[index] = known.get(operand, operand)
            known[op.results[0]] = clone.results[0]
        return [
            _load(load, [known.get(each, each) for each in load.operands], runs, place) for load in self.loads
        ]


def _load(load: Operation, operands: Sequence[Value], runs: Value, place: Operation) -> Value:
    """A load with other operands, masked with `runs`, in front of `place`."""
    pointer, *rest = operands
    tensor = pointer.type if isinstance(pointer.type, RankedTensorType) else None
    mask = runs
    if tensor is not None:
        type_ = RankedTensorType.get(tensor.shape, runs.type, tensor.encoding, Location.unknown(load.context))
        mask = made(names.SPLAT, [runs], type_, place, load.location)
    if rest:
        # Not `and`: past the last iteration the mask may be undefined, and then so is what `and` gives.
        none = made(names.CONSTANT, [], mask.type, place, load.location, {"value": _false(mask.type)})
        mask = made(names.SELECT, [runs, rest[0], none], mask.type, place, load.location)
    attributes = attributes_of(load)
    attributes[SEGMENTS] = Attribute.parse(_WITH_OTHER if len(rest) > 1 else _MASKED, load.context)
    operands = [pointer, mask, *rest[1:]]
    return made(names.LOAD, operands, load.results[0].type, place, load.location, attributes)


def _false(type_: Type) -> Attribute:
    if isinstance(type_, RankedTensorType):
        return DenseElementsAttr.get_splat(type_, IntegerAttr.get(type_.element_type, 0))
    return IntegerAttr.get(type_, 0)
