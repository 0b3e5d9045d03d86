"""Gives shared memory that nothing but accesses of known layouts reaches the order and the swizzle that suit
these."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from triton_linear.dialect import ll
from triton_linear.dialect.encodings import SwizzledShared
from triton_linear.dialect.linear_layout import LANE, WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, StringAttr, Type, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.frequencies import Frequencies
from triton_linear.passes.analysis.residency import Residency
from triton_linear.passes.analysis.shared_memory import LocalAccess, is_access, sides_of
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable, memory_of, swizzle_of
from triton_linear.passes.framework.planning import Planning, unfit, warps_of
from triton_linear.passes.operations.names import COPY, LOCAL_ALLOC, LOCAL_LOAD, SUBSLICE
from triton_linear.passes.staging.owned import Owned, owned_memory

_FIELD = re.compile(r"\b(vec|perPhase|maxPhase|order) = (?:\d+|\[[^\]]*\])")
_VECTORS: Final = (16, 32, 64, 8, 4)
"""Bytes that a swizzle may keep together."""


def seen_through(encoding: SwizzledShared, turned: Sequence[int], type_: str) -> str:
    """The text of a type whose memory gets an encoding, seen through a view whose dimension `i` is dimension
    `turned[i]` of the memory.

    >>> from triton_linear.dialect.encodings import parse
    >>> text = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1, 2]}>"
    >>> seen_through(replace(parse(text), vec=8, order=(2, 1, 0)), (0, 2, 1), text)
    '#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 1, order = [1, 2, 0]}>'
    """
    fields = {
        "vec": encoding.vec,
        "perPhase": encoding.per_phase,
        "maxPhase": encoding.max_phase,
        "order": [turned.index(axis) for axis in encoding.order],
    }
    return _FIELD.sub(lambda match: f"{match[1]} = {fields[match[1]]}", type_)


@dataclass(frozen=True)
class ArrangeMemory(Planning):
    """Gives shared memory the order and the swizzle that suit its accesses.

    Triton takes the order of shared memory from the layout in registers of what is stored there. For tiles of
    three dimensions that may put the batch between the rows: the swizzle, which is of the two fastest
    dimensions, then has nothing to permute, and lanes that are served together ask for the same banks. Where
    nothing but loads, stores and asynchronous copies reaches the memory, its layout is no one else's concern,
    and becomes the one in which these take the fewest clocks. What hardware reads by rules of its own (TMA,
    wgmma, tcgen05) has other encodings, or operations that are none of these.

    Requires: one CTA a cluster, no warp-specialised regions; other modules are left as they are.
    Ensures: values keep their layouts, and buffers their sizes; copies move vectors as wide as before. An
    allocation that changed has `ll.arranged`, which says what that saves, and so has the module.

        %m = ttg.local_alloc %x : ... -> !ttg.memdesc<4x16x32xf16, {.., order = [2, 0, 1]}>
        %m = ttg.local_alloc %x : ... -> !ttg.memdesc<4x16x32xf16, {.., order = [2, 1, 0]}>
    """

    name: ClassVar[str] = "linear-arrange-memory"
    summary: ClassVar[str] = "give shared memory the order and the swizzle that suit its accesses"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        if unfit(op, list(ops)) or not (found := list(owned_memory(ops))):
            return False
        situation = self.situation(op, pass_)
        if situation is None:
            return False
        situation = Residency.of(situation, ops, warps_of(op), pass_.layouts).situation
        frequencies = Frequencies(AxisAnalysis(producers_of(ops)), situation.gpu.policy.unknown_trips)
        numbering = Numbering()
        changes = []
        for owned in found:
            choice = _Choice.of(owned, situation, pass_.layouts, frequencies)
            best = choice.best() if choice is not None else None
            if best is None:
                continue
            encoding, summary = best
            for allocation in (inner for inner in owned.ops if inner.name == LOCAL_ALLOC):
                diagnostics.remark(allocation, f"memory is laid out anew: {summary}")
                allocation.attributes[ll.ARRANGED] = StringAttr.get(summary, op.context)
            for value, turned in owned.views.items():
                type_ = Type.parse(seen_through(encoding, turned, str(value.type)), op.context)
                changes.append((value, type_))
                numbering.types |= {each: _FIELD.sub("", str(each)) for each in (value.type, type_)}
        if not changes:
            return False
        op.attributes[ll.ARRANGED] = StringAttr.get("", op.context)
        with numbering.same(op, "memory laid out anew"):
            for value, type_ in changes:
                value.set_type(type_)
        return None


class _Access(NamedTuple):
    """An access by a tensor with this layout and shape, through a view as in `Owned.views`. is_copy: it
    passes no registers."""

    registers: LinearLayout
    shape: tuple[int, ...]
    turned: tuple[int, ...]
    is_store: bool
    is_copy: bool

    def at(self, memory: LocalAccess) -> LocalAccess:
        """The access to memory in which all that was allocated would be accessed by `memory`."""
        columns = [
            memory.columns[axis][: size.bit_length() - 1]
            for axis, size in zip(self.turned, self.shape, strict=True)
        ]
        return LocalAccess(tuple(columns), memory.element_bytes, self.is_store)

    def vectors(self, memory: LocalAccess) -> list[list[int]]:
        """Which bits of the coordinates number the bytes that it moves at once, as offsets in bytes."""
        local = self.at(memory)
        size = local.bytes_at_once(self.registers)
        return [[column if column < size else 0 for column in columns] for columns in local.columns]


@dataclass(frozen=True)
class _Choice:
    """The layouts of memory that there are to choose from.

    accesses: with the number of times that each runs. shape: of the memory. encoding: of the memory now. cuts:
    the sizes that views cut off: the dimension, and its size before and after.
    """

    accesses: Mapping[_Access, float]
    element: ElementType
    shape: tuple[int, ...]
    encoding: SwizzledShared
    cuts: Sequence[tuple[int, int, int]]
    situation: Situation

    @staticmethod
    def of(owned: Owned, situation: Situation, table: LayoutTable, frequencies: Frequencies) -> _Choice | None:
        """The choice for some memory; None if something of it has no layout, or if it has no other one."""
        accesses, cuts = dict[_Access, float](), list[tuple[int, int, int]]()
        memory = next(iter(owned.views)).type
        (shape, element, _), encoding = memory_of(memory) or ((), "", ""), swizzle_of(memory)
        for op in owned.ops:
            if op.name == SUBSLICE:
                sizes = [(memory_of(value.type) or ((),))[0] for value in (op.operands[0], op.results[0])]
                cuts += zip(owned.views[op.results[0]], *sizes, strict=True)
            elif is_access(op):
                registers, memory = sides_of(op)
                layout = table.of(registers.type)
                if not isinstance(layout, LinearLayout) or layout.in_dim_size(LANE) != situation.gpu.lanes:
                    return None
                if op.name == COPY and situation.gpu.vendor != "nvidia":
                    return None  # the lanes of such a copy have to be neighbours in memory
                shape_, turned = tuple(registers.type.shape), owned.views[memory]
                access = _Access(layout, shape_, turned, op.name != LOCAL_LOAD, op.name == COPY)
                accesses[access] = accesses.get(access, 0.0) + frequencies.of(op.block)
        if encoding is None or encoding.rank < 2 or not accesses:
            return None
        return _Choice(accesses, element_type(element), shape[-encoding.rank :], encoding, cuts, situation)

    def best(self) -> tuple[SwizzledShared, str] | None:
        """The encoding with the cheapest accesses, and in words what it saves; None if none saves enough."""
        now, limit = self._memory(self.encoding), self.situation.gpu.policy.arranged_left
        if now is None:
            return None
        least, before = self._sum(_least, now), self._sum(_direct, now)
        if least > limit * before:
            return None
        after, cheapest, found = before, now, None
        for encoding, memory in self._suitable(now):
            clocks = self._sum(_direct, memory)
            if clocks < after:
                after, cheapest, found = clocks, memory, encoding
            if after <= least:
                break  # most often one of the first
        if found is None or after > limit * before:
            return None
        wavefronts = [self._sum(_wavefronts, memory) for memory in (cheapest, now)]
        saved = "{:.0f} wavefronts a warp instead of {:.0f}".format(*wavefronts)
        return found, f"{saved}: {after:.0f} clocks instead of {before:.0f}"

    def _sum(self, figure: Callable[[_Access, LocalAccess, Situation], float], memory: LocalAccess) -> float:
        """The sum of a figure of each access, as often as it runs."""
        return sum(
            figure(access, access.at(memory), self.situation) * often for access, often in self.accesses.items()
        )

    def _suitable(self, now: LocalAccess) -> Iterator[tuple[SwizzledShared, LocalAccess]]:
        """The encodings that views and copies allow: Triton refuses views that cut a swizzle's pattern, and
        copies take their elements from where they are neighbours."""
        copies = [access for access in self.accesses if access.is_copy]
        for encoding in self._encodings():
            memory = self._memory(encoding)
            if memory is None or any(
                column & (column - 1)
                for axis, before, after in self.cuts
                for column in memory.columns[axis][after.bit_length() - 1 : before.bit_length() - 1]
            ):
                continue
            if all(access.vectors(memory) == access.vectors(now) for access in copies):
                yield encoding, memory

    def _encodings(self) -> Iterator[SwizzledShared]:
        """Every order, those with the present fastest dimension first, with the swizzles that spread rows over
        all banks, and without one."""
        size, line = self.element.memory_bytes, self.situation.gpu.wavefront_bytes
        orders = list(itertools.permutations(reversed(range(len(self.shape)))))
        orders.sort(key=lambda order: order[0] != self.encoding.order[0])
        for order in orders:
            row = self.shape[order[0]] * size
            swizzles = [
                (vector // size, max(1, line // row), min(row, line) // vector)
                for vector in _VECTORS
                if size <= vector < row
            ]
            for vec, per_phase, max_phase in (*swizzles, (1, 1, 1)):
                yield replace(self.encoding, vec=vec, per_phase=per_phase, max_phase=max_phase, order=order)

    def _memory(self, encoding: SwizzledShared) -> LocalAccess | None:
        """The access to all of the memory if it has this encoding; None if there is no linear layout."""
        layout = encoding.to_linear_layout(self.shape)
        return LocalAccess.of(layout, self.shape, self.element.memory_bytes, is_store=True)


def _direct(access: _Access, local: LocalAccess, situation: Situation) -> float:
    return _clocks(local.wavefronts(access.registers, situation.gpu), access.registers, situation)


def _least(access: _Access, local: LocalAccess, situation: Situation) -> float:
    """Clocks of an access to the elements that a warp holds if each wavefront were full."""
    return _clocks(local.fewest_of(access.registers, situation.gpu), access.registers, situation)


def _clocks(wavefronts: int, registers: LinearLayout, situation: Situation) -> float:
    """The modelled clocks until the accesses of all resident warps are done."""
    table = situation.gpu.costs
    warps = registers.in_dim_size(WARP) if registers.has_in_dim(WARP) else 1
    clocks = wavefronts * table.wavefront
    return Cost(clocks, table.memory_wait + table.alone * warps * clocks).expected(situation.busy(warps))


def _wavefronts(access: _Access, local: LocalAccess, situation: Situation) -> float:
    return local.wavefronts(access.registers, situation.gpu)
