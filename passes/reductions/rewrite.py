"""Write a split reduction into a module."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of, linear_encoding_text, transfer
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    DenseElementsAttr,
    InsertionPoint,
    IntegerAttr,
    Location,
    Operation,
    RankedTensorType,
    Type,
    UnitAttr,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.verifiers import CONVERT
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
            gathered = self._gather([values[index] for index in pack], way.gathered)
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
            value = self._shaped("tt.reshape", value, found.apart)
            text = f"array<i32: {', '.join(map(str, order))}>"
            value = self._shaped("tt.trans", value, found.moved, {"order": Attribute.parse(text, self.context)})
        return self._shaped("tt.reshape", value, found.whole)

    def reshaped(self, value: Value, shape: Sequence[int], encoding: str) -> Value:
        """Reshape a tensor. Requires: `encoding` is the encoding that follows for the new shape."""
        result = self._tensor(shape, value.type.element_type, encoding)
        return self._create("tt.reshape", [result], [value])[0]

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
                result = self._tensor(shape, type_.element_type, encoding)
            copy.results[index].set_type(result)
        return list(copy.results)

    def _agree(self, value: Value) -> Value:
        """Make all lanes that hold copies of an element take the copy of the same lane.

        A gather along an axis of one element does this: Triton's gather reads an element from the first lane
        that holds it, by a shuffle. This is the lane whose partial result Triton's own reduction uses.
        `ll.agree` leaves
        the gather to Triton: the planners of this package take copies to be equal and would read each lane's
        own.
        """
        layout = _layout(value)
        flat = self._shaped("tt.reshape", value, transfer.expand_dims(layout, 0))
        index = self._tensor(flat.type.shape, Type.parse("i32", self.context), str(flat.type.encoding))
        zero = DenseElementsAttr.get_splat(index, IntegerAttr.get(index.element_type, 0))
        (zeros,) = self._create("arith.constant", [index], [], {"value": zero})
        axis = IntegerAttr.get(Type.parse("i32", self.context), 0)
        agreed = {"axis": axis, ll.AGREE: UnitAttr.get(self.context)}
        (taken,) = self._create("tt.gather", [flat.type], [flat, zeros], agreed)
        return self._shaped("tt.reshape", taken, layout)

    def _gather(self, values: Sequence[Value], layout: LinearLayout) -> list[Value]:
        """Convert values of one layout to another, joined into one conversion."""
        types = [value.type.element_type for value in values]
        element = packed_element(range(len(values)), [element_type(str(type_)) for type_ in types])
        wanted = Type.parse(element.name, self.context)
        level = [self._bitcast(value, wanted) for value in values]
        while len(level) > 1:
            joined = transfer.join(_layout(level[0]))
            level = [self._join(pair, joined) for pair in zip(level[::2], level[1::2], strict=True)]
            layout = transfer.join(layout)
        level = [self._shaped(CONVERT, level[0], layout, {ll.PARTIALS: UnitAttr.get(self.context)})]
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
        return self._create("tt.bitcast", [self._tensor(type_.shape, element, str(type_.encoding))], [value])[0]

    def _join(self, pair: Sequence[Value], layout: LinearLayout) -> Value:
        type_ = pair[0].type
        result = self._tensor((*type_.shape, 2), type_.element_type, linear_encoding_text(layout))
        return self._create("tt.join", [result], pair)[0]

    def _split(self, value: Value, layout: LinearLayout) -> list[Value]:
        type_ = value.type
        half = self._tensor(type_.shape[:-1], type_.element_type, linear_encoding_text(layout))
        return self._create("tt.split", [half, half], [value])

    def _shaped(
        self, name: str, value: Value, layout: LinearLayout, attributes: dict[str, Attribute] | None = None
    ) -> Value:
        shape = [size for _, size in layout.out_dims]
        result = self._tensor(shape, value.type.element_type, linear_encoding_text(layout))
        return self._create(name, [result], [value], attributes)[0]

    def _tensor(self, shape: Sequence[int], element: Type, encoding: str) -> Type:
        attribute = Attribute.parse(encoding, self.context)
        return RankedTensorType.get(list(shape), element, attribute, Location.unknown(self.context))

    def _create(
        self,
        name: str,
        types: Sequence[Type],
        operands: Sequence[Value],
        attributes: dict[str, Attribute] | None = None,
    ) -> list[Value]:
        op = Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=attributes or {},
            loc=self.reduction.location,
            ip=self.ip,
        )
        return list(op.results)


def converted(value: Value, type_: Type, ip: InsertionPoint, location: Location) -> Value:
    """The value converted to `type_`, which differs in the encoding alone."""
    if value.type == type_:
        return value
    made = {ll.PARTIALS: UnitAttr.get(type_.context)}
    op = Operation.create(CONVERT, results=[type_], operands=[value], attributes=made, loc=location, ip=ip)
    result: Value = op.results[0]
    return result


def _layout(value: Value) -> LinearLayout:
    return layout_of(str(value.type.encoding), tuple(value.type.shape))
