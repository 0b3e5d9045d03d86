"""In which order weights should lie in memory, so that the loop that unpacks them exchanges nothing.

From each operand of a dot that lies in registers, the layout is followed back through what computes it,
element by element, and through changes of shape, to what loads it: from memory, or from a buffer that copies
fill. There it says which elements each thread needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.locations import user_line
from triton_linear.dialect.mlir_adapter import Operation, Value, operations, producers_of
from triton_linear.dialect.packing import Packing
from triton_linear.passes.analysis import weights
from triton_linear.passes.assignment.shape_change import NAMES, ShapeChange
from triton_linear.passes.framework.verifiers import CONVERT
from triton_linear.tools.support.compile import read_module

_DOTS = ("tt.dot", "ttng.warp_group_dot", "tt.dot_scaled")
_LOADS = ("tt.load", "ttg.local_load")
_WIDEST = 16
"""Bytes of the widest access."""


@dataclass(frozen=True)
class Packed:
    """Weights: where they are loaded, their type, and the order, or why there is none."""

    line: str
    type: str
    packing: Packing | None
    reason: str = ""

    def __str__(self) -> str:
        if self.packing is None:
            return f"{self.line}: {self.type}: {self.reason}"
        if self.packing.is_trivial:
            return f"{self.line}: {self.type}: lies as it should"
        tile, shape, order = (str(x) for x in (self.packing.tile, self.packing.shape, self.packing.order))
        return (
            f"{self.line}: {self.type}: pack tiles of {tile[1:-1]}\n"
            f"  once      {self.packing!r}.pack(weights)\n"
            f"  in the kernel, of the elements of a tile in a row\n"
            f"            tile.reshape({shape[1:-1]}).permute({order[1:-1]}).reshape({tile[1:-1]})"
        )


def packings(text: str, name: str) -> list[Packed]:
    """The orders for all weights in loops of a module in TTGIR. Raises ToolError for one that is none."""
    context = bridge.upstream_context()
    module = read_module(text, context, name)
    ops = operations(module.operation)
    producers = producers_of(ops)
    found: dict[str, Packed] = {}
    for op in ops:
        if op.name in _DOTS and _in_loop(op):
            for operand in op.operands:
                for packed in _followed(operand, producers):
                    found.setdefault(f"{packed.line} {packed.type}", packed)
    return list(found.values())


def _in_loop(op: Operation) -> bool:
    parent = op.parent
    while parent is not None:
        if parent.name in ("scf.for", "scf.while"):
            return True
        parent = parent.parent
    return False


def _followed(operand: Value, producers: dict[Value, Operation]) -> Iterator[Packed]:
    """Loads of integers from which an operand of a dot is computed."""
    encoding = getattr(operand.type, "encoding", None)
    if encoding is None or "dot_op" not in str(encoding):
        return
    layout = encodings.layout_of(str(encoding), tuple(operand.type.shape))
    pending: list[tuple[Value, LinearLayout]] = [(operand, layout)]
    seen: set[Value] = set()
    while pending:
        value, layout = pending.pop()
        op = producers.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.name in _LOADS:
            if str(value.type.element_type).startswith("i") and len(value.type.shape) == 2:
                yield _ordered(op, value, layout)
        elif op.name in NAMES:
            change = ShapeChange.of(op)
            before = change.backward(_joined_first(change, layout)) if change is not None else None
            if before is not None:
                pending += [(each, before) for each in op.operands]
        elif op.name == CONVERT or weights.is_elementwise(op.name):
            shape = list(value.type.shape)
            same = [each for each in op.operands if list(getattr(each.type, "shape", ())) == shape]
            pending += [(each, layout) for each in same]


def _joined_first(change: ShapeChange, layout: LinearLayout) -> LinearLayout:
    """The layout with what a join puts side by side in the first registers: in which they are is free."""
    if change.name != "tt.join":
        return layout
    bases = dict(layout.bases)
    bases[REGISTER] = tuple(sorted(bases[REGISTER], key=lambda basis: not basis[-1]))
    return LinearLayout(tuple(bases.items()), layout.out_dims)


def _ordered(op: Operation, value: Value, layout: LinearLayout) -> Packed:
    line, shape = user_line(str(op.location)), "x".join(map(str, value.type.shape))
    kind = f"{shape}x{value.type.element_type}"
    vector = 8 * _WIDEST // int(str(value.type.element_type)[1:])
    try:
        return Packed(line, kind, Packing.of(layout, vector))
    except ValueError as error:
        return Packed(line, kind, None, str(error))
