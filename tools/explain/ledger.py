"""Who holds how much shared memory of a kernel, where, and for how long.

Buffers, and the scratch of conversions, reductions and whatever else has some, as Triton's own pass places them
in the kernel with our code. Scratch of Triton's lives as long as its operation; that of a conversion of ours as
long as it is reserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Module, Operation, Value, operations, producers_of
from triton_linear.passes.framework.verifiers import CONVERT
from triton_linear.tools.explain.alone import NotAlone, alone
from triton_linear.tools.explain.lives import Lives
from triton_linear.tools.explain.memory import memory_in_words, short_memory
from triton_linear.tools.explain.records import Holder, Ledger, Place
from triton_linear.tools.support.allocation import OFFSET, Allocation, allocate, printed_again
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
    """The ledger of a kernel, from the text that Triton's backend is given.

    `stubs` says in words what each of our conversions is, by the symbol that locations name. Raises ToolError.
    """
    module = printed_again(to_triton(embedded))
    allocation = allocate(to_triton(embedded), target)
    ops = _of_kernel(module)
    offsets = _offsets(ops, allocation)
    producers, lives = producers_of(ops), Lives(ops)
    found = []
    sizes: dict[str, int | None] = {}
    for number, op in enumerate(ops):
        if op not in offsets:
            continue
        last = lives.last(op) if op.name == _ALLOC else lives.places.ends[op]
        size = _bytes(op, producers, module, target, sizes)
        kind, what = _what(op, stubs)
        place, until = (Place.of(str(one.location)) for one in (op, ops[last]))
        name = ops[last].name
        found.append(Holder(kind, op.name, what, size, offsets[op], place, until, number, last, name))
    live, at = _most(found)
    where = Place.of(str(ops[at].location)) if found else Place("", 0, 0)
    return Ledger(kernels(module)[0], allocation.bytes, live, where, stock_peak, tuple(found))


def peak(text: str, target: str) -> int:
    """What a CTA of a kernel takes of shared memory as stock Triton compiles it. Raises ToolError."""
    return allocate(to_triton(text), target).bytes


def _of_kernel(module: Module) -> list[Operation]:
    """The operations of the kernel, in order; those of functions that it calls are not its own."""
    name = kernels(module)[0]
    for function in module.body.operations:
        if function.operation.name == "tt.func" and function.attributes["sym_name"].value == name:
            return operations(function.operation)
    return []


def _offsets(ops: Sequence[Operation], allocation: Allocation) -> dict[Operation, int | None]:
    """Where the shared memory of each operation begins that has some; None where the allocated module has other
    operations of that name."""
    mine, theirs = _by_name(ops), _by_name(_of_kernel(allocation.module))
    found: dict[Operation, int | None] = {}
    for name, allocated in theirs.items():
        offsets = [op.attributes[OFFSET].value if OFFSET in op.attributes else None for op in allocated]
        if all(offset is None for offset in offsets):
            continue
        written = mine.get(name, [])
        if len(written) != len(allocated):
            found |= dict.fromkeys(written if name == _ALLOC else [])
            continue
        found |= {op: at for op, at in zip(written, offsets, strict=True) if at is not None}
    return found


def _by_name(ops: Sequence[Operation]) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for op in ops:
        found.setdefault(op.name, []).append(op)
    return found


def _what(op: Operation, stubs: Mapping[str, str]) -> tuple[str, str]:
    """Who holds, and what: of a buffer how its elements lie, of the others what they are about."""
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
    """What Triton gives an operation that is alone; None where it cannot be."""
    try:
        text = alone(op, producers, module).text
    except NotAlone:
        return None
    if text not in known:
        try:
            known[text] = allocate(to_triton(text), target).bytes
        except ToolError:
            known[text] = None
    return known[text]


def _most(holders: Sequence[Holder]) -> tuple[int, int]:
    """The most bytes that are held at once, and the first operation where they are."""
    best, at = 0, 0
    for number in sorted({holder.first for holder in holders}):
        held = sum(h.bytes or 0 for h in holders if h.first <= number <= h.last)
        if held > best:
            best, at = held, number
    return best, at
