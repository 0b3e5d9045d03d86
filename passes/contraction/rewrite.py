"""Put the values of a region into another order."""

from __future__ import annotations

from dataclasses import field

from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.mlir_adapter import (
    DenseElementsAttr,
    InsertionPoint,
    IntegerAttr,
    Location,
    Operation,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import is_used
from triton_linear.passes.contraction.order import Order, inverse, shifts
from triton_linear.passes.contraction.region import Region
from triton_linear.passes.contraction.ties import ties
from triton_linear.passes.framework.building import made, shaped, transposed
from triton_linear.passes.framework.shape_changes import pieces
from triton_linear.passes.operations.names import (
    AND,
    CONSTANT,
    FOR,
    OR,
    RANGE,
    RESHAPE,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    YIELD,
)


@dataclass
class Permuter:
    """Rewrites one region.

    claims: all values in the new order, each with its axis. erased: each value that an operation puts into
    another order, with the value that it was made from; the proof treats both as one.
    """

    region: Region
    order: Order
    claims: dict[Value, int] = field(default_factory=dict)
    erased: dict[Value, Value] = field(default_factory=dict)
    _made: dict[Value, Value] = field(default_factory=dict)

    def run(self) -> None:
        """Replace operands of the region's operations by their twins. The ends of the region are left to
        `reorder`."""
        self.claims.update(self.region.changed)
        for op in self._inside():
            self._use_twins(op)

    def twin(self, value: Value) -> Value:
        """The value in the new order: its twin if it has one, else itself."""
        if value not in self.region.twins:
            return value
        found = self._made.get(value)
        if found is None:
            found = self._made[value] = self._make_twin(value)
            self.claims[found] = self.region.twins[value]
        return found

    def reorder(self, conversion: Operation, axis: int, order: Order, *, begins: bool = False) -> None:
        """Make a conversion take its operand with element i along `axis` moved to order(i). `begins`: True if
        the region begins with the result of the conversion.

        No element leaves its register: the tensor is reshaped to an axis for each run of bits, transposed, and
        reshaped back.
        """
        value = self.twin(conversion.operands[0])
        result = reordered(value, axis, order, InsertionPoint(conversion))
        self.erased[result] = value
        if begins:
            self.claims[result] = axis
        conversion.operands[0] = result

    def sweep(self) -> None:
        """Erase originals without uses: their twins took all of them."""
        for op in reversed(self.region.module.ops):
            if any(result in self._made for result in op.results) and not any(map(is_used, op.results)):
                op.erase()

    def _inside(self) -> list[Operation]:
        """The operations with operands or results in the new order, without the ends of the region."""
        region, module = self.region, self.region.module
        inside = []
        for op in module.ops:
            if op in region.ends or (op in region.may_end and op.results[0] not in region.changed):
                continue
            if op.name == YIELD or any(v in region.changed for v in (*op.operands, *op.results)):
                inside.append(op)
        return inside

    def _use_twins(self, op: Operation) -> None:
        region = self.region
        if op.name == YIELD:
            for index, operand in enumerate(op.operands):
                parent = op.parent.operation
                if index < len(parent.results) and parent.results[index] in region.changed:
                    op.operands[index] = self.twin(operand)
            return
        if op.name == FOR:
            for index, result in enumerate(op.results):
                if result in region.changed:
                    op.operands[3 + index] = self.twin(op.operands[3 + index])
            return
        meets = ties(op)
        for index, operand in enumerate(op.operands):
            if operand in region.twins:
                tied = meets.of((operand, region.twins[operand])) or ()
                if any(region.changed.get(other) == axis for other, axis in tied):
                    op.operands[index] = self.twin(operand)

    def _make_twin(self, value: Value) -> Value:
        op = self.region.module.producers[value]
        if op.name == RANGE:
            result = permuted_range(value, self.order, InsertionPoint.after(op))
            self.erased[result] = value
            return result
        taken = [self.twin(operand) for operand in op.operands]
        clone = op.clone(ip=InsertionPoint.after(op))
        for index, operand in enumerate(taken):
            clone.operands[index] = operand
        made: Value = clone.results[list(op.results).index(value)]
        return made


def permuted_range(value: Value, order: Order, ip: InsertionPoint) -> Value:
    """order(i) for each i of a range: the bits that move by the same distance are masked and shifted
    together."""
    permuted = None
    for distance, mask in shifts(order).items():
        part = _binary(AND, value, _constant(value, mask, ip), ip)
        if distance > 0:
            part = _binary(SHIFT_LEFT, part, _constant(value, distance, ip), ip)
        elif distance < 0:
            part = _binary(SHIFT_RIGHT, part, _constant(value, -distance, ip), ip)
        permuted = part if permuted is None else _binary(OR, permuted, part, ip)
    assert permuted is not None
    return permuted


def reordered(value: Value, axis: int, order: Order, ip: InsertionPoint) -> Value:
    """Move element i along an axis to order(i), by changes of shape alone."""
    shape = tuple(value.type.shape)
    sizes, swapped = pieces(inverse(order))
    split = (*shape[:axis], *sizes, *shape[axis + 1 :])
    transposed_axes = (
        *range(axis),
        *(axis + index for index in swapped),
        *range(axis + len(sizes), len(split)),
    )
    layout = layout_of(str(value.type.encoding), shape)
    apart = transfer.reshape(layout, split)
    moved = transfer.trans(apart, transposed_axes)
    back = transfer.reshape(moved, shape)
    place = Location.unknown(value.type.context)
    value = shaped(RESHAPE, value, apart, ip, place)
    return shaped(RESHAPE, transposed(value, transposed_axes, moved, ip, place), back, ip, place)


def _constant(like: Value, number: int, ip: InsertionPoint) -> Value:
    splat = IntegerAttr.get(like.type.element_type, number)
    attributes = {"value": DenseElementsAttr.get_splat(like.type, splat)}
    return made(CONSTANT, [], like.type, ip, Location.unknown(like.type.context), attributes)


def _binary(name: str, left: Value, right: Value, ip: InsertionPoint) -> Value:
    return made(name, [left, right], left.type, ip, Location.unknown(left.type.context))
