"""The optimisation problem of a scope while it is built.

`build` visits each operation and puts its operands and results into groups. If a value of one group is the
operand of another group, and the two are not tied, the draft records a crossing. Once all groups are known,
crossings become edges, and the operations that compute recomputed values are added to the work of the groups
that need the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis import weights
from triton_linear.passes.analysis.addressing import constancy
from triton_linear.passes.assignment.graph import Constancy, Edge, Graph, Group, Path, Recipe, Use, Work
from triton_linear.passes.assignment.nodes import Kind, OpNode, ValueNode
from triton_linear.passes.assignment.scopes import Facts, Scope
from triton_linear.passes.operations.names import EXPAND
from triton_linear.passes.reductions.held import KeptBits


@dataclass
class Draft:
    """The unfinished problem of a scope.

    kept: what must stay, as results must keep their bits; None: nothing. crossings: each operand that takes a
    value of another group: the value, the group of the operand, the path from its encoding, the operand.
    converted: as `Graph.converted_recipes`. cut: values at which their group ends, so that each use may have
    another layout. The other fields are those of `Graph`.
    """

    scope: Scope
    facts: Facts
    situation: Situation
    kept: KeptBits | None
    recipes: dict[ValueNode, Recipe] = field(default_factory=dict)
    aliases: dict[ValueNode, ValueNode] = field(default_factory=dict)
    owners: dict[ValueNode, tuple[Group, Path]] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    crossings: list[tuple[ValueNode, Group, Path, Use]] = field(default_factory=list)
    requests: list[tuple[Use, Group, Path]] = field(default_factory=list)
    converted: list[tuple[Recipe, str, float]] = field(default_factory=list)
    cut: set[ValueNode] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.axis, self.frequencies = self.facts.axis, self.facts.frequencies
        self.constant: dict[ValueNode, Constancy] = {}

    def finish(self) -> Graph:
        """The finished problem. Requires: all operations of the scope have been visited."""
        groups = [group for group in self.groups if group.parent is None]
        for group in groups:
            self._price_requests(group)
        owners = {value: (group.find(), path) for value, (group, path) in self.owners.items()}
        requests = [(use, group.find(), path) for use, group, path in self.requests]
        return Graph(groups, self._edges(), owners, self.recipes, self.aliases, requests, self.converted)

    def resolve(self, value: ValueNode) -> ValueNode:
        """The value before all conversions visited so far that lead to `value`."""
        while value in self.aliases:
            value = self.aliases[value]
        return value

    def _new_group(self, kind: Kind, pinned: bool = False) -> Group:
        """A new group."""
        group = Group(kind.shape, kind.encoding, pinned)
        self.groups.append(group)
        return group

    def _is_held(self, value: ValueNode) -> bool:
        """True if the value must keep its layout, as bits of results depend on it."""
        return self.kept is not None and bool(self.kept.held) and value.value in self.kept.held

    def _add_value(self, value: ValueNode, group: Group, path: Path = ()) -> None:
        """Put a value into `group`: its encoding follows from the group's by `path`."""
        self.owners[value] = group, path
        group.pinned = group.pinned or self._is_held(value)
        if not path:
            group.values.append(value)

    def _require_operand(
        self, op: OpNode, index: int, group: Group, path: Path = (), tie: bool = False
    ) -> None:
        """Require that operand `index` has the encoding that follows from that of `group` by `path`.

        With `tie`, the group of the operand becomes a part of `group` if possible. Otherwise the operand is
        recomputed for `group`, or becomes a crossing.
        """
        operand = op.operands[index]
        if operand.kind is None:
            return
        value = self.resolve(operand)
        use = Use(op, index)
        if self._is_held(operand):
            group.find().pinned = True
        if value in self.recipes and value not in self.owners:
            group.find().requests[value, path] = None
            self.requests.append((use, group, path))
            return
        owner, sliced = self.owners[value]
        if tie and value == operand and value not in self.cut and not path and not sliced:
            group.find().absorb(owner.find())
            return
        self.crossings.append((value, group, path, use))

    def _constancy(self, value: ValueNode) -> Constancy:
        if (known := self.constant.get(value)) is None:
            known = self.constant[value] = constancy(self.axis.of(value).deltas)
        return known

    # Edges

    def _edges(self) -> list[Edge]:
        edges: dict[tuple[ValueNode, int, Path], Edge] = {}
        for value, group, path, use in self.crossings:
            target = group.find()
            source, given = self.owners[value]
            source = source.find()
            kind = value.kind
            assert kind is not None
            often = self.frequencies.of(use.op.block)
            made = self._production_frequency(value)
            key = value, id(target), path
            edge = edges.get(key)
            if edge is None:
                edge = edges[key] = Edge(
                    value, kind, source, given, target, path, min(often, made), self._constancy(value)
                )
                if value in self.recipes:
                    edge.recomputing = self._work_of([(value, path)])
            edge.uses.append(use)
            edge.frequency = max(edge.frequency, min(often, made))
        return list(edges.values())

    def _production_frequency(self, value: ValueNode) -> float:
        """How often a value is computed."""
        producer = self.facts.producers.get(value)
        return self.frequencies.of(value.owner if producer is None else producer.block)

    # Recomputation

    def _add_recipes(self, op: OpNode, frequency: float) -> bool:
        """Let the results of an operation whose operands can be recomputed be recomputed as well. True if they
        need a group nevertheless, as that takes more than a conversion may."""
        clocks: dict[OpNode, float] = {}
        tensors = [self.resolve(operand) for operand in op.operands if operand.kind is not None]
        owned = not self.owners.keys().isdisjoint(tensors)
        for value in tensors:
            clocks.update(self.recipes[value].clocks)
        for result in op.results:
            if result.kind is not None:
                own = weights.of(op, result.kind.bits, self.situation.gpu.costs)
                behind = {**clocks, op: own} if own else clocks
                self.recipes[result] = Recipe(op, result.kind, frequency, tensors, behind)
                owned = owned or sum(behind.values()) > self.situation.gpu.costs.word
        return owned

    def _price_requests(self, group: Group) -> None:
        """Add the operations that recompute values for a group to its work, each once for each slice."""
        for key, clocks in self._work_of(group.requests).items():
            group.add_work(key, clocks)

    def _work_of(self, values: Iterable[tuple[ValueNode, Path]]) -> dict[Work, float]:
        """What it takes to recompute values, each of which has its path from the encoding of one group."""
        work: dict[Work, float] = {}
        seen: set[tuple[ValueNode, Path]] = set()
        pending = list(values)
        while pending:
            value, path = pending.pop()
            if (value, path) in seen:
                continue
            seen.add((value, path))
            recipe = self.recipes[value]
            clocks = recipe.clocks.get(recipe.op, 0.0) * recipe.frequency
            if clocks:
                key = path, recipe.kind.shape, self._constancy(value)
                work[key] = work.get(key, 0.0) + clocks
            if recipe.op.name == EXPAND:
                path = (*path, recipe.op.attributes["axis"].value)
            pending += [(operand, path) for operand in recipe.tensors]
        return work
