"""What has to be put in another order so that a value is, along one of its axes.

From the value it goes both ways. What is computed from values in the new order is in it as well, along the axis
that is tied to theirs; and what an operation takes beside them has to be. Ranges can be made in any order, so
what is computed from ranges and scalars alone is made a second time where it is needed, and other users keep
it as it is. Everything else (what is loaded, carried round a loop, or written to memory) changes for all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.passes.contraction.ties import Invariance, Place, is_pure, ties

_LOOPS = frozenset({"scf.for", "scf.if"})


class Stuck(Exception):
    """An operation needs its elements in the order they have."""


@dataclass
class ModuleIndex:
    """The operations of a module, with what makes and takes each value."""

    ops: Sequence[Operation]
    users: dict[Value, list[Operation]] = field(default_factory=dict)
    carried: dict[Value, Operation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producers = producers_of(self.ops)
        self.same = Invariance(self.producers)
        for op in self.ops:
            if op.name == "scf.yield" and op.parent.operation.name in _LOOPS:
                continue  # its loop or branch takes what it has
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
            if op.name in _LOOPS:
                self._enter(op)

    def _enter(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self.carried.update((argument, op) for argument in block.arguments)
                for operand in block.operations[len(block.operations) - 1].operation.operands:
                    self.users.setdefault(operand, []).append(op)

    def maker(self, value: Value) -> Operation | None:
        """The operation that defines a value or carries it round a loop; None for arguments of functions."""
        return self.producers.get(value) or self.carried.get(value)


@dataclass
class Region:
    """Values by the axis along which they change their order.

    changed: those that are in the new order. twins: those that are made in it a second time. ends: conversions,
    of those that may end the region, that take a value of it.
    """

    module: ModuleIndex
    may_end: Collection[Operation]
    changed: dict[Value, int] = field(default_factory=dict)
    twins: dict[Value, int] = field(default_factory=dict)
    ends: list[Operation] = field(default_factory=list)
    _pending: list[tuple[Value, int, bool]] = field(default_factory=list)

    def grow(self, value: Value, axis: int, *, forward: bool) -> None:
        """Take in all that has to change so that `value`, made or taken here, is in another order.

        `forward` is whether it is the result of what ends the region. Raises Stuck where it cannot be.
        """
        if forward:
            self._settle(value, axis, made=False)
        else:
            self._pending.append((value, axis, False))
        while self._pending:
            wanted, along, settled = self._pending.pop()
            if settled:
                self._settle(wanted, along, made=True)
            else:
                self._demand(wanted, along)
        # What is wanted in the new order behind a conversion as well does not end there.
        self.ends = [end for end in self.ends if end.results[0] not in self.changed]

    def _known(self, value: Value, axis: int, among: Mapping[Value, int]) -> bool:
        if value in among and among[value] != axis:
            raise Stuck("two axes of a value would have to be in another order")
        return value in among

    def _demand(self, value: Value, axis: int) -> None:
        """A value is taken beside others that are in the new order."""
        if self.module.same(value, axis):
            return
        if self._known(value, axis, self.changed) or self._known(value, axis, self.twins):
            return
        op = self.module.producers.get(value)
        if op is None or not is_pure(op):
            self._settle(value, axis, made=True)
            return
        self.twins[value] = axis
        if op.name == "tt.make_range":
            if op.attributes["start"].value != 0:
                raise Stuck("a range does not begin at zero")
            return
        self._go_on(op, (value, axis), results=False)

    def _settle(self, value: Value, axis: int, *, made: bool) -> None:
        if self._known(value, axis, self.changed):
            return
        self._known(value, axis, self.twins)
        self.changed[value] = axis
        self.twins.pop(value, None)
        maker = self.module.maker(value) if made else None
        if maker is not None:
            self._go_on(maker, (value, axis))
        elif made:
            raise Stuck("it is an argument of the function")
        for user in self.module.users.get(value, ()):
            if user in self.may_end and user.operands[0] == value:
                if user not in self.ends:
                    self.ends.append(user)
            else:
                self._go_on(user, (value, axis))

    def _go_on(self, op: Operation, place: Place, *, results: bool = True) -> None:
        tied = ties(op).of(place)
        if tied is None:
            raise Stuck(f"'{op.name}' needs the order")
        inside = set(op.operands)
        for value, axis in tied:
            if (value, axis) != place and (results or value in inside):
                makes = value not in inside and self.module.maker(value) is op
                self._pending.append((value, axis, makes))
