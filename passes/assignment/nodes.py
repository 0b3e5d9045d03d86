"""A module's operations, values and blocks as plain Python objects, each read once.

The Python bindings of MLIR make a new object for every query and compare values by a call into MLIR, which
takes a microsecond or more. The assignment makes about ten queries for each operation. The nodes have the same
attribute names as the bindings, so that code which only reads a module accepts both. They show the module as it
was when it was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from triton_linear.dialect.mlir_adapter import Attribute, Operation, RankedTensorType, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType, element_type


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a tensor: its shape, element type, encoding, and bits per element."""

    shape: tuple[int, ...]
    element: str
    encoding: str
    bits: int

    @property
    def type(self) -> ElementType:
        return element_type(self.element)


def kind_of(type_: Type, texts: dict[Attribute | Type, str]) -> Kind | None:
    """The kind of a tensor type with an encoding, None for every other type; `texts`: a cache of printed
    attributes and types."""
    if not isinstance(type_, RankedTensorType) or (encoding := type_.encoding) is None:
        return None
    parts = type_.element_type, encoding
    element, written = (texts.get(part) or texts.setdefault(part, str(part)) for part in parts)
    return Kind(tuple(type_.shape), element, written, element_type(element).bits)


@dataclass(eq=False, slots=True)
class OpNode:
    """An operation; `op` is the object of the bindings."""

    op: Operation
    name: str
    operands: list[ValueNode]
    block: BlockNode | None
    results: list[ValueNode] = field(default_factory=list)
    regions: list[RegionNode] = field(default_factory=list)

    @property
    def attributes(self) -> Any:
        return self.op.attributes

    @property
    def parent(self) -> OpNode | None:
        return None if self.block is None else self.block.owner

    @property
    def operation(self) -> OpNode:
        """The node itself: some operations of the bindings are views, with their operation as this
        attribute."""
        return self


@dataclass(eq=False, slots=True)
class ValueNode:
    """A result of an operation, or an argument of a block."""

    value: Value
    type: Type
    kind: Kind | None
    owner: OpNode | BlockNode
    arg_number: int


@dataclass(eq=False, slots=True)
class BlockNode:
    """A block with its arguments and operations."""

    owner: OpNode
    arguments: list[ValueNode] = field(default_factory=list)
    operations: list[OpNode] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class RegionNode:
    """A region."""

    blocks: list[BlockNode]


def read(ops: Iterable[Operation]) -> list[OpNode]:
    """The nodes of `ops`. Requires: `ops` are one operation and all operations inside it, outermost first."""
    nodes: list[OpNode] = []
    values: dict[Value, ValueNode] = {}
    blocks: dict[Any, BlockNode] = {}
    types: dict[Type, tuple[Type, Kind | None]] = {}
    texts: dict[Attribute | Type, str] = {}

    def node_of(value: Value, owner: OpNode | BlockNode, number: int) -> ValueNode:
        type_ = value.type
        known = types.get(type_)
        if known is None:
            known = types[type_] = type_, kind_of(type_, texts)
        made = values[value] = ValueNode(value, *known, owner, number)
        return made

    for op in ops:
        block = blocks[op.block] if nodes else None
        node = OpNode(op, op.name, list(map(values.__getitem__, op.operands)), block)
        if block is not None:
            block.operations.append(node)
        node.results = [node_of(result, node, number) for number, result in enumerate(op.results)]
        regions = op.regions
        if len(regions):  # most operations have none, and iterating costs more than asking
            for region in regions:
                inside = []
                for inner in region.blocks:
                    made = blocks[inner] = BlockNode(node)
                    made.arguments = [node_of(value, made, n) for n, value in enumerate(inner.arguments)]
                    inside.append(made)
                node.regions.append(RegionNode(inside))
        nodes.append(node)
    return nodes
