"""Split a region into parts: each computes a range of columns, from tensor memory to the stored buffer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from triton_linear.dialect.mlir_adapter import (
    Attribute,
    DenseElementsAttr,
    InsertionPoint,
    IntegerAttr,
    Operation,
    RankedTensorType,
    Type,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import PADDED_TO_COLUMNS, installed_release
from triton_linear.passes.epilogues.region import Region
from triton_linear.passes.framework.building import create, made, tensor
from triton_linear.passes.operations import names

_MEMDESC: Final = re.compile(
    r"!ttg\.memdesc<(?P<rows>\d+)x(?P<columns>\d+)x(?P<rest>[^,]+, #.+, #\w+\.(?:shared|tensor)_memory)"
    r"(?P<mutable>, mutable)?(?P<allocated>, \d+x\d+)?>"
)


def part_of_memory(memory: Type, columns: int) -> Type:
    """The type of a view of `columns` columns of a buffer."""
    found = _MEMDESC.fullmatch(str(memory))
    if found is None:
        raise ValueError(f"'{memory}' is no buffer of rows and columns")
    rows, whole = found["rows"], found["columns"]
    allocated = found["allocated"] or f", {rows}x{whole}"
    text = f"!ttg.memdesc<{rows}x{columns}x{found['rest']}{found['mutable'] or ''}{allocated}>"
    return Type.parse(text, memory.context)


def in_parts(region: Region, producers: Mapping[Value, Operation], columns: int, encoding: str) -> None:
    """Compute a region `columns` columns at a time, in the layout `encoding`, and store each part at once.

    Requires: an instruction fits every load of the region in that layout, for so many columns.
    """
    sink = region.sink
    ip, location = InsertionPoint(sink), sink.location
    if sink.name == names.LOCAL_ALLOC:
        type_ = sink.results[0].type
        if ", mutable" not in (text := str(type_)):
            type_ = Type.parse(f"{text[:-1]}, mutable>", type_.context)
        buffer = made(names.LOCAL_ALLOC, [], type_, ip, location)
    else:
        buffer = sink.operands[1]
    for start in range(0, region.shape[1], columns):
        part = _Part(producers, start, columns, encoding, ip, region.loads_early)
        value = part.tile(region.stored)
        view = part.columns_of(buffer, sink)
        create(names.LOCAL_STORE, [value, view], [], ip, location)
    if sink.name == names.LOCAL_ALLOC:
        sink.results[0].replace_all_uses_with(buffer)
    sink.erase()
    for op in reversed(region.ops):
        if not any(list(result.uses) for result in op.results):
            op.erase()


@dataclass
class _Part:
    """Writes the part of a region with the columns from `start` on.

    early: loads from shared memory stay at their original place. made: the part of each value that is written.
    """

    producers: Mapping[Value, Operation]
    start: int
    columns: int
    encoding: str
    ip: InsertionPoint
    early: bool
    made: dict[Value, Value] = field(default_factory=dict)

    def tile(self, value: Value) -> Value:
        """The part of a tensor that has the region's shape."""
        if value not in self.made:
            self.made[value] = self._tile(self.producers[value], value.type)
        return self.made[value]

    def columns_of(self, memory: Value, like: Operation) -> Value:
        """A view of the part's columns of a buffer."""
        context = memory.type.context
        type_ = part_of_memory(memory.type, self.columns)
        if "#ttng.tensor_memory" in str(memory.type):
            name = "offset" if installed_release() in PADDED_TO_COLUMNS else "N"
            attributes = {name: Attribute.parse(f"{self.start} : i32", context)}
            return self._create(names.TENSOR_SUBSLICE, [memory], type_, like, attributes)
        attributes = {"offsets": Attribute.parse(f"array<i32: 0, {self.start}>", context)}
        return self._create(names.SUBSLICE, [memory], type_, like, attributes)

    def _tile(self, op: Operation, whole: Type) -> Value:
        type_ = self._type(whole, (whole.shape[0], self.columns))
        if op.name == names.CONVERT:
            return self.tile(op.operands[0])
        if op.name == names.CONSTANT:
            return self._constant(op, type_)
        if op.name == names.SPLAT:
            return self._create(names.SPLAT, [op.operands[0]], type_, op)
        if op.name == names.LOCAL_LOAD and self.early:
            early = _Part(self.producers, self.start, self.columns, self.encoding, InsertionPoint(op), True)
            return early._cloned(op, [early.columns_of(op.operands[0], op)], type_)
        if op.name in (names.TENSOR_LOAD, names.LOCAL_LOAD):
            return self._cloned(op, [self.columns_of(op.operands[0], op)], type_)
        if op.name == names.BROADCAST:
            source = op.operands[0]
            if source.type.shape[1] == 1:
                column = self._create(
                    names.CONVERT, [source], self._type(source.type, tuple(source.type.shape)), op
                )
                return self._create(names.BROADCAST, [column], type_, op)
            row = self._row(self.producers[source], source.type)
            return self._create(names.BROADCAST, [row], type_, op)
        operands = [self.tile(v) if isinstance(v.type, RankedTensorType) else v for v in op.operands]
        return self._cloned(op, operands, type_)

    def _row(self, op: Operation, whole: Type) -> Value:
        """The part of a row that an `expand_dims` makes from a vector."""
        if op.name == names.CONVERT:
            return self._row(self.producers[op.operands[0]], whole)
        vector = self.vector(op.operands[0])
        slice_ = Attribute.parse(f"#ttg.slice<{{dim = 0, parent = {self.encoding}}}>", vector.type.context)
        type_ = RankedTensorType.get((self.columns,), vector.type.element_type, slice_, op.location)
        return self._cloned(
            op, [self._create(names.CONVERT, [vector], type_, op)], self._type(whole, (1, self.columns))
        )

    def vector(self, value: Value) -> Value:
        """The part of a vector, in the vector's own layout."""
        if value not in self.made:
            self.made[value] = self._vector(self.producers[value], value.type)
        return self.made[value]

    def _vector(self, op: Operation, whole: Type) -> Value:
        type_ = RankedTensorType.get((self.columns,), whole.element_type, whole.encoding, op.location)
        if op.name == names.CONVERT:
            return self._create(names.CONVERT, [self.vector(op.operands[0])], type_, op)
        if op.name == names.CONSTANT:
            return self._constant(op, type_)
        if op.name == names.RANGE:
            first = op.attributes["start"].value + self.start
            integer = op.attributes["start"].type
            part = self._cloned(op, [], type_)
            for name, bound in (("start", first), ("end", first + self.columns)):
                part.owner.operation.attributes[name] = IntegerAttr.get(integer, bound)
            return part
        operands = [self.vector(v) if isinstance(v.type, RankedTensorType) else v for v in op.operands]
        return self._cloned(op, operands, type_)

    def _type(self, like: Type, shape: tuple[int, ...]) -> Type:
        return tensor(like, self.encoding, shape)

    def _constant(self, op: Operation, type_: Type) -> Value:
        value = DenseElementsAttr.get_splat(type_, op.attributes["value"].get_splat_value())
        return self._create(names.CONSTANT, [], type_, op, {"value": value})

    def _cloned(self, op: Operation, operands: list[Value], type_: Type) -> Value:
        """Clone an operation on other operands, with a result of type `type_`."""
        clone = op.clone(ip=self.ip)
        for index, operand in enumerate(operands):
            clone.operands[index] = operand
        clone.results[0].set_type(type_)
        result: Value = clone.results[0]
        return result

    def _create(
        self,
        name: str,
        operands: list[Value],
        type_: Type,
        like: Operation,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Value:
        return made(name, operands, type_, self.ip, like.location, attributes)
