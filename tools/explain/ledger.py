"""The ledger of a kernel's shared memory: each user with its bytes, its offset and its live range.

Users are buffers, and the scratch of conversions, reductions and other operations, at the offsets that
Triton's allocation gives them in the kernel with this package's code. Triton's scratch lives as long as its
operation; the scratch of a conversion of this package lives as long as its allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Module, Operation, Value, operations, producers_of
from triton_linear.passes.operations.names import CONVERT
from triton_linear.tools.explain.liveness import Liveness
from triton_linear.tools.explain.memory import memory_in_words, short_memory
from triton_linear.tools.explain.records import Holder, Ledger, Place
from triton_linear.tools.explain.single_operation import CannotIsolate, isolate
from triton_linear.tools.support.allocation import OFFSET, Allocation, allocate, to_upstream
from triton_linear.tools.support.compile import kernels, to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.verify.words import short_encoding, short_type

_ALLOC = "ttg.local_alloc"
_KINDS = {
    _ALLOC: "buffer",
    CONVERT: "conversion",
    "tt.reduce": "reduction",
    "tt.scan": "scan",
    "tt.call": "call",
}


def ledger(embedded: str, target: str, stubs: Mapping[str, str], stock_peak: int | None) -> Ledger:
    """The ledger of a kernel, from the text given to Triton's backend.

    `stubs` describes each conversion of this package, by the symbol in its location. Raises ToolError.
    """
    module = to_upstream(to_triton(embedded))
    allocation = allocate(to_triton(embedded), target)
    ops = _of_kernel(module)
    offsets = _offsets(ops, allocation)
    producers, liveness = producers_of(ops), Liveness(ops)
    holders = []
    sizes: dict[str, int | None] = {}
    for number, op in enumerate(ops):
        if op not in offsets:
            continue
        last = liveness.last(op) if op.name == _ALLOC else liveness.places.ends[op]
        size = _bytes(op, producers, module, target, sizes)
        kind, what = _what(op, stubs)
        place, until = (Place.of(str(one.location)) for one in (op, ops[last]))
        name = ops[last].name
        holders.append(Holder(kind, op.name, what, size, offsets[op], place, until, number, last, name))
    live, at = _maximum(holders)
    where = Place.of(str(ops[at].location)) if holders else Place("", 0, 0)
    return Ledger(kernels(module)[0], allocation.bytes, live, where, stock_peak, tuple(holders))


def peak(text: str, target: str) -> int:
    """The bytes of shared memory of a CTA, if stock Triton compiles the kernel. Raises ToolError."""
    return allocate(to_triton(text), target).bytes


def _of_kernel(module: Module) -> list[Operation]:
    """The operations of the kernel, in order, without those of functions that it calls."""
    name = kernels(module)[0]
    for function in module.body.operations:
        if function.operation.name == "tt.func" and function.attributes["sym_name"].value == name:
            return operations(function.operation)
    return []


def _offsets(ops: Sequence[Operation], allocation: Allocation) -> dict[Operation, int | None]:
    """The offset of each operation with shared memory.

    Operations are matched by name and order. The offset of a buffer is None if the allocated module has
    another number of buffers.
    """
    original, after_allocation = _by_name(ops), _by_name(_of_kernel(allocation.module))
    offset_of: dict[Operation, int | None] = {}
    for name, allocated in after_allocation.items():
        offsets = [op.attributes[OFFSET].value if OFFSET in op.attributes else None for op in allocated]
        if all(offset is None for offset in offsets):
            continue
        same_name = original.get(name, [])
        if len(same_name) != len(allocated):
            offset_of |= dict.fromkeys(same_name if name == _ALLOC else [])
            continue
        offset_of |= {op: at for op, at in zip(same_name, offsets, strict=True) if at is not None}
    return offset_of


def _by_name(ops: Sequence[Operation]) -> dict[str, list[Operation]]:
    by_name: dict[str, list[Operation]] = {}
    for op in ops:
        by_name.setdefault(op.name, []).append(op)
    return by_name


def _what(op: Operation, stubs: Mapping[str, str]) -> tuple[str, str]:
    """The kind of a user, and its description: the layout of a buffer, the types of another operation."""
    location = str(op.location)
    if op.name != _ALLOC:
        types = [short_type(str(operand.type)) for operand in op.operands if "tensor<" in str(operand.type)]
        what = types[0] if types else ""
        if op.name == CONVERT:
            what += f" -> {short_encoding(str(op.results[0].type))}"
        return _KINDS.get(op.name, "other"), what
    for stub, words in stubs.items():
        if f'"{stub}"' in location:
            return "conversion", words
    if location == "loc(unknown)" and stubs:
        return "conversion", "of conversions inside warps, one after another"
    words = memory_in_words(op.results[0].type)
    return "buffer", f"{short_memory(op.results[0].type)}{': ' if words else ''}{words}"


def _bytes(
    op: Operation,
    producers: Mapping[Value, Operation],
    module: Module,
    target: str,
    known: dict[str, int | None],
) -> int | None:
    """The bytes that Triton allocates for the isolated operation; None if it cannot be isolated or lowered."""
    try:
        text = isolate(op, producers, module).text
    except CannotIsolate:
        return None
    if text not in known:
        try:
            known[text] = allocate(to_triton(text), target).bytes
        except ToolError:
            known[text] = None
    return known[text]


def _maximum(holders: Sequence[Holder]) -> tuple[int, int]:
    """The largest number of bytes that are live at once, and the number of the first operation with it."""
    maximum, at = 0, 0
    for number in sorted({holder.first for holder in holders}):
        live = sum(h.bytes or 0 for h in holders if h.first <= number <= h.last)
        if live > maximum:
            maximum, at = live, number
    return maximum, at
