"""The axis analysis: applies the rules of `addressing` to the values of a module, on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from triton_linear.dialect.mlir_adapter import (
    DenseElementsAttr,
    IntegerAttr,
    Operation,
    RankedTensorType,
    Type,
    Value,
)
from triton_linear.dialect.partitions import PARTITIONS, captured
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.addressing import Affine, Mask
from triton_linear.passes.analysis.flow import results_of
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

_BINARY: Mapping[str, Callable[[Affine, Affine], Affine]] = {
    "arith.addi": addressing.add,
    "arith.subi": lambda a, b: addressing.add(a, b, -1),
    "arith.muli": addressing.multiply,
    "arith.remsi": addressing.remainder,
    "arith.remui": addressing.remainder,
    "arith.divsi": addressing.quotient,
    "arith.divui": addressing.quotient,
    "arith.andi": addressing.bit_and,
    "arith.shli": addressing.shift_left,
    "arith.shrsi": addressing.shift_right,
    "arith.shrui": addressing.shift_right,
}
"""The rules of integer arithmetic, of operations of `arith`."""
_COMBINES = ("andi", "ori", "xori", "muli", "select")
"""Operations of `arith` on masks that give a mask; `mask * mask` in a kernel is a multiplication."""
_CARRIES = (names.FOR, names.IF)
_VIEWS = frozenset(
    {names.SPLAT, names.EXPAND, names.BROADCAST, names.TRANS, names.RESHAPE, names.CONVERT, names.BITCAST}
)
_ALIKE = _VIEWS | {"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"}
"""Operations whose results have the elements of the operand."""
_HINT = "tt.divisibility"


def shape_of(type_: Type) -> tuple[int, ...]:
    """The shape of a tensor; () for everything else."""
    return tuple(type_.shape) if isinstance(type_, RankedTensorType) else ()


def pointee_bytes(type_: Type) -> int:
    """Bytes of the element that a pointer, or a tensor of pointers, points to."""
    text = str(type_.element_type if isinstance(type_, RankedTensorType) else type_)
    inner = text.removeprefix("!tt.ptr<").rsplit(">", 1)[0].split(",")[0]
    return element_type(inner).memory_bytes


class AxisAnalysis:
    """The analysis of one module; `producers` maps each result to its operation."""

    def __init__(self, producers: Mapping[Value, Operation]) -> None:
        self._producers = producers
        self._shapes: dict[Type, tuple[int, ...]] = {}
        self._known: dict[Value, Affine] = {}
        self._masks: dict[Value, Mask] = {}

    def maker(self, value: Value) -> Operation | None:
        """The operation that gives a value, None for the argument of a block."""
        return self._producers.get(value)

    def _shape(self, value: Value) -> tuple[int, ...]:
        """`shape_of` the value's type, cached, as the bindings take long to give a shape."""
        type_ = value.type
        shape = self._shapes.get(type_)
        if shape is None:
            shape = self._shapes[type_] = shape_of(type_)
        return shape

    def of(self, value: Value) -> Affine:
        """The affine form of an integer or pointer, or of a tensor of them."""
        known = self._known.get(value)
        if known is None:
            op, shape = self._producers.get(value), self._shape(value)
            if op is None:
                # Ends the recursion for a value that depends on itself around a loop.
                self._known[value] = Affine.unknown(shape)
                known = self._argument(value)
            else:
                known = self._refine_by_hints(op, self._derive_result(op, value, shape))
            self._known[value] = known
        return known

    def mask(self, value: Value) -> Mask:
        """The bits of its coordinates with which a mask never changes."""
        known = self._masks.get(value)
        if known is None:
            self._masks[value] = tuple((False,) * (size.bit_length() - 1) for size in self._shape(value))
            known = self._masks[value] = self._derive_mask(value)
        return known

    def _derive_result(self, op: Operation, value: Value, shape: tuple[int, ...]) -> Affine:
        """The affine form of a result, derived from the operands of its operation."""
        name = op.name
        if name == names.CONSTANT:
            return _constant(op, shape)
        if name == names.RANGE:
            start = op.attributes["start"].value
            return addressing.make_range(start, op.attributes["end"].value - start)
        if name in _ALIKE:
            return _viewed(op, self.of(op.operands[0]), shape)
        if name == names.ADD_POINTER:
            size = pointee_bytes(value.type)
            return addressing.addptr(self.of(op.operands[0]), self.of(op.operands[1]), size)
        if (rule := _BINARY.get(name)) is not None:
            return rule(self.of(op.operands[0]), self.of(op.operands[1]))
        if name == names.LOAD and shape:
            return self._loaded(op)
        if name in _CARRIES and (sources := self._sources(op, value)):
            return reduce(addressing.join, map(self.of, sources))
        if named(name).elementwise and shape:
            tensors = [self.of(operand) for operand in op.operands if self._shape(operand) == shape]
            return addressing.function_of(tensors, shape)
        return Affine.unknown(shape)

    @staticmethod
    def _sources(op: Operation, value: Value) -> list[Value]:
        """What a result of a loop or branch has the properties of: of a loop's that argument of its body, which
        has what both the initial and the yielded values have."""
        index = list(op.results).index(value)
        if op.name == names.FOR:
            return [op.regions[0].blocks[0].arguments[index + 1]]
        return results_of(op, index)

    @staticmethod
    def _refine_by_hints(op: Operation, derived: Affine) -> Affine:
        """The form `derived` of a result, with what the hints on its operation promise (`tl.multiple_of`
        etc.)."""
        attributes = op.attributes
        if not len(attributes):
            return derived
        contiguity, divisibility, constancy = (
            [int(entry) for entry in attributes[name]]
            if name in attributes and isinstance(attributes[name], DenseElementsAttr)
            else None
            for name in HINTS
        )
        if contiguity is None and constancy is None and divisibility is None:
            return derived
        return addressing.promised(derived, contiguity, constancy, divisibility)

    def _loaded(self, op: Operation) -> Affine:
        """A loaded value: equal addresses give equal elements, if the mask and the default are equal too."""
        pointers = self.of(op.operands[0])
        if len(op.operands) == 1:
            return Affine(addressing.only_common_zeros(pointers))
        shape = self._shape(op.operands[0])
        constant = self.mask(op.operands[1])
        masked = addressing.flags(constant)
        others = [self.of(other) for other in list(op.operands)[2:] if self._shape(other) == shape]
        return Affine(addressing.only_common_zeros(pointers, masked, *others))

    def _argument(self, value: Value) -> Affine:
        """The argument of a block. A function's argument has the divisor that its attributes promise; a
        partition's is the captured value; a loop's has what its initial value has, as far as an iteration that
        begins with it yields the same."""
        shape = self._shape(value)
        owner = value.owner.owner.operation
        index = value.arg_number
        if owner.name == names.FUNCTION:
            return (
                Affine.uniform(shape, _promised_divisor(owner, index)) if not shape else Affine.unknown(shape)
            )
        if owner.name == PARTITIONS:
            return self.of(captured(owner)[index])
        if owner.name != names.FOR:
            return Affine.unknown(shape)
        if index == 0:
            return Affine((), min(self.of(owner.operands[0]).divisor, self.of(owner.operands[2]).divisor))
        guess = replace(self.of(owner.operands[index + 2]), constant=None)
        yielded = _yielded(owner, index - 1)
        while True:
            # Other values are derived from the guess: if it was wrong, they must be forgotten.
            known, masks = dict(self._known), dict(self._masks)
            self._known[value] = guess
            joined = addressing.join(guess, self.of(yielded))
            if joined == guess:
                return guess
            self._known, self._masks = known, masks
            guess = joined

    def _carried_mask(self, value: Value) -> Mask | None:
        """A mask that a loop carries, for example for the accesses of the next iteration: it is constant along
        the bits along which both its initial value and the yielded one are. None for other values."""
        owner = value.owner.owner.operation
        index = value.arg_number
        if owner.name != names.FOR or index == 0:
            return None
        guess, yielded = self.mask(owner.operands[index + 2]), _yielded(owner, index - 1)
        while True:
            # As in `_argument`: if the guess was wrong, values derived from it must be forgotten.
            known, masks = dict(self._known), dict(self._masks)
            self._masks[value] = guess
            agreed = addressing.agree(guess, self.mask(yielded))
            if agreed == guess:
                return guess
            self._known, self._masks = known, masks
            guess = agreed

    def _derive_mask(self, value: Value) -> Mask:
        op = self._producers.get(value)
        shape = self._shape(value)
        nothing: Mask = tuple((False,) * (size.bit_length() - 1) for size in shape)
        if op is None:
            return self._carried_mask(value) or nothing
        name = op.name
        if name == names.CONSTANT and _is_splat(op):
            return tuple((True,) * (size.bit_length() - 1) for size in shape)
        if name == names.COMPARE:
            predicate = addressing.PREDICATES[op.attributes["predicate"].value]
            return addressing.compare(predicate, self.of(op.operands[0]), self.of(op.operands[1]))
        if name in _CARRIES and (sources := self._sources(op, value)):
            return addressing.agree(*map(self.mask, sources))
        if name.removeprefix("arith.") in _COMBINES:
            return addressing.agree(*(self.mask(each) for each in op.operands if self._shape(each) == shape))
        if name in _VIEWS:
            return addressing.constancy(_viewed(op, addressing.flags(self.mask(op.operands[0])), shape).deltas)
        return nothing


def _viewed(op: Operation, value: Affine, shape: tuple[int, ...]) -> Affine:
    """The affine form of a result that has the elements of the operand, from that of the operand."""
    if op.name == names.SPLAT:
        return addressing.splat(value, shape)
    if op.name == names.EXPAND:
        return addressing.expand_dims(value, op.attributes["axis"].value)
    if op.name == names.BROADCAST:
        return addressing.broadcast(value, shape)
    if op.name == names.TRANS:
        return addressing.trans(value, tuple(op.attributes["order"]))
    return Affine.unknown(shape) if op.name == names.RESHAPE else value


def _constant(op: Operation, shape: tuple[int, ...]) -> Affine:
    attribute = op.attributes["value"]
    if isinstance(attribute, IntegerAttr):
        return Affine.exactly(attribute.value)
    if isinstance(attribute, DenseElementsAttr) and attribute.is_splat:
        splat = attribute.get_splat_value()
        return Affine.exactly(splat.value, shape) if isinstance(splat, IntegerAttr) else Affine.uniform(shape)
    return Affine.unknown(shape)


def _yielded(loop: Operation, index: int) -> Value:
    """What a loop carries to its next iteration as number `index`."""
    value: Value = results_of(loop, index)[1]
    return value


def _is_splat(op: Operation) -> bool:
    attribute = op.attributes["value"]
    return not isinstance(attribute, DenseElementsAttr) or bool(attribute.is_splat)


def _promised_divisor(function: Operation, index: int) -> int:
    """The power of two that divides an argument of a function, as its `tt.divisibility` promises."""
    if "arg_attrs" not in function.attributes:
        return 1
    promises = function.attributes["arg_attrs"][index]
    return addressing.divisor_of(promises[_HINT].value) if _HINT in promises else 1
