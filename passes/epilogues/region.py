"""Find elementwise epilogues between tensor memory and a buffer of shared memory.

A region is the operations that compute a tensor which is stored to shared memory: elementwise operations, and
leaves of which any range of columns can be computed separately. Leaves are loads from tensor and shared memory,
constants, vectors broadcast to all rows, and columns broadcast to all columns. Only the region uses its loads,
and
each load that has to move can be moved down to the store: no operation between changes what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from triton_linear.dialect import encodings
from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis import tensor_memory
from triton_linear.passes.analysis.effects import is_pure
from triton_linear.passes.framework.layouts import memory_of
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

_READS: Final = frozenset({names.LOAD, names.LOCAL_LOAD, names.TENSOR_LOAD})
_PASSED: Final = _READS | {names.CONVERT, "ttng.async_tma_store_wait"}
"""Operations, besides views and elementwise ones, behind which loads may move; the wait is one for stores."""
_KEEP_OTHERS: Final = frozenset(
    {
        "ttng.init_barrier",
        "ttng.inval_barrier",
        "ttng.barrier_expect",
        "ttng.wait_barrier",
        "ttng.async_tma_copy_global_to_local",
    }
)
"""Operations that do not write tensor or global memory, besides those that write no memory at all."""
_USERS_OF_BUFFER: Final = frozenset(
    {"ttng.async_tma_copy_local_to_global", "ttng.fence_async_shared", names.LOCAL_DEALLOC, names.LOCAL_LOAD}
)


@dataclass(frozen=True, slots=True)
class Region:
    """The region of the store `sink`.

    stored: the tensor that is stored. ops: the operations of the region, in order. loads: the loads from tensor
    memory among them. loads_early: True if loads from shared memory must stay at their place.
    """

    sink: Operation
    stored: Value
    ops: tuple[Operation, ...]
    loads: tuple[Operation, ...]
    loads_early: bool

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self.stored.type.shape
        return int(rows), int(columns)


def region_of(sink: Operation, producers: Mapping[Value, Operation]) -> Region | None:
    """The region of a store to shared memory; None if it cannot be split into parts."""
    if sink.name not in (names.LOCAL_ALLOC, names.LOCAL_STORE) or not len(sink.operands):
        return None
    stored = sink.operands[0]
    if not isinstance(stored.type, RankedTensorType) or len(stored.type.shape) != 2:
        return None
    if sink.name == names.LOCAL_ALLOC:
        users = [use.owner.operation for use in sink.results[0].uses]
        if any(user.name not in _USERS_OF_BUFFER for user in users):
            return None
    walk = _Walk(sink, producers)
    if not walk.tile(stored) or not walk.loads or not walk.is_private():
        return None
    block = [view.operation for view in sink.block.operations]
    places = {op: place for place, op in enumerate(block)}
    ordered = sorted((op for op in walk.found if op in places), key=places.__getitem__)
    first = min((places[op] for op in ordered if op.name == names.LOCAL_LOAD), default=places[sink])
    # A buffer that is allocated between a load and the store may have the bytes of the loaded one.
    allocated = any(op.name == names.LOCAL_ALLOC for op in block[first : places[sink]])
    early = allocated or _must_load_early(sink, walk.found, producers)
    region = Region(sink, stored, tuple(ordered), tuple(op for op in ordered if op in walk.loads), early)
    late = [op for op in ordered if op.name != names.LOCAL_LOAD or not early]
    if not all(_can_move_down(op, block[places[op] + 1 : places[sink]], walk.found) for op in late):
        return None
    return region


def _must_load_early(
    sink: Operation, region: Mapping[Operation, None], producers: Mapping[Value, Operation]
) -> bool:
    """True if storing parts of the result may overwrite data that later parts load from shared memory: an
    allocation may reuse the bytes of a loaded buffer, and two views may be of the same buffer."""
    if sink.name == names.LOCAL_ALLOC:
        return True
    buffers = [sink.operands[1], *(op.operands[0] for op in region if op.name == names.LOCAL_LOAD)]
    return len(buffers) > 1 and any(
        (made := producers.get(buffer)) is None or made.name != names.LOCAL_ALLOC for buffer in buffers
    )


def _can_move_down(op: Operation, between: Sequence[Operation], region: Mapping[Operation, None]) -> bool:
    """True if an operation can move behind those of `between`: none of them changes what it reads."""
    if op.name not in _READS:
        return True
    of_shared = op.name == names.LOCAL_LOAD
    for other in between:
        known = named(other.name)
        if known.view or known.memory_view or other.name in _PASSED or other in region or is_pure(other):
            continue
        if other.name == names.LOCAL_ALLOC and not len(other.operands):
            continue
        if of_shared or other.name not in _KEEP_OTHERS:
            return False
    return True


@dataclass
class _Walk:
    """Walks from the stored tensor back to its leaves.

    found: the operations of the region, in no order. loads: the loads from tensor memory. kept: operations that
    may have other users, as they are cheap to clone.
    """

    sink: Operation
    producers: Mapping[Value, Operation]
    found: dict[Operation, None] = field(default_factory=dict)
    loads: dict[Operation, None] = field(default_factory=dict)
    kept: dict[Operation, None] = field(default_factory=dict)

    def tile(self, value: Value) -> bool:
        """True if any range of columns of a tensor of the region's shape can be computed separately."""
        op = self.producers.get(value)
        if op is None or len(op.results) != 1:
            return False
        if op in self.found:
            return True
        self.found[op] = None
        if op.name in (names.CONSTANT, names.SPLAT):
            self.kept[op] = None
            return op.name == names.SPLAT or is_splat(op)
        if op.name == names.BROADCAST:
            self.kept[op] = None
            rows, columns = op.operands[0].type.shape
            if columns == 1:
                return True
            expanded = self.producers.get(op.operands[0])
            return rows == 1 and expanded is not None and self.vector_in(expanded)
        if op.block != self.sink.block:
            return False
        if op.name == names.TENSOR_LOAD:
            self.loads[op] = None
            return tensor_memory.site_of(op) is not None and len(op.operands) == 1
        if op.name == names.LOCAL_LOAD:
            return len(op.operands) == 1 and narrowest(op.operands[0].type) is not None
        if op.name == names.CONVERT:
            return self.tile(op.operands[0])
        if not is_pure(op):
            return False
        return all(self.tile(each) for each in op.operands if isinstance(each.type, RankedTensorType))

    def vector_in(self, op: Operation) -> bool:
        """True if an operation gives a row from a vector that can be computed in parts."""
        if op.name == names.CONVERT:
            inner = self.producers.get(op.operands[0])
            self.found[op] = self.kept[op] = None
            return inner is not None and self.vector_in(inner)
        if op.name != names.EXPAND or op.attributes["axis"].value != 0:
            return False
        self.found[op] = self.kept[op] = None
        return self.vector(op.operands[0])

    def vector(self, value: Value) -> bool:
        """True if any part of a vector can be computed separately."""
        op = self.producers.get(value)
        if op is None or len(op.results) != 1 or len(value.type.shape) != 1:
            return False
        if op in self.found:
            return True
        self.found[op] = None
        if op.name == names.LOAD:
            volatile = "isVolatile" in op.attributes and bool(op.attributes["isVolatile"].value)
            if volatile or op.block != self.sink.block:
                return False
        else:
            self.kept[op] = None
            if op.name == names.CONSTANT:
                return is_splat(op)
            if op.name in (names.SPLAT, names.RANGE):
                return True
            if op.name != names.CONVERT and not is_pure(op):
                return False
        return all(self.vector(each) for each in op.operands if isinstance(each.type, RankedTensorType))

    def is_private(self) -> bool:
        """True if only the region uses the results of its operations, except for those that are `kept`."""
        for op in self.found:
            if op in self.kept:
                continue
            users = [use.owner.operation for use in op.results[0].uses]
            if any(user not in self.found and user != self.sink for user in users):
                return False
        return True


def is_splat(constant: Operation) -> bool:
    """True if all elements of a constant are equal."""
    return bool(constant.attributes["value"].is_splat)


def narrowest(memory: Type) -> int | None:
    """The fewest columns of a buffer that can be a view; None if its layout is not supported."""
    found = memory_of(memory)
    if found is None or len(found[0]) != 2:
        return None
    try:
        layout = encodings.parse(found[2])
    except ValueError:
        return None
    if not isinstance(layout, encodings.NvmmaShared) or layout.transposed or not layout.swizzle_bytes:
        return None
    return layout.swizzle_bytes * 8 // layout.element_bits
