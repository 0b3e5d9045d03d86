"""Give the values of a module the layouts that were chosen for them.

Groups get their new encodings. An edge gets a conversion if its two encodings differ, and loses the one it has
if they are equal. Recomputed values are computed in each encoding that a group needs, next to their old
operation. Operations without uses are erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod

from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    DenseElementsAttr,
    InsertionPoint,
    Operation,
    Type,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import is_used
from triton_linear.passes.assignment.candidates import sliced
from triton_linear.passes.assignment.graph import Edge, Graph, Group
from triton_linear.passes.assignment.nodes import OpNode, ValueNode
from triton_linear.passes.framework import provenance
from triton_linear.passes.framework.building import create, tensor
from triton_linear.passes.operations.names import CONSTANT, CONVERT, EXPAND
from triton_linear.passes.operations.table import named


@dataclass
class Rewriter:
    """Rewrites one module: `encodings` has the new encoding of each group of `graph`, `again` the edges whose
    values are recomputed.

    made, converted: values that were recomputed, and converted, by the old value and the new encoding. new: the
    operations that were created.
    """

    graph: Graph
    ops: Sequence[Operation]
    encodings: Mapping[Group, str]
    again: frozenset[Edge] = frozenset()
    made: dict[tuple[ValueNode, str], Value] = field(default_factory=dict)
    converted: dict[tuple[ValueNode, str], Value] = field(default_factory=dict)
    new: list[Operation] = field(default_factory=list)
    types: dict[tuple[Type, str], Type] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrite the module. Requires: every group of the graph has an encoding."""
        for value, (group, path) in self.graph.owners.items():
            encoding = sliced(self.encodings[group], path)
            if value.kind is not None and encoding != value.kind.encoding:
                value.value.set_type(self._type(value, encoding))
        for use, group, path in self.graph.requests:
            value = self.graph.resolve(use.op.operands[use.index])
            use.op.op.operands[use.index] = self._recomputed(value, sliced(self.encodings[group], path))
        for edge in self.graph.edges:
            self._connect(edge)
        self._number_moved_conversions(self._erase_unused())

    def _number_moved_conversions(self, swept: Sequence[tuple[str, Attribute]]) -> None:
        """Give new conversions the numbers of erased ones of the same element count and type: such a conversion
        has moved, for example from after a transposition to before it. `swept`: elements and number of each
        erased conversion."""
        gone: dict[str, list[Attribute]] = {}
        for what, number in swept:
            gone.setdefault(what, []).append(number)
        for conversion in self.new:
            if conversion.name != CONVERT or provenance.number_of(conversion) is not None:
                continue
            if numbers := gone.get(_elements(conversion)):
                conversion.attributes[ll.OWN] = numbers.pop(0)

    def _type(self, value: ValueNode, encoding: str) -> Type:
        """The type of a value in an encoding."""
        key = value.type, encoding
        type_ = self.types.get(key)
        if type_ is None:
            type_ = tensor(value.type, encoding)
            self.types[key] = type_
        return type_

    def _connect(self, edge: Edge) -> None:
        given = sliced(self.encodings[edge.source], edge.given)
        wanted = sliced(self.encodings[edge.target], edge.wanted)
        shape = edge.kind.shape
        same = given == wanted
        # For operations that change the shape, Triton compares layouts, not encodings.
        alike = same or (edge.changes_shape and layout_of(given, shape) == layout_of(wanted, shape))
        for use in edge.uses:
            as_is = same or (alike and self._is_only_operand(edge, use.op))
            if edge in self.again:
                use.op.op.operands[use.index] = self._recomputed(edge.value, wanted)
                continue
            operand = edge.value.value if as_is else self._converted(edge, wanted, use.op)
            old = use.op.op.operands[use.index]
            use.op.op.operands[use.index] = operand
            if not as_is and (before := _conversion(old)) is not None:
                provenance.hand_over(before, operand.owner.operation)

    def _is_only_operand(self, edge: Edge, user: OpNode) -> bool:
        """True if the operation has no other operand: all operands of a join must have one type."""
        return all(self.graph.resolve(operand) is edge.value for operand in user.operands)

    def _converted(self, edge: Edge, encoding: str, user: OpNode) -> Value:
        """The value of an edge, converted to `encoding` right after the operation or block argument that gives
        it."""
        value = edge.value
        key = value, encoding
        if (found := self.converted.get(key)) is not None:
            return found
        owner = value.owner
        if isinstance(owner, OpNode):
            ip, location = InsertionPoint.after(owner.op), owner.op.location
        else:
            ip, location = InsertionPoint.at_block_begin(value.value.owner), user.op.location
        conversion = create(CONVERT, [value.value], [self._type(value, encoding)], ip, location)
        self.new.append(conversion)
        self.converted[key] = conversion.results[0]
        return conversion.results[0]

    def _recomputed(self, value: ValueNode, encoding: str) -> Value:
        """A recomputed value in `encoding`: cloned operations, or the old value if it has the encoding."""
        if value in self.graph.owners:
            group, path = self.graph.owners[value]
            if sliced(self.encodings[group], path) == encoding:
                return value.value
        key = value, encoding
        found = self.made.get(key)
        if found is not None:
            return found
        recipe = self.graph.recipes[value]
        op = recipe.op
        operands = encoding
        if op.name == EXPAND:
            operands = sliced(encoding, (op.attributes["axis"].value,))
        resolved = [self.graph.resolve(operand) for operand in op.operands]
        taken = [
            self._recomputed(operand, operands) if operand in self.graph.recipes else operand.value
            for operand in resolved
        ]
        owned = value in self.graph.owners
        if (
            not owned
            and recipe.kind.encoding == encoding
            and taken == [operand.value for operand in op.operands]
        ):
            self.made[key] = value.value
            return value.value
        clone = op.op.clone(ip=InsertionPoint.after(op.op))
        for index, operand in enumerate(taken):
            clone.operands[index] = operand
        type_ = self._type(value, encoding)
        clone.results[0].set_type(type_)
        if op.name == CONSTANT:
            splat = op.attributes["value"].get_splat_value()
            clone.attributes["value"] = DenseElementsAttr.get_splat(type_, splat)
        self.new.append(clone)
        self.made[key] = clone.results[0]
        return clone.results[0]

    def _erase_unused(self) -> list[tuple[str, Attribute]]:
        """Erase operations without uses, users first. Returns elements and number of each erased conversion
        that the module had before."""
        swept: list[tuple[str, Attribute]] = []
        pending = [(op, False) for op in reversed(self.ops) if _is_disposable(op)]
        pending += [(op, True) for op in reversed(self.new)]
        more = True
        while more:  # what is new may be unused because what is old is, and the other way round
            kept = []
            for op, is_new in pending:
                if any(is_used(result) for result in op.results):
                    kept.append((op, is_new))
                    continue
                if op.name == CONVERT and ll.OWN in op.attributes:
                    swept.append((_elements(op), op.attributes[ll.OWN]))
                op.erase()
            more = len(kept) < len(pending)
            pending = kept
        self.new = [op for op, is_new in reversed(pending) if is_new]
        return swept[::-1]


def _elements(conversion: Operation) -> str:
    """The number and type of the elements that are converted, as text."""
    type_ = conversion.results[0].type
    return f"{prod(type_.shape)} {type_.element_type}"


def _conversion(value: Value) -> Operation | None:
    """The conversion whose result `value` is, or None."""
    op = getattr(value.owner, "operation", None)  # a block has none
    return op if op is not None and op.name == CONVERT else None


def _is_disposable(op: Operation) -> bool:
    known = named(op.name)
    if known.recomputed or op.name == CONVERT:
        return True
    return known.elementwise and len(op.regions) == 0 and len(op.results) > 0
