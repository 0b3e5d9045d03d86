"""Find the order in which weights should be packed in memory, so that the loop that unpacks them exchanges no
data.

The layout of each dot operand in registers is propagated backward, through elementwise operations and changes
of shape, to the load from memory or from a buffer. There it says which elements each thread needs. If each
byte holds two elements, the operand's layout also determines the order of these elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.locations import user_line
from triton_linear.dialect.mlir_adapter import Operation, Value, operations, producers_of
from triton_linear.dialect.packing import Packing
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.assignment.shape_change import NAMES, ShapeChange
from triton_linear.passes.operations.names import CONVERT, DOTS
from triton_linear.passes.operations.table import named
from triton_linear.tools.explain.anchors import loop_depth
from triton_linear.tools.support.compile import read_module

_LOADS = ("tt.load", "ttg.local_load")
_WIDEST = 16
"""Bytes of the widest access."""
_NIBBLE = 4


@dataclass(frozen=True)
class Packed:
    """Weights: the line that loads them, their type, and the packing, or the reason why there is none.

    nibbles: the packing of 4-bit elements, if each byte holds two.
    """

    line: str
    type: str
    packing: Packing | None
    reason: str = ""
    nibbles: Packing | None = None

    def __str__(self) -> str:
        if self.packing is None:
            return f"{self.line}: {self.type}: {self.reason}"
        nibbles = self._nibbles
        if self.packing.is_trivial:
            return f"{self.line}: {self.type}: lies as it should{nibbles}"
        return (
            f"{self.line}: {self.type}: pack tiles of {_bare(self.packing.tile)}\n"
            f"  once      {self.packing!r}.pack(weights)\n"
            f"  in the kernel, of the elements of a tile in a row\n"
            f"            tile.{_unpacking(self.packing)}{nibbles}"
        )

    @property
    def _nibbles(self) -> str:
        if self.nibbles is None:
            return ""
        return (
            f"\n  or, if {self.type.rpartition('x')[2]} holds two elements of four bits, the first lowest\n"
            f"  once      {self.nibbles!r}.pack_nibbles(weights)\n"
            f"  in the kernel, of the elements of words of 32 bits, the lowest first\n"
            f"            elements.{_unpacking(self.nibbles)}"
        )


def _bare(numbers: tuple[int, ...]) -> str:
    return str(numbers)[1:-1]


def _unpacking(packing: Packing) -> str:
    """The Triton expression that unpacks a tile."""
    shape, order, tile = map(_bare, (packing.shape, packing.order, packing.tile))
    return f"reshape({shape}).permute({order}).reshape({tile})"


def packings(text: str, name: str) -> list[Packed]:
    """The packings for all weights in loops of a TTGIR module. Raises ToolError if the text is invalid."""
    context = bridge.upstream_context()
    module = read_module(text, context, name)
    ops = operations(module.operation)
    producers = producers_of(ops)
    by_load: dict[str, Packed] = {}
    for op in ops:
        if op.name in DOTS and loop_depth(op):
            for operand in op.operands:
                for packed in _packed_loads(operand, producers):
                    by_load.setdefault(f"{packed.line} {packed.type}", packed)
    return list(by_load.values())


def _packed_loads(operand: Value, producers: dict[Value, Operation]) -> Iterator[Packed]:
    """The loads of integers from which an operand of a dot is computed, with their packings."""
    encoding = getattr(operand.type, "encoding", None)
    if encoding is None or "dot_op" not in str(encoding):
        return
    layout = encodings.layout_of(str(encoding), tuple(operand.type.shape))
    wide = element_type(str(operand.type.element_type)).bits
    pending: list[_Demand] = [_Demand(operand, layout)]
    seen: set[Value] = set()
    while pending:
        at = pending.pop()
        op = producers.get(at.value)
        if op is None or at.value in seen:
            continue
        seen.add(at.value)
        if op.name in _LOADS:
            if str(at.value.type.element_type).startswith("i") and len(at.value.type.shape) == 2:
                yield _packed(op, at, wide)
        elif op.name in NAMES:
            change = ShapeChange.of(op)
            # The order of two elements that are joined is arbitrary, and each half of a split is contiguous.
            wanted = _ordered(at.layout, last=False) if op.name == "tt.join" else at.layout
            before = change.backward(wanted) if change is not None else None
            if before is not None:
                before = _ordered(before, last=True) if op.name == "tt.split" else before
                halves = op.name == "tt.join" and at.pairs is None and _are_halves(op, producers)
                pairs = _pairs(at.layout) if halves else None
                pending += [_Demand(each, before, pairs) for each in op.operands]
        elif op.name == CONVERT or named(op.name).elementwise:
            shape = list(at.value.type.shape)
            same = [each for each in op.operands if list(getattr(each.type, "shape", ())) == shape]
            pending += [_Demand(each, at.layout, at.pairs) for each in same]


def _are_halves(join: Operation, producers: dict[Value, Operation]) -> bool:
    """Whether both operands of a join are computed from the same load and constants only."""
    first, second = (_loads_behind(operand, producers) for operand in join.operands)
    return len(first) == 1 and first == second


def _loads_behind(value: Value, producers: dict[Value, Operation]) -> set[Value]:
    """The values from which a value is computed by elementwise operations, without constants."""
    origins: set[Value] = set()
    pending, seen = [value], set[Value]()
    while pending:
        at = pending.pop()
        op = producers.get(at)
        if at in seen or (op is not None and op.name == "arith.constant"):
            continue
        seen.add(at)
        if op is not None and (op.name == CONVERT or named(op.name).elementwise):
            pending += op.operands
        else:
            origins.add(at)
    return origins


@dataclass(frozen=True)
class _Demand:
    """A value from which an operand is computed, and the layout that it should have.

    pairs: if each of its elements becomes two neighbours of a row, the layout of that row.
    """

    value: Value
    layout: LinearLayout
    pairs: LinearLayout | None = None


def _pairs(joined: LinearLayout) -> LinearLayout | None:
    """The layout of a joined matrix, if the joined pairs are neighbours in a row; None if it is no matrix."""
    if len(joined.out_dims) != 3:
        return None
    (_, rows), (_, columns), (_, two) = joined.out_dims
    return transfer.reshape(joined, (rows, columns * two))


def _ordered(layout: LinearLayout, last: bool) -> LinearLayout:
    """The layout with the bases of the last dimension moved to the first registers, or to the last ones."""
    bases = dict(layout.bases)
    bases[REGISTER] = tuple(sorted(bases[REGISTER], key=lambda basis: bool(basis[-1]) == last))
    return LinearLayout(tuple(bases.items()), layout.out_dims)


def _packed(op: Operation, at: _Demand, wide: int) -> Packed:
    """The packing of a load; `wide` is the width of the dot's operand in bits."""
    kind = str(at.value.type.element_type)
    line, name = user_line(str(op.location)), f"{'x'.join(map(str, at.value.type.shape))}x{kind}"
    narrow = element_type(kind).bits
    try:
        packing = Packing.of(at.layout, 8 * _WIDEST // narrow)
    except ValueError as error:
        return Packed(line, name, None, str(error))
    nibbles = None
    if at.pairs is not None and narrow == 2 * _NIBBLE:
        with suppress(ValueError):  # the packing of whole bytes exists anyway
            nibbles = Packing.of(at.pairs, 8 * _WIDEST // _NIBBLE, _NIBBLE, wide)
    return Packed(line, name, packing, nibbles=nibbles)
