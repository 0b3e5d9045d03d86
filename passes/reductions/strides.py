"""Arguments of a kernel that are strides, and may be constants without a change of any bit.

In TTIR, before layouts are chosen. Where a stride is known to be 1, Triton makes accesses wider, other layouts
and more loads asynchronous. What else may follow from that, and is excluded here:

- Anything but an address depends on the stride: a branch, a number of iterations, a mask, a float.
- A load is begun earlier, as Triton pipelines it, than a write that it should see, or one thread no longer
  reads what it has written: so no load may follow a write, in a loop either.
- LLVM fuses other multiplications and additions, as its vectoriser starts from loads and stores and takes what
  is between them: so no value of those accesses may come to a held value (`held`) but through a dot, and
  nothing that is stored may come from one in the same block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, operations, producers_of
from triton_linear.passes.analysis.flow import is_kernel, reached
from triton_linear.passes.operations import names
from triton_linear.passes.operations.names import ASSEMBLY, ATOMIC, COMBINING
from triton_linear.passes.operations.table import computes, is_volatile, named
from triton_linear.passes.reductions.held import KeptBits, Steps, copies_by_source, held_values

DOTS = ("dot", "dot_scaled", "mma", "mma_scaled")
"""How names of operations end that multiply matrices."""
_LOADS = (names.LOAD, names.DESCRIPTOR_LOAD, "tt.descriptor_gather")
_POINTER = "!tt.ptr"
_MOVED = frozenset({names.BROADCAST, names.EXPAND, names.SPLAT})
"""Operations that give their operand, of offsets or pointers."""
_ARITHMETIC = frozenset({names.ADD, "arith.extsi", "arith.extui", "arith.muli", names.SUBTRACT, "arith.trunci"})
"""Operations that make offsets of strides."""


def strides(module: Operation, numbers: Iterable[int]) -> list[int]:
    """Those of a kernel's parameters that may be constants, by their numbers. Requires: TTIR."""
    ops = operations(module)
    if _reads_after_writing(ops):
        return []
    (kernel,) = (op for op in ops if op.name == names.FUNCTION and is_kernel(op))
    arguments = kernel.regions[0].blocks[0].arguments
    flow = _Flow(ops)
    return [number for number in numbers if flow.may_be_constant(arguments[number])]


def _reads_after_writing(ops: Sequence[Operation]) -> bool:
    """True if a load follows what may write, in the order that is written or in a loop; what writes and is
    unknown counts as a load too."""
    written = False
    for op in ops:
        if op.name in names.LOOPS:
            inside = operations(op)[1:]
            if any(map(_writes, inside)) and any(_reads(each) for each in inside):
                return True
        if written and _reads(op):
            return True
        written = written or _writes(op)
    return False


def _reads(op: Operation) -> bool:
    return op.name in _LOADS or (_writes(op) and op.name != names.STORE)


def _writes(op: Operation) -> bool:
    """True if an operation may write, wait, or do anything else that a load may not pass."""
    if op.name in _LOADS:
        return op.name == names.LOAD and is_volatile(op)
    return named(op.name).writes and not computes(op)


class _Flow:
    """Where values of a kernel come to."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self._copies: Steps = copies_by_source(ops)
        # TTIR does not name its GPU: what is held on any is.
        self._held = held_values(ops, nvidia=False)
        self._producers = producers_of(ops)

    def may_be_constant(self, argument: Value) -> bool:
        """True if an argument reaches addresses of loads and stores, nothing else, and whatever these load and
        store is not held."""
        accesses: list[Operation] = []
        seen: set[Value] = set()
        pending = [(argument, False)]
        while pending:
            value, is_pointer = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if is_pointer:  # also what a loop carries
                pending += [(copy, True) for copy in self._copies.get(value, ()) if _POINTER in str(copy.type)]
            for use in value.uses:
                op: Operation = use.owner.operation
                if op.name in _MOVED or (op.name in _ARITHMETIC and not is_pointer):
                    pending += [(result, is_pointer) for result in op.results]
                elif op.name == names.ADD_POINTER and use.operand_number == (0 if is_pointer else 1):
                    pending.append((op.results[0], True))
                elif is_pointer and op.name in (names.LOAD, names.STORE) and use.operand_number == 0:
                    accesses.append(op)
                elif not (is_pointer and op.name.startswith("scf.")):  # whose results are copies
                    return False
        return bool(accesses) and not any(map(self._touches_held, accesses))

    def _touches_held(self, access: Operation) -> bool:
        """True if a value that is loaded comes to a held one, or one that is stored from one in its block."""
        if access.name == names.STORE:
            return any(value in self._held for value in self._made_of(access.operands[1], access))
        return any(value in self._held for value in self._reached(access.results))

    def _made_of(self, value: Value, at: Operation) -> set[Value]:
        """A value, and those of the same block as `at` that it is computed from."""

        def sources(value: Value) -> list[Value]:
            producer = self._producers.get(value)
            if producer is None or producer.block != at.block or producer.name.startswith("scf."):
                return []
            return list(producer.operands)

        return reached([value], sources)

    def _reached(self, values: Iterable[Value]) -> set[Value]:
        """Values, and what they come to but through dots."""

        def following(value: Value) -> list[Value]:
            users = (use.owner.operation for use in value.uses)
            results = [result for op in users if not op.name.endswith(DOTS) for result in op.results]
            return [*self._copies.get(value, ()), *results]

        return reached(values, following)


_BY_THREAD = frozenset({"tt.atomic_cas", ATOMIC, ASSEMBLY})
"""Operations that may give other values in other threads, or beside other elements."""


def same_bits(one: Operation, other: Operation) -> bool:
    """True if two modules give the same bits: what `held` says that bits depend on has the same layouts.

    Requires: both compute the same values, element by element, but for the layouts that these have.
    """
    return list(_deciding(one)) == list(_deciding(other))


def _deciding(module: Operation) -> Iterator[tuple[str, ...]]:
    """The operations on whose layouts bits depend, in the order they are written, with the types of tensors."""
    ops = operations(module)
    kept = KeptBits.among(ops, exact=True)
    for op in ops:
        name = op.name
        combines = name in COMBINING and kept.shows_order(op)
        if combines or name in _BY_THREAD or name.endswith(DOTS):
            # A dot adds in the order that its operands' layouts have in registers; in memory they have none.
            yield name, *(str(value.type) for value in (*op.operands, *op.results) if _is_tensor(value))
        for value in op.results:
            if value in kept.held:
                yield name, str(value.type)
        for region in op.regions:
            for block in region.blocks:
                yield from (("argument", str(value.type)) for value in block.arguments if value in kept.held)


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, RankedTensorType)
