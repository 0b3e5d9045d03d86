"""Operations that give elements other coordinates and leave them in their registers.

The layout of the result follows from that of the operand, and back.
"""

from __future__ import annotations

from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.records import dataclass
from triton_linear.passes.operations.names import JOIN, RESHAPE, SPLIT, TRANS
from triton_linear.passes.operations.table import may_reorder

NAMES = frozenset({TRANS, RESHAPE, JOIN, SPLIT})


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
