"""Makes accesses to global memory as wide as layouts and addresses admit."""

from __future__ import annotations

from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    InsertionPoint,
    Operation,
    RankedTensorType,
    UnitAttr,
    Value,
    operations,
    producers_of,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.axis import AxisAnalysis, shape_of
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.analysis.widths import Bit
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.planning import NUM_WARPS
from triton_linear.passes.operations.names import GLOBAL_ACCESSES
from triton_linear.passes.operations.table import is_volatile
from triton_linear.passes.widening import claims, flat, proof
from triton_linear.passes.widening.claims import VECTORS, Widened, access_of, operands_of


@dataclass(frozen=True)
class WidenAccesses(Pass):
    """Makes accesses to global memory as wide as layouts and addresses admit.

    Triton joins the elements of a thread along one dimension. Where memory goes on across others, as it does in
    rows of a few bytes, or where a thread has neighbours in registers that are not next to each other, the
    tensors of an access (pointers, mask, values) are shown to it as one row, whose first places are those of a
    vector. That takes changes of shape and puts registers in order, so it costs nothing. What Triton has to
    know of pointers and masks is promised on the row.

    Requires: nothing.
    Ensures: the module computes what it did (see `widening.proof`); what is promised follows from what the
    module says of its addresses. A module that changed has `ll.widened`. Volatile accesses, atomic ones, and
    those of blocks of memory stay.

        %x = tt.load %p : tensor<512x2x!tt.ptr<i8>, #blocked>
        %q = tt.reshape %p {tt.contiguity = dense<8> ...} : ... -> tensor<1024x!tt.ptr<i8>, #linear>
        %y = tt.load %q : tensor<1024x!tt.ptr<i8>, #linear>
        %x = tt.reshape %y : tensor<1024xi8, #linear> -> tensor<512x2xi8, #blocked>
    """

    name: ClassVar[str] = "linear-widen-accesses"
    summary: ClassVar[str] = "make accesses to memory as wide as layouts and addresses admit"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        accesses = [inner for inner in ops if inner.name in GLOBAL_ACCESSES]
        if not accesses or NUM_WARPS not in op.attributes:
            return False
        axis, table = AxisAnalysis(producers_of(ops)), pass_.layouts
        decided = [found for inner in accesses if (found := _decided(inner, axis, table)) is not None]
        if not decided:
            return False
        numbering = Numbering()
        with numbering.same(op, "wider accesses"):
            widened = [_rewritten(choice) for choice in decided]
            numbering.erased, numbering.shown = proof.check(operations(op), widened)
        op.attributes[ll.WIDENED] = UnitAttr.get(op.context)
        return None


@dataclass(frozen=True)
class _Choice:
    """An access, and how it is made wider: what is known of its addresses (`size` bytes between neighbours, or
    1 for offsets) and its mask, and the way to a row that begins with `bits`."""

    op: Operation
    bits: tuple[Bit, ...]
    way: flat.Flat
    address: int
    mask: int | None
    known: Any
    size: int
    constant: Any


def _decided(op: Operation, axis: AxisAnalysis, table: LayoutTable) -> _Choice | None:
    """How to make an access wider, None where that cannot be."""
    place, mask = operands_of(op)
    address = op.operands[place]
    if not isinstance(address.type, RankedTensorType) or is_volatile(op):
        return None
    layout = table.of(address.type)
    if not isinstance(layout, LinearLayout) or not all(table.of(v.type) == layout for v in _tensors(op)):
        return None
    try:
        access = access_of(op, axis)
    except ValueError:  # elements of a type that is not known here
        return None
    bases = dict(layout.bases)
    registers = [basis for basis in bases[REGISTER] if any(basis)]
    others = [basis for name, vectors in layout.bases if name != REGISTER for basis in vectors]
    bits = access.vector(registers, others).bits
    if not bits:
        return None
    seen = access.vector_bits(bases[REGISTER])
    if len(bits) <= seen or 1 << len(bits) < _promised(op):
        return None
    way = flat.flat(layout, bits)
    if not way.has_encodings:
        return None
    _tell(op, access, seen, len(bits))
    is_pointer = place == 0 and op.name.startswith("tt.")
    size = access.element_bytes if is_pointer else 1
    constant = None if mask is None else access.mask
    return _Choice(op, bits, way, place, mask, axis.of(address), size, constant)


def _promised(op: Operation) -> int:
    """Elements that an access itself says it has in a vector, whatever is known of its addresses."""
    return op.attributes[VECTORS].value if VECTORS in op.attributes else 1


def _tensors(op: Operation) -> list[Value]:
    return [value for value in (*op.operands, *op.results) if isinstance(value.type, RankedTensorType)]


def _tell(op: Operation, access: GlobalAccess, seen: int, bits: int) -> None:
    if diagnostics.wanted():
        shape = "x".join(map(str, shape_of(_tensors(op)[0].type)))
        before, after = (access.element_bytes << count for count in (seen, bits))
        what = "store" if access.is_store else "load"
        diagnostics.remark(op, f"the {what} of {shape} takes {after} bytes at once instead of {before}")


def _rewritten(choice: _Choice) -> Widened:
    """The access on rows, in the place of what it was."""
    op, way = choice.op, choice.way
    ip, location = InsertionPoint(op), op.location
    before: dict[int, Value] = {}
    clone = op.clone(ip=ip)
    ip = InsertionPoint(clone)
    for index, value in enumerate(op.operands):
        if isinstance(value.type, RankedTensorType):
            before[index] = value
            row = flat.flattened(value, way, ip, location)
            if index == choice.address:
                claims.of_addresses(choice.known, choice.size, choice.bits).put(row)
            elif index == choice.mask:
                claims.of_mask(choice.constant, choice.bits).put(row)
            clone.operands[index] = row.results[0]
    type_ = result = None
    if len(op.results):
        type_ = op.results[0].type
        clone.results[0].set_type(flat.row_type(type_, way))
        result = flat.unflattened(clone.results[0], way, type_, InsertionPoint(op), location)
        op.results[0].replace_all_uses_with(result)
    op.erase()
    return Widened(
        clone, before, type_, result, choice.address, choice.known, choice.size, choice.mask, choice.constant
    )
