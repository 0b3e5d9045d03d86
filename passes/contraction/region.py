"""The values that must be in another order so that a given value is, along one of its axes.

The region grows from the value to its users and to its operands. The results of an operation on values in the
new order are in the new order too, along the tied axes, and so must be its other operands. Ranges can be made
in any order: so values computed from ranges and scalars alone are cloned in the new order (twins), and other
users keep the original. All other values (loaded, carried by a loop, or stored) change their order for all
users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import terminator
from triton_linear.passes.contraction.ties import Invariance, Place, is_pure, ties
from triton_linear.passes.operations.names import FOR, IF, RANGE, YIELD

_LOOPS = frozenset({FOR, IF})


class Stuck(Exception):
    """An operation needs its elements in their present order."""


@dataclass
class ModuleIndex:
    """The operations of a module, with the producer and the users of each value."""

    ops: Sequence[Operation]
    users: dict[Value, list[Operation]] = field(default_factory=dict)
    carried: dict[Value, Operation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producers = producers_of(self.ops)
        self.same = Invariance(self.producers)
        for op in self.ops:
            if op.name == YIELD and op.parent.operation.name in _LOOPS:
                continue  # the loop or branch counts as the user of these operands
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
            if op.name in _LOOPS:
                self._enter(op)

    def _enter(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self.carried.update((argument, op) for argument in block.arguments)
                for operand in terminator(block).operands:
                    self.users.setdefault(operand, []).append(op)

    def maker(self, value: Value) -> Operation | None:
        """The operation that defines a value, or the loop that carries it; None for arguments of functions."""
        return self.producers.get(value) or self.carried.get(value)


@dataclass
class Region:
    """Values that change their order, each with the axis along which it does.

    changed: values that are in the new order for all users. twins: values that are cloned in the new order.
    ends: the conversions from `may_end` that take a value of the region.
    """

    module: ModuleIndex
    may_end: Collection[Operation]
    changed: dict[Value, int] = field(default_factory=dict)
    twins: dict[Value, int] = field(default_factory=dict)
    ends: list[Operation] = field(default_factory=list)
    _pending: list[tuple[Value, int, bool]] = field(default_factory=list)

    def grow(self, value: Value, axis: int, *, forward: bool) -> None:
        """Add all values that must change so that `value` is in the new order.

        `forward`: True if `value` is the result of a conversion that ends the region; then only its users
        change. Raises Stuck if an operation needs the present order.
        """
        if forward:
            self._change(value, axis, made=False)
        else:
            self._pending.append((value, axis, False))
        while self._pending:
            wanted, along, settled = self._pending.pop()
            if settled:
                self._change(wanted, along, made=True)
            else:
                self._require(wanted, along)
        # A conversion whose result is in the new order as well does not end the region.
        self.ends = [end for end in self.ends if end.results[0] not in self.changed]

    def _known(self, value: Value, axis: int, among: Mapping[Value, int]) -> bool:
        if value in among and among[value] != axis:
            raise Stuck("two axes of a value would have to be in another order")
        return value in among

    def _require(self, value: Value, axis: int) -> None:
        """Require that `value`, an operand beside others in the new order, is in the new order."""
        if self.module.same(value, axis):
            return
        if self._known(value, axis, self.changed) or self._known(value, axis, self.twins):
            return
        op = self.module.producers.get(value)
        if op is None or not is_pure(op):
            self._change(value, axis, made=True)
            return
        self.twins[value] = axis
        if op.name == RANGE:
            if op.attributes["start"].value != 0:
                raise Stuck("a range does not begin at zero")
            return
        self._follow_ties(op, (value, axis), results=False)

    def _change(self, value: Value, axis: int, *, made: bool) -> None:
        """Put `value` into the new order for all users; with `made`, its producer gives it in this order."""
        if self._known(value, axis, self.changed):
            return
        self._known(value, axis, self.twins)
        self.changed[value] = axis
        self.twins.pop(value, None)
        maker = self.module.maker(value) if made else None
        if maker is not None:
            self._follow_ties(maker, (value, axis))
        elif made:
            raise Stuck("it is an argument of the function")
        for user in self.module.users.get(value, ()):
            if user in self.may_end and user.operands[0] == value:
                if user not in self.ends:
                    self.ends.append(user)
            else:
                self._follow_ties(user, (value, axis))

    def _follow_ties(self, op: Operation, place: Place, *, results: bool = True) -> None:
        """Require the new order of all that `op` ties to `place`; of operands only, unless `results`."""
        tied = ties(op).of(place)
        if tied is None:
            raise Stuck(f"'{op.name}' needs the order")
        inside = set(op.operands)
        for value, axis in tied:
            if (value, axis) != place and (results or value in inside):
                makes = value not in inside and self.module.maker(value) is op
                self._pending.append((value, axis, makes))
