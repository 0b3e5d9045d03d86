"""The conversion that the plugin makes of one of stock Triton's, as `explain` has it."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.passes.operations.names import CONVERT
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import Place
from triton_linear.tools.support.compile import read_module
from triton_linear.tools.support.errors import ToolError


def explained_conversion(
    text: str, name: str, where: int | Place, target: str | None
) -> tuple[Sequence[str], tuple[str, ...]] | None:
    """What becomes of the conversion with this number in a module, or of those of a line of its source: the
    types before and after, and lines about how it is done, with stock Triton's conversions of that line of the
    source. None if the module cannot be compiled, or nothing is converted there."""
    if target is None and "ttg.target" not in text:
        return None
    try:
        if isinstance(where, int):
            module = read_module(text, bridge.upstream_context(), name)
            conversions = [op for op in operations(module.operation) if op.name == CONVERT]
            where = Place.of(str(conversions[where].location)).whole_line
        report = explained(text, name, target, stock=True)
    except (ToolError, IndexError):
        return None
    ours, theirs = (
        [one for one in side if one.moves and one.place.whole_line == where]
        for side in (report.conversions, report.stock or ())
    )
    lines = [f"stock Triton on {report.target}: {one}" for one in theirs]
    if not ours:
        places = dict.fromkeys(str(one.place) for one in report.conversions if one.moves)
        elsewhere = f"; there are some at {', '.join(places)}" if places else ""
        lines.insert(0, f"ours on {report.target}: no conversion on this line{elsewhere}")
        return (theirs[0].types, tuple(lines)) if theirs else None
    first, *others = ours
    counted = f"; {first.figures}" if first.figures is not None else ""
    head = f"ours on {report.target}: {first.lowering}{counted}"
    more = [f"ours as well: {one}" for one in others]
    rejected = [f"  not {each}" for each in first.rejected]
    return first.types, (head, *rejected, *more, *lines)


def explained_lines(text: str, name: str, target: str | None) -> dict[Place, None]:
    """The lines of the source of a module on which `explain` shows conversions, in its order."""
    return dict.fromkeys(one.place.whole_line for one in explained(text, name, target).conversions if one.moves)
