"""Write a split reduction into a module."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    DenseElementsAttr,
    InsertionPoint,
    IntegerAttr,
    Location,
    Operation,
    Type,
    UnitAttr,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.building import create, in_layout, made, tensor, transposed
from triton_linear.passes.operations import names
from triton_linear.passes.reductions.split import Split
from triton_linear.passes.reductions.ways import Way, packed_element


@dataclass
class ReductionWriter:
    """Inserts operations before a reduction, with its location."""

    reduction: Operation

    def __post_init__(self) -> None:
        self.ip = InsertionPoint(self.reduction)
        self.context = self.reduction.context

    def write(self, found: Split, way: Way) -> list[Value]:
        """Write the split reduction; returns its results in the layout that `way` gives, or scalars. The
        original reduction is not erased."""
        values = [self._cut(value, found) for value in self.reduction.operands]
        for axis in reversed(range(found.axis + found.crossing, found.axis + len(found.sizes))):
            values = self.reduced(values, axis)
        if way.agree and found.copies:
            values = [self._agree(value) for value in values]
        partials: dict[int, Value] = {}
        for pack in way.packs:
            gathered = self._converted([values[index] for index in pack], way.gathered)
            partials.update(zip(pack, gathered, strict=True))
        values = [partials[index] for index in range(len(values))]
        for number in range(found.crossing):
            values = self.reduced(values, found.axis)
            if way.agree and number + 1 == way.lanes:
                values = [self._agree(value) for value in values]
        return values

    def _cut(self, value: Value, found: Split) -> Value:
        """Reshape a tensor to the dimensions of the split."""
        rank = len(value.type.shape)
        if found.order != tuple(range(len(found.order))):
            order = (
                *range(found.axis),
                *(found.axis + index for index in found.order),
                *range(found.axis + len(found.order), rank - 1 + len(found.order)),
            )
            value = self._shaped(names.RESHAPE, value, found.apart)
            value = transposed(value, order, found.moved, self.ip, self.reduction.location)
        return self._shaped(names.RESHAPE, value, found.whole)

    def reshaped(self, value: Value, shape: Sequence[int], encoding: str) -> Value:
        """Reshape a tensor. Requires: `encoding` is the encoding that follows for the new shape."""
        return self._made(names.RESHAPE, [value], tensor(value.type, encoding, shape))

    def reduced(self, values: Sequence[Value], axis: int) -> list[Value]:
        """Reduce other tensors along another axis, with the region and attributes of the reduction."""
        copy = self.reduction.clone(ip=self.ip)
        copy.attributes["axis"] = IntegerAttr.get(copy.attributes["axis"].type, axis)
        for index, value in enumerate(values):
            copy.operands[index] = value
            type_ = value.type
            shape = [size for place, size in enumerate(type_.shape) if place != axis]
            result: Type = type_.element_type
            if shape:
                encoding = f"#ttg.slice<{{dim = {axis}, parent = {type_.encoding}}}>"
                result = tensor(type_, encoding, shape)
            copy.results[index].set_type(result)
        return list(copy.results)

    def _agree(self, value: Value) -> Value:
        """Make all lanes that hold copies of an element take the copy of the same lane.

        A gather along an axis of one element does this: Triton's gather reads an element from the first lane
        that holds it, by a shuffle. This is the lane whose partial result Triton's own reduction uses.
        """
        layout = _layout(value)
        flat = self._shaped(names.RESHAPE, value, transfer.expand_dims(layout, 0))
        index = tensor(flat.type, str(flat.type.encoding), element=Type.parse("i32", self.context))
        zero = DenseElementsAttr.get_splat(index, IntegerAttr.get(index.element_type, 0))
        zeros = self._made(names.CONSTANT, [], index, {"value": zero})
        axis = IntegerAttr.get(Type.parse("i32", self.context), 0)
        taken = self._made(names.GATHER, [flat, zeros], flat.type, {"axis": axis})
        return self._shaped(names.RESHAPE, taken, layout)

    def _converted(self, values: Sequence[Value], layout: LinearLayout) -> list[Value]:
        """Convert values of one layout to another, joined into one conversion."""
        types = [value.type.element_type for value in values]
        element = packed_element(range(len(values)), [element_type(str(type_)) for type_ in types])
        wanted = Type.parse(element.name, self.context)
        level = [self._bitcast(value, wanted) for value in values]
        while len(level) > 1:
            joined = transfer.join(_layout(level[0]))
            level = [self._join(pair, joined) for pair in zip(level[::2], level[1::2], strict=True)]
            layout = transfer.join(layout)
        partials = {ll.PARTIALS: UnitAttr.get(self.context)}
        level = [self._made(names.CONVERT, level[:1], in_layout(level[0].type, layout), partials)]
        while len(level) < len(values):
            half = transfer.split(layout)
            assert half is not None  # it was joined
            layout = half
            level = [part for value in level for part in self._split(value, layout)]
        return [self._bitcast(value, type_) for value, type_ in zip(level, types, strict=True)]

    def _bitcast(self, value: Value, element: Type) -> Value:
        type_ = value.type
        if type_.element_type == element:
            return value
        to = tensor(type_, str(type_.encoding), element=element)
        return self._made(names.BITCAST, [value], to)

    def _join(self, pair: Sequence[Value], layout: LinearLayout) -> Value:
        return self._made(names.JOIN, pair, in_layout(pair[0].type, layout))

    def _split(self, value: Value, layout: LinearLayout) -> list[Value]:
        half = in_layout(value.type, layout)
        return list(create(names.SPLIT, [value], [half, half], self.ip, self.reduction.location).results)

    def _shaped(self, name: str, value: Value, layout: LinearLayout) -> Value:
        return self._made(name, [value], in_layout(value.type, layout))

    def _made(
        self,
        name: str,
        operands: Sequence[Value],
        type_: Type,
        attributes: dict[str, Attribute] | None = None,
    ) -> Value:
        return made(name, operands, type_, self.ip, self.reduction.location, attributes)


def converted(value: Value, type_: Type, ip: InsertionPoint, location: Location) -> Value:
    """The value converted to `type_`, which differs in the encoding alone."""
    if value.type == type_:
        return value
    partials = {ll.PARTIALS: UnitAttr.get(type_.context)}
    return made(names.CONVERT, [value], type_, ip, location, partials)


def _layout(value: Value) -> LinearLayout:
    return layout_of(str(value.type.encoding), tuple(value.type.shape))
