"""What is computed, element by element, between tensor memory and a buffer of shared memory.

A region is what leads to the tensor that is stored: operations that work element by element, and leaves of
which any range of columns can be had by itself: loads from tensor and shared memory, constants, what is spread
over the rows from a vector, and what is spread over the columns from one column. Nothing but the region may
need its loads, and each may be done as late as the store, where that is needed: what stands between changes
nothing of what is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from triton_linear.dialect import encodings
from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis import tensor_memory, weights
from triton_linear.passes.framework.layouts import memory_of
from triton_linear.passes.framework.verifiers import CONVERT

LOCAL_LOAD: Final = "ttg.local_load"
LOCAL_ALLOC: Final = "ttg.local_alloc"
LOCAL_STORE: Final = "ttg.local_store"
BROADCAST: Final = "tt.broadcast"
EXPAND: Final = "tt.expand_dims"
RANGE: Final = "tt.make_range"
SPLAT: Final = "tt.splat"
CONSTANT: Final = "arith.constant"
_LOAD: Final = "tt.load"
_READS: Final = frozenset({_LOAD, LOCAL_LOAD, tensor_memory.LOAD})
_VIEWS: Final = frozenset(
    {
        CONVERT,
        BROADCAST,
        EXPAND,
        RANGE,
        SPLAT,
        "ttg.memdesc_index",
        "ttg.memdesc_subslice",
        "ttng.tmem_subslice",
    }
)
_KEEP_OTHERS: Final = frozenset(
    {
        "ttng.init_barrier",
        "ttng.inval_barrier",
        "ttng.barrier_expect",
        "ttng.wait_barrier",
        "ttng.async_tma_copy_global_to_local",
    }
)
"""Operations that change nothing of tensor or global memory, beside those that change nothing at all."""
_WAITS: Final = frozenset({"ttng.async_tma_store_wait"})
"""Operations that wait, and for nothing that loads have to wait for."""
_USERS_OF_BUFFER: Final = frozenset(
    {"ttng.async_tma_copy_local_to_global", "ttng.fence_async_shared", "ttg.local_dealloc", LOCAL_LOAD}
)


@dataclass(frozen=True, slots=True)
class Region:
    """What is stored by `sink`: `ops` of the region, in order, and the loads from tensor memory among them.
    `loads_early`: loads from shared memory stay where they are."""

    sink: Operation
    stored: Value
    ops: tuple[Operation, ...]
    loads: tuple[Operation, ...]
    loads_early: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.stored.type.shape
        return int(rows), int(columns)


def region_of(sink: Operation, producers: Mapping[Value, Operation]) -> Region | None:
    """The region that ends in a store to shared memory, None where there is none that can be done in parts."""
    if sink.name not in (LOCAL_ALLOC, LOCAL_STORE) or not len(sink.operands):
        return None
    stored = sink.operands[0]
    if not isinstance(stored.type, RankedTensorType) or len(stored.type.shape) != 2:
        return None
    if sink.name == LOCAL_ALLOC:
        users = [use.owner.operation for use in sink.results[0].uses]
        if any(user.name not in _USERS_OF_BUFFER for user in users):
            return None
    walk = _Walk(sink, producers)
    if not walk.tile(stored) or not walk.loads or not walk.is_private():
        return None
    block = [view.operation for view in sink.block.operations]
    places = {op: place for place, op in enumerate(block)}
    ordered = sorted((op for op in walk.found if op in places), key=places.__getitem__)
    first = min((places[op] for op in ordered if op.name == LOCAL_LOAD), default=places[sink])
    made = any(
        op.name == LOCAL_ALLOC for op in block[first : places[sink]]
    )  # it may have the loaded one's bytes
    early = made or _must_load_early(sink, walk.found, producers)
    region = Region(sink, stored, tuple(ordered), tuple(op for op in ordered if op in walk.loads), early)
    late = [op for op in ordered if op.name != LOCAL_LOAD or not early]
    if not all(_may_wait(op, block[places[op] + 1 : places[sink]], walk.found) for op in late):
        return None
    return region


def _must_load_early(
    sink: Operation, region: Mapping[Operation, None], producers: Mapping[Value, Operation]
) -> bool:
    """Whether what is loaded from shared memory may be overwritten by parts of the result: a buffer that is
    made for it may have the bytes of one that was loaded before, and a view may be of the same buffer."""
    if sink.name == LOCAL_ALLOC:
        return True
    buffers = [sink.operands[1], *(op.operands[0] for op in region if op.name == LOCAL_LOAD)]
    return len(buffers) > 1 and any(
        (made := producers.get(buffer)) is None or made.name != LOCAL_ALLOC for buffer in buffers
    )


def _may_wait(op: Operation, between: Sequence[Operation], region: Mapping[Operation, None]) -> bool:
    """Whether an operation may be done behind all of these: nothing of what it reads changes."""
    if op.name not in _READS:
        return True
    of_shared = op.name == LOCAL_LOAD
    for other in between:
        if other in region or other.name in _READS | _VIEWS | _WAITS or _is_pure(other):
            continue
        if other.name == LOCAL_ALLOC and not len(other.operands):
            continue
        if of_shared or other.name not in _KEEP_OTHERS:
            return False
    return True


def _is_pure(op: Operation) -> bool:
    """Whether an operation works element by element and does nothing else; functions of others may."""
    pure = "pure" not in op.attributes or bool(op.attributes["pure"].value)
    return pure and weights.is_elementwise(op.name) and not len(op.regions)


@dataclass
class _Walk:
    """Follows what is stored back to its leaves; `found` are the operations of the region, in no order."""

    sink: Operation
    producers: Mapping[Value, Operation]
    found: dict[Operation, None] = field(default_factory=dict)
    loads: dict[Operation, None] = field(default_factory=dict)
    kept: dict[Operation, None] = field(default_factory=dict)

    def tile(self, value: Value) -> bool:
        """Whether columns of a tensor of the whole shape can be had by themselves."""
        op = self.producers.get(value)
        if op is None or len(op.results) != 1:
            return False
        if op in self.found:
            return True
        self.found[op] = None
        if op.name in (CONSTANT, SPLAT):
            self.kept[op] = None
            return op.name == SPLAT or is_splat(op)
        if op.name == BROADCAST:
            self.kept[op] = None
            rows, columns = op.operands[0].type.shape
            if columns == 1:
                return True
            expanded = self.producers.get(op.operands[0])
            return rows == 1 and expanded is not None and self.vector_in(expanded)
        if op.block != self.sink.block:
            return False
        if op.name == tensor_memory.LOAD:
            self.loads[op] = None
            return tensor_memory.site_of(op) is not None and len(op.operands) == 1
        if op.name == LOCAL_LOAD:
            return len(op.operands) == 1 and is_sliced(op.operands[0].type)
        if op.name == CONVERT:
            return self.tile(op.operands[0])
        if not _is_pure(op):
            return False
        return all(self.tile(each) for each in op.operands if isinstance(each.type, RankedTensorType))

    def vector_in(self, op: Operation) -> bool:
        """Whether an operation makes a row of a vector that can be had in parts."""
        if op.name == CONVERT:
            inner = self.producers.get(op.operands[0])
            self.found[op] = self.kept[op] = None
            return inner is not None and self.vector_in(inner)
        if op.name != EXPAND or op.attributes["axis"].value != 0:
            return False
        self.found[op] = self.kept[op] = None
        return self.vector(op.operands[0])

    def vector(self, value: Value) -> bool:
        """Whether parts of a vector can be had by themselves."""
        op = self.producers.get(value)
        if op is None or len(op.results) != 1 or len(value.type.shape) != 1:
            return False
        if op in self.found:
            return True
        self.found[op] = None
        if op.name == _LOAD:
            volatile = "isVolatile" in op.attributes and bool(op.attributes["isVolatile"].value)
            if volatile or op.block != self.sink.block:
                return False
        else:
            self.kept[op] = None
            if op.name == CONSTANT:
                return is_splat(op)
            if op.name in (SPLAT, RANGE):
                return True
            if op.name != CONVERT and not _is_pure(op):
                return False
        return all(self.vector(each) for each in op.operands if isinstance(each.type, RankedTensorType))

    def is_private(self) -> bool:
        """Whether nobody but the region needs what it makes, but for what costs nothing to make twice."""
        for op in self.found:
            if op in self.kept:
                continue
            users = [use.owner.operation for use in op.results[0].uses]
            if any(user not in self.found and user != self.sink for user in users):
                return False
        return True


def is_splat(constant: Operation) -> bool:
    """Whether all elements of a constant are the same."""
    return bool(constant.attributes["value"].is_splat)


def is_sliced(memory: Type) -> bool:
    """Whether columns of a buffer of shared memory can be taken by themselves."""
    return narrowest(memory) is not None


def narrowest(memory: Type) -> int | None:
    """The fewest columns of a buffer that lie by themselves, None where nothing is known of it."""
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
