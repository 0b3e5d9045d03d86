"""Gives the values of a module the layouts that were chosen for them.

Groups get their new encodings; conversions on edges go and come as the two sides differ; values that are
recomputed are made again in the encodings that are asked for, where they were made before; what nobody uses any
more goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    DenseElementsAttr,
    InsertionPoint,
    Location,
    Operation,
    RankedTensorType,
    Type,
    Value,
)
from triton_linear.passes.assignment import weights
from triton_linear.passes.assignment.candidates import sliced
from triton_linear.passes.assignment.graph import Edge, Graph, Group
from triton_linear.passes.verifiers import CONVERT

_DISPOSABLE = frozenset({"tt.expand_dims", "tt.broadcast", CONVERT})


@dataclass
class Rewriter:
    """One rewriting of a module: `encodings` has the new encoding of each group of `graph`."""

    graph: Graph
    ops: Sequence[Operation]
    encodings: Mapping[Group, str]
    made: dict[tuple[Value, str], Value] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrite the module. Requires: every group of the graph has an encoding."""
        self.producers = {result: op for op in self.ops for result in op.results}
        self.before = {value: str(value.type.encoding) for value in self.graph.owners}
        for value, (group, path) in self.graph.owners.items():
            encoding = sliced(self.encodings[group], path)
            if encoding != self.before[value]:
                value.set_type(self._type(value.type, encoding))
        for use, group, path in self.graph.requests:
            value = self.graph.resolve(use.op.operands[use.index])
            use.op.operands[use.index] = self._recomputed(value, sliced(self.encodings[group], path))
        for edge in self.graph.edges:
            self._connect(edge)
        self._sweep()

    def _type(self, type_: Type, encoding: str) -> Type:
        attribute = self.attributes.get(encoding)
        if attribute is None:
            attribute = self.attributes[encoding] = Attribute.parse(encoding, type_.context)
        return RankedTensorType.get(type_.shape, type_.element_type, attribute, Location.unknown(type_.context))

    def _connect(self, edge: Edge) -> None:
        given = sliced(self.encodings[edge.source], edge.given)
        wanted = sliced(self.encodings[edge.target], edge.wanted)
        shape = edge.kind.shape
        same = given == wanted
        # Triton compares the layouts of what changes shape, not how they are written.
        alike = same or (edge.changes_shape and layout_of(given, shape) == layout_of(wanted, shape))
        for use in edge.uses:
            as_is = same or (alike and self._is_alone(edge, use.op))
            use.op.operands[use.index] = edge.value if as_is else self._converted(edge, wanted, use.op)

    def _is_alone(self, edge: Edge, user: Operation) -> bool:
        """Whether no other value is an operand: those of a join have to be of one type."""
        return all(self.graph.resolve(operand) == edge.value for operand in user.operands)

    def _converted(self, edge: Edge, encoding: str, user: Operation) -> Value:
        """The value of an edge in another encoding: converted where it is made, or before its user if that is
        in a branch or after a loop."""
        value = edge.value
        key = value, encoding
        if (found := self.made.get(key)) is not None:
            return found
        producer = self.producers.get(value)
        ip = InsertionPoint.at_block_begin(value.owner) if producer is None else _after(producer)
        location = user.location if producer is None else producer.location
        conversion = Operation.create(
            CONVERT, results=[self._type(value.type, encoding)], operands=[value], loc=location, ip=ip
        )
        self.made[key] = conversion.results[0]
        return conversion.results[0]

    def _recomputed(self, value: Value, encoding: str) -> Value:
        """A value that can be recomputed, in an encoding."""
        key = value, encoding
        found = self.made.get(key)
        if found is not None:
            return found
        op = self.graph.recipes[value].op
        operands = encoding
        if op.name == "tt.expand_dims":
            operands = sliced(encoding, (op.attributes["axis"].value,))
        resolved = [self.graph.resolve(operand) for operand in op.operands]
        taken = [
            self._recomputed(operand, operands) if operand in self.graph.recipes else operand
            for operand in resolved
        ]
        if str(value.type.encoding) == encoding and taken == list(op.operands):
            self.made[key] = value
            return value
        clone = op.clone(ip=_after(op))
        for index, operand in enumerate(taken):
            clone.operands[index] = operand
        type_ = self._type(value.type, encoding)
        clone.results[0].set_type(type_)
        if op.name == "arith.constant":
            splat = op.attributes["value"].get_splat_value()
            clone.attributes["value"] = DenseElementsAttr.get_splat(type_, splat)
        self.made[key] = clone.results[0]
        return clone.results[0]

    def _sweep(self) -> None:
        """Erase what has lost its last use, users first."""
        pending = [op for op in reversed(self.ops) if _is_disposable(op)]
        for op in pending:
            if not any(_is_used(result) for result in op.results):
                op.erase()


def _after(op: Operation) -> InsertionPoint:
    return InsertionPoint.after(op)


def _is_used(value: Value) -> bool:
    return next(iter(value.uses), None) is not None


def _is_disposable(op: Operation) -> bool:
    if op.name in _DISPOSABLE:
        return True
    return weights.is_elementwise(op.name) and len(op.regions) == 0 and len(op.results) > 0
