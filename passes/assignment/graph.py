"""A module's layouts as a problem: groups of values that share a layout, and edges for conversions to cross.

Values tied by elementwise operations, loops and branches are one *group*: one choice gives all of them their
layout. A group ends where another layout could begin: at a load or store, a widening or narrowing cast, a
reduction, a broadcast, and wherever Triton has a conversion. Such a place is an *edge*: if the two sides choose
differently, the value is converted there, on its narrow side.

Values that are made from nothing but ranges, constants and scalars have no group: they are *recomputed* in
whatever layout asks for them, at the price of the operations behind them.

What is not understood is pinned to the layout it has.

This is the problem as data; `build` makes it from a module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.analysis.tensor_memory import TensorSite
from triton_linear.passes.assignment.nodes import Kind, OpNode, ValueNode
from triton_linear.passes.assignment.shape_change import ShapeChange

Path = tuple[int | ShapeChange, ...]
"""How the encoding of a value follows from that of its group: as the operand of a change of shape, if that is
first, and sliced at each of these dimensions in turn."""
Constancy = tuple[tuple[bool, ...], ...]
"""For each dimension and bit, whether a value is known not to change there: compilers compute it once."""
Work = tuple[Path, tuple[int, ...], Constancy]
"""What registers an operation is done for: those of a slice, of a shape, that differ."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of tensors of a group: along which dimension, of what, and what combining two costs."""

    op: OpNode
    axis: int
    widths: tuple[int, ...]
    weight: float
    frequency: float
    stays: bool = False
    """Whether it is not taken apart, whatever that would save."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """An operation that asks for a layout, or whose cost depends on it, and what it is called."""

    name: str
    op: OpNode


@dataclass(eq=False, slots=True)
class Group:
    """Values that share a layout; `shape` and `encoding` are theirs in the module as it is.

    work: clocks per warp and register, by what the registers are: of its own operations, which are not sliced,
    and of those that are recomputed for it.
    """

    shape: tuple[int, ...]
    encoding: str
    pinned: bool = False
    values: list[ValueNode] = field(default_factory=list)
    accesses: list[tuple[GlobalAccess, float]] = field(default_factory=list)
    locals: list[tuple[LocalAccess, float]] = field(default_factory=list)
    tensors: list[tuple[TensorSite, float]] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    work: dict[Work, float] = field(default_factory=dict)
    requests: dict[tuple[ValueNode, Path], None] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    parent: Group | None = None

    def find(self) -> Group:
        """The group that this one has become part of."""
        group = self
        while group.parent is not None:
            group = group.parent
        if self.parent is not None and self.parent is not group:
            self.parent = group
        return group

    @property
    def anchor_names(self) -> list[str]:
        """What its anchors are called, each once."""
        return list(dict.fromkeys(anchor.name for anchor in self.anchors))

    @property
    def copies(self) -> bool:
        """Whether tensors of it are copied from global to shared memory."""
        return any(local.copied is not None for local, _ in self.locals)

    def absorb(self, other: Group) -> None:
        """Make `other` a part of this group. Requires: both are found, and of one shape."""
        if other is self:
            return
        other.parent = self
        self.pinned = self.pinned or other.pinned
        self.values += other.values
        self.accesses += other.accesses
        self.locals += other.locals
        self.tensors += other.tensors
        self.reductions += other.reductions
        self.anchors += other.anchors
        self.requests.update(other.requests)
        for key, clocks in other.work.items():
            self.work[key] = self.work.get(key, 0.0) + clocks

    def add_work(self, key: Work, clocks: float) -> None:
        self.work[key] = self.work.get(key, 0.0) + clocks


@dataclass(frozen=True, slots=True)
class Use:
    """An operand that takes a value across an edge."""

    op: OpNode
    index: int


@dataclass(eq=False, slots=True)
class Edge:
    """A value of `source`, in the slices `given` of its encoding, wanted in slices `wanted` of `target`'s."""

    value: ValueNode
    kind: Kind
    source: Group
    given: Path
    target: Group
    wanted: Path
    frequency: float
    constancy: Constancy = ()
    uses: list[Use] = field(default_factory=list)

    @property
    def changes_shape(self) -> bool:
        """Whether it leads into a change of shape."""
        return bool(self.wanted) and isinstance(self.wanted[0], ShapeChange)


@dataclass(eq=False, slots=True)
class Recipe:
    """A value that is recomputed on demand."""

    value: ValueNode
    op: OpNode
    kind: Kind
    frequency: float


@dataclass
class Graph:
    """The problem. `owners` tells the group of each value and the slices between their encodings."""

    groups: list[Group]
    edges: list[Edge]
    owners: Mapping[ValueNode, tuple[Group, Path]]
    recipes: Mapping[ValueNode, Recipe]
    aliases: Mapping[ValueNode, ValueNode]
    requests: Sequence[tuple[Use, Group, Path]]
    converted_recipes: Sequence[tuple[Recipe, str, float]]
    """Conversions of values that can be recomputed: what is converted, to which encoding, how often."""

    def resolve(self, value: ValueNode) -> ValueNode:
        """What a value was converted from, through every conversion of the module."""
        while value in self.aliases:
            value = self.aliases[value]
        return value
