"""Make operations, and types of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from triton_linear.dialect.encodings import linear_encoding_text
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    InsertionPoint,
    Location,
    Operation,
    RankedTensorType,
    Type,
    Value,
)
from triton_linear.passes.operations.names import TRANS

Place: TypeAlias = InsertionPoint | Operation
"""Where an operation is made: there, or in front of another one."""


def create(
    name: str,
    operands: Sequence[Value],
    types: Sequence[Type],
    place: Place,
    location: Location,
    attributes: Mapping[str, Attribute] | None = None,
) -> Operation:
    """A new operation."""
    ip = place if isinstance(place, InsertionPoint) else InsertionPoint(place)
    given = dict(attributes or {})
    return Operation.create(
        name, results=list(types), operands=list(operands), attributes=given, loc=location, ip=ip
    )


def made(
    name: str,
    operands: Sequence[Value],
    type_: Type,
    place: Place,
    location: Location,
    attributes: Mapping[str, Attribute] | None = None,
) -> Value:
    """The result of a new operation."""
    result: Value = create(name, operands, [type_], place, location, attributes).results[0]
    return result


def tensor(like: Type, encoding: str, shape: Sequence[int] | None = None, element: Type | None = None) -> Type:
    """The type of a tensor in another encoding, and with another shape or element type where they are given."""
    attribute = Attribute.parse(encoding, like.context)
    sizes = list(like.shape if shape is None else shape)
    return RankedTensorType.get(sizes, element or like.element_type, attribute, Location.unknown(like.context))


def in_layout(like: Type, layout: LinearLayout) -> Type:
    """The type of a tensor of the shape of `layout`."""
    return tensor(like, linear_encoding_text(layout), [size for _, size in layout.out_dims])


def shaped(name: str, value: Value, layout: LinearLayout, place: Place, location: Location) -> Value:
    """The result of a change of shape or layout."""
    return made(name, [value], in_layout(value.type, layout), place, location)


def transposed(
    value: Value, order: Sequence[int], layout: LinearLayout, place: Place, location: Location
) -> Value:
    """The result of a transpose."""
    attributes = {"order": Attribute.parse(f"array<i32: {str(list(order))[1:-1]}>", value.type.context)}
    return made(TRANS, [value], in_layout(value.type, layout), place, location, attributes)
