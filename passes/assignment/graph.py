"""The layouts of a module as an optimisation problem: groups of values that share a layout, and edges between
groups, where values may be converted.

Values tied by elementwise operations, loops and branches are one *group*: one choice gives all of them their
layout. A group ends where another layout could begin: at a load or store, a widening or narrowing cast, a
reduction, a broadcast, and wherever Triton has a conversion. Such a place is an *edge*: if the two sides choose
differently, the value is converted there, on its narrow side.

Values that are computed from ranges, constants and scalars alone can be *recomputed* in each layout that they
are needed in, at the price of the operations that compute them. Where these take less than any conversion, the
values have no group, and are always recomputed. Others have one, and where it ends they are converted or
recomputed, whichever takes less.

Values of operations that this package does not model are pinned to the layout they have.

This module has the data of the problem; `build` makes it from a module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.assignment.nodes import Kind, OpNode, ValueNode
from triton_linear.passes.operations.names import JOIN, RESHAPE, SPLIT, TRANS
from triton_linear.passes.operations.table import may_reorder

SHAPE_CHANGES = frozenset({TRANS, RESHAPE, JOIN, SPLIT})
"""Operations that give elements other coordinates and leave them in their registers."""


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """A transpose, reshape, join or split: the shapes of its operands and results, and the order of a
    transpose."""

    name: str
    operand: tuple[int, ...]
    result: tuple[int, ...]
    order: tuple[int, ...] = ()

    @classmethod
    def of(cls, op: Operation) -> ShapeChange | None:
        """The shape change that `op` is; None for a reshape that may move elements."""
        if may_reorder(op):
            return None
        order = tuple(op.attributes["order"]) if op.name == TRANS else ()
        return cls(op.name, tuple(op.operands[0].type.shape), tuple(op.results[0].type.shape), order)

    def forward(self, layout: LinearLayout) -> LinearLayout | None:
        """The layout of the results if the operands have `layout`; None if no layout fits."""
        if self.name == TRANS:
            return transfer.trans(layout, self.order)
        if self.name == RESHAPE:
            return transfer.reshape(layout, self.result)
        return transfer.join(layout) if self.name == JOIN else transfer.split(layout)

    def backward(self, layout: LinearLayout) -> LinearLayout | None:
        """The layout of the operands if the results have `layout`; None if no layout fits."""
        if self.name == TRANS:
            operand: LinearLayout | None = transfer.trans_backward(layout, self.order)
        elif self.name == RESHAPE:
            operand = transfer.reshape_backward(layout, self.operand)
        elif self.name == JOIN:
            operand = transfer.join_backward(layout)
        else:
            operand = transfer.split_backward(layout)
        return operand if operand is not None and self.forward(operand) == layout else None


Path = tuple[int | ShapeChange, ...]
"""How the encoding of a value follows from the encoding of its group: backward through a change of shape, if
that is the first entry, then sliced at each of these dimensions in turn."""
Constancy = tuple[tuple[bool, ...], ...]
"""For each dimension and bit of the coordinates, True if the value is known not to change with the bit:
compilers compute equal elements once."""
Work = tuple[Path, tuple[int, ...], Constancy]
"""The registers that an operation runs for: those of a slice of the group's layout, of this shape, without the
registers that are known to be equal."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of tensors of a group along dimension `axis`.

    widths: bits per element of each operand. weight: clocks to combine two elements.
    """

    axis: int
    widths: tuple[int, ...]
    weight: float
    frequency: float
    stays: bool = False
    """True if the reduction must not be split across warps."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """An operation that requires a layout or whose cost depends on the layout, and its name in remarks."""

    name: str
    op: OpNode


@dataclass(eq=False, slots=True)
class Group:
    """Values that share a layout; `shape` and `encoding` are those of the values in the module.

    pinned: True if the group has to keep its encoding. accesses, locals: accesses to global and to shared
    memory, each with its frequency. work: clocks per warp and register of the group's own
    elementwise operations and of the operations that are recomputed for it. requests: values that are
    recomputed for the group, with their slices. parent: the group that absorbed this one.
    """

    shape: tuple[int, ...]
    encoding: str
    pinned: bool = False
    values: list[ValueNode] = field(default_factory=list)
    accesses: list[tuple[GlobalAccess, float]] = field(default_factory=list)
    locals: list[tuple[LocalAccess, float]] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    work: dict[Work, float] = field(default_factory=dict)
    requests: dict[tuple[ValueNode, Path], None] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    parent: Group | None = None

    def find(self) -> Group:
        """The group that this one is part of now; itself if none has absorbed it."""
        group = self
        while group.parent is not None:
            group = group.parent
        if self.parent is not None and self.parent is not group:
            self.parent = group
        return group

    @property
    def anchor_names(self) -> list[str]:
        """The names of the anchors, each once."""
        return list(dict.fromkeys(anchor.name for anchor in self.anchors))

    @property
    def copies(self) -> bool:
        """True if tensors of the group are copied asynchronously from global to shared memory."""
        return any(local.copied is not None for local, _ in self.locals)

    def absorb(self, other: Group) -> None:
        """Make `other` a part of this group. Requires: neither is part of another, and both have one shape."""
        if other is self:
            return
        other.parent = self
        self.pinned = self.pinned or other.pinned
        self.values += other.values
        self.accesses += other.accesses
        self.locals += other.locals
        self.reductions += other.reductions
        self.anchors += other.anchors
        self.requests.update(other.requests)
        for key, clocks in other.work.items():
            self.work[key] = self.work.get(key, 0.0) + clocks

    def add_work(self, key: Work, clocks: float) -> None:
        self.work[key] = self.work.get(key, 0.0) + clocks


@dataclass(frozen=True, slots=True)
class Use:
    """An operand of an operation that takes the value of an edge."""

    op: OpNode
    index: int


@dataclass(eq=False, slots=True)
class Edge:
    """A value of the group `source` that operations of the group `target` use.

    given: path from the encoding of `source` to the one that the value has. wanted: path from the encoding of
    `target` to the one that its operations need. A conversion is needed if the two encodings differ, unless the
    value is recomputed: `recomputing` is the work of that in the encoding of `target`, None if it cannot be.
    """

    value: ValueNode
    kind: Kind
    source: Group
    given: Path
    target: Group
    wanted: Path
    frequency: float
    constancy: Constancy = ()
    recomputing: Mapping[Work, float] | None = None
    uses: list[Use] = field(default_factory=list)

    @property
    def changes_shape(self) -> bool:
        """True if the operation that uses the value changes its shape."""
        return bool(self.wanted) and isinstance(self.wanted[0], ShapeChange)


@dataclass(eq=False, slots=True)
class Recipe:
    """A value that can be recomputed in any layout.

    tensors: those that it is computed from. clocks: what each operation behind it takes for a register, itself
    included; those that take nothing are left out.
    """

    op: OpNode
    kind: Kind
    frequency: float
    tensors: Sequence[ValueNode]
    clocks: Mapping[OpNode, float] = field(default_factory=dict)


@dataclass
class Graph:
    """The problem.

    owners: the group of each value, and the path from its encoding to the value's. recipes: the values that can
    be recomputed; those without an owner always are. aliases: for the result of each of the module's
    conversions, its operand. requests: each operand that takes a value without an owner, the group that needs
    it, and the path from its encoding.
    """

    groups: list[Group]
    edges: list[Edge]
    owners: Mapping[ValueNode, tuple[Group, Path]]
    recipes: Mapping[ValueNode, Recipe]
    aliases: Mapping[ValueNode, ValueNode]
    requests: Sequence[tuple[Use, Group, Path]]
    converted_recipes: Sequence[tuple[Recipe, str, float]]
    """The module's conversions of recomputed values: the value, the encoding of the result, the frequency."""

    def resolve(self, value: ValueNode) -> ValueNode:
        """The value before all of the module's conversions that lead to `value`."""
        while value in self.aliases:
            value = self.aliases[value]
        return value
