"""Remarks that explain the assignment of a module's layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triton_linear.dialect.locations import user_line
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.records import dataclass
from triton_linear.passes.assignment.graph import Edge, Graph, Group
from triton_linear.passes.assignment.nodes import BlockNode, OpNode
from triton_linear.passes.assignment.plan import Assignment, AssignmentPrice
from triton_linear.passes.assignment.scopes import Scope
from triton_linear.passes.framework import diagnostics

_CANDIDATES_SHOWN = 6
_LEAST_CLOCKS = 0.05
"""Fewer clocks are not shown, as they round to 0.0."""


def explain(scope: Scope, graph: Graph, assignment: Assignment, pays: bool) -> None:
    """Report as remarks: what the assignment saves and on which lines; the anchors, candidates and choice of
    each group; the cost of each conversion."""
    if not diagnostics.wanted():
        return
    module, whose = scope.place, f" of {scope.name}" if scope.name else ""
    verdict = f"layouts{whose} are assigned" if pays else f"layouts{whose} stay as they are"
    was, becomes = assignment.before, assignment.after
    exact = "optimal" if assignment.optimal else "not proved optimal"
    diagnostics.remark(
        module,
        f"{verdict}: modelled clocks of memory {was.memory:.1f} before, {becomes.memory:.1f} after; "
        f"other clocks {was.other:.1f} before, {becomes.other:.1f} after "
        f"(a clock outside memory counts {assignment.weight:.2f}; "
        f"{len(graph.groups)} groups, {len(graph.edges)} edges, {assignment.planned} conversions planned; "
        f"{exact})",
        by_line(shares(assignment)),
    )
    for number, group in enumerate(graph.groups):
        priced = assignment.candidates[group]
        if len(priced) == 1 and group.encoding == assignment.chosen[group].encoding and not group.anchors:
            continue
        notes = [
            (module, f"{_price(price)}: {candidate.encoding}")
            for candidate, price in priced[:_CANDIDATES_SHOWN]
        ]
        if len(priced) > _CANDIDATES_SHOWN:
            notes.append((module, f"and {len(priced) - _CANDIDATES_SHOWN} more"))
        diagnostics.remark(module, _group(number, group, assignment), notes)
    for edge in graph.edges:
        before, after = assignment.edges[edge]
        if before or after:
            diagnostics.remark(module, _edge(edge, before, after, edge in assignment.again))


@dataclass(frozen=True, slots=True)
class Share:
    """How the assignment changes the cost of one group or one conversion: clocks after minus clocks before."""

    op: OpNode
    what: str
    memory: float
    other: float


def shares(assignment: Assignment) -> Iterator[Share]:
    """All changes of cost. Ensures: their sums of memory and other clocks are `after` minus `before`."""
    for group, choice in assignment.chosen.items():
        priced = assignment.candidates[group]
        before, after = priced[0][1], next(price for candidate, price in priced if candidate is choice)
        if before != after:
            what = f"{', '.join(group.anchor_names) or 'work'} of {_shape(group.shape)}"
            yield Share(_place(group), what, after.memory - before.memory, after.other - before.other)
    for edge, (given, left) in assignment.edges.items():
        if given != left:
            yield Share(edge.uses[0].op, _conversion(edge), 0.0, left - given)
    for recipe, clocks in assignment.recomputed:
        what = f"conversion of {_shape(recipe.kind.shape)}x{recipe.kind.element}"
        yield Share(recipe.op, what, 0.0, -clocks)


def by_line(changed: Iterable[Share]) -> list[tuple[Operation, str]]:
    """A note for each source line of the user's on which costs change, the largest change first."""
    lines: dict[str, list[Share]] = {}
    for share in changed:
        lines.setdefault(user_line(str(share.op.op.location)), []).append(share)
    notes = []
    for line in lines.values():
        memory, other = sum(share.memory for share in line), sum(share.other for share in line)
        changes = [
            f"{'saves' if clocks < 0 else 'costs'} {abs(clocks):.1f} {what}"
            for clocks, what in ((memory, "clocks of memory"), (other, "other clocks"))
            if abs(clocks) >= _LEAST_CLOCKS
        ]
        if changes:
            notes.append(
                (abs(memory) + abs(other), line[0].op.op, f"{', '.join(changes)}: {_describe_shares(line)}")
            )
    notes.sort(key=lambda note: -note[0])
    return [(op, text) for _, op, text in notes]


def _describe_shares(line: Iterable[Share]) -> str:
    """The groups and conversions that change on a line; if there are several, the clocks of each."""
    clocks: dict[str, float] = {}
    for share in line:
        clocks[share.what] = clocks.get(share.what, 0.0) + share.memory + share.other
    if len(clocks) == 1:
        return next(iter(clocks))
    return ", ".join(f"{what} {change:+.1f}" for what, change in clocks.items())


def _place(group: Group) -> OpNode:
    """The operation at which a group is reported: its first anchor, or the one that gives its first value."""
    if group.anchors:
        return group.anchors[0].op
    owner = group.values[0].owner
    return owner.owner if isinstance(owner, BlockNode) else owner


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _conversion(edge: Edge) -> str:
    return f"conversion of {_shape(edge.kind.shape)}x{edge.kind.element}"


def _price(price: AssignmentPrice) -> str:
    return f"{price.memory:.1f} clocks of memory and {price.other:.1f} others"


def _group(number: int, group: Group, assignment: Assignment) -> str:
    shape = _shape(group.shape)
    anchors = ", ".join(group.anchor_names) or "no anchor"
    chosen = assignment.chosen[group].encoding
    if group.pinned:
        return f"group {number}, {shape} ({anchors}): pinned to {group.encoding}"
    if chosen == group.encoding:
        return f"group {number}, {shape} ({anchors}): keeps {chosen}"
    return f"group {number}, {shape} ({anchors}): takes {chosen} instead of {group.encoding}"


def _edge(edge: Edge, before: float, after: float, again: bool) -> str:
    often = f", {edge.frequency:g} times" if edge.frequency != 1 else ""
    how = ", as it is computed again instead" if again else ""
    return f"{_conversion(edge)}{often}: {before:.1f} clocks before, {after:.1f} after{how}"
