"""What was decided about a module's layouts, in words."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.assignment.graph import Edge, Graph, Group
from triton_linear.passes.assignment.plan import Assignment, AssignmentPrice
from triton_linear.passes.framework import diagnostics

_SHOWN = 6


def explain(module: Operation, graph: Graph, assignment: Assignment, pays: bool) -> None:
    """Report, as remarks, what the assignment saves, each group's anchors, candidates and choice, and what its
    conversions cost."""
    if not diagnostics.wanted():
        return
    verdict = "layouts are assigned" if pays else "layouts stay as they are"
    exact = "optimal" if assignment.optimal else "not proved optimal"
    diagnostics.remark(
        module,
        f"{verdict}: {_price(assignment.before)} before, {_price(assignment.after)} after "
        f"(a clock outside memory counts {assignment.weight:.2f}; "
        f"{len(graph.groups)} groups, {len(graph.edges)} edges, {assignment.planned} conversions planned; "
        f"{assignment.solver}, {exact})",
    )
    for number, group in enumerate(graph.groups):
        priced = assignment.candidates[group]
        if len(priced) == 1 and group.encoding == assignment.chosen[group].encoding and not group.anchors:
            continue
        notes = [(module, f"{_price(price)}: {candidate.encoding}") for candidate, price in priced[:_SHOWN]]
        if len(priced) > _SHOWN:
            notes.append((module, f"and {len(priced) - _SHOWN} more"))
        diagnostics.remark(module, _group(number, group, assignment), notes)
    for edge in graph.edges:
        before, after = assignment.edges[edge]
        if before or after:
            diagnostics.remark(module, _edge(edge, before, after))


def _price(price: AssignmentPrice) -> str:
    return f"{price.memory:.1f} clocks of memory and {price.other:.1f} others"


def _group(number: int, group: Group, assignment: Assignment) -> str:
    shape = "x".join(map(str, group.shape))
    anchors = ", ".join(dict.fromkeys(group.anchors)) or "no anchor"
    chosen = assignment.chosen[group].encoding
    if group.pinned:
        return f"group {number}, {shape} ({anchors}): pinned to {group.encoding}"
    if chosen == group.encoding:
        return f"group {number}, {shape} ({anchors}): keeps {chosen}"
    return f"group {number}, {shape} ({anchors}): takes {chosen} instead of {group.encoding}"


def _edge(edge: Edge, before: float, after: float) -> str:
    shape = "x".join(map(str, edge.kind.shape))
    often = f", {edge.frequency:g} times" if edge.frequency != 1 else ""
    return f"conversion of {shape}x{edge.kind.element}{often}: {before:.1f} clocks before, {after:.1f} after"
