"""Lower bounds of the cost of a conversion, from its layouts alone, without planning.

If no element leaves its thread, selects reduce the words that a thread reads to those that it wants. If none
leaves its warp, shuffles compete with shared memory. If m register bits of the destination are in other lanes
of the source, shuffles bring all of its registers but one in 2^m; if none is, some lanes read all their
registers from others. Without copies these are m exchanges of a lane bit with a register bit: one alone takes
half a shuffle and one and a half selects for each word. Through shared memory every element is stored once and
every destination register loaded once, in whole wavefronts.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Cost, Work
from triton_linear.lowering.planners.conversion import Hardware, Reach, reach_between
from triton_linear.lowering.target.lanes import SWAP, native_exchanges
from triton_linear.lowering.target.phases import LOAD, STORE, WIDEST
from triton_linear.lowering.target.targets import Target

_QUAD_BITS, _ROW_BITS = 2, 4
"""Bits of a lane's number within a group of four lanes, of which DPP reads any, and within a row."""

_LEAST_IN_ROWS = 1.25
"""Vector instructions of a word for each exchange in a row. A single exchange takes 3/2, by shifts or by half a
move and its selects; the last two in one phase take a little less."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundedSide:
    """The facts of a layout that bounds depend on.

    held, lanes: rank of the register columns, and of the lane columns. threads: the columns of lanes, warps and
    blocks. spans: for each reach, the mask of tensor bits that span the columns within it; -1 if single tensor
    bits do not span them. given: the tensor bits in any register column. distinct: true if a warp holds no
    element twice.
    """

    hardware: Hardware
    held: int
    lanes: int
    threads: tuple[int, ...]
    spans: tuple[int, ...]
    given: int
    distinct: bool

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def of(layout: LinearLayout) -> BoundedSide:
        """The facts of `layout`."""
        found = Hardware.of(layout)
        pivots: dict[int, int] = {}
        bits = 0
        spans, ranks = [], []
        for columns in (found.register, found.lane, found.warp, found.block):
            for column in columns:
                bits |= column
                f2.enlarges(pivots, column)
            ranks.append(len(pivots))
            spans.append(bits if ranks[-1] == bits.bit_count() else -1)
        threads = (*found.lane, *found.warp, *found.block)
        distinct = ranks[1] == len(found.register) + len(found.lane)
        given = functools.reduce(operator.or_, found.register, 0)
        return BoundedSide(found, ranks[0], f2.rank(found.lane), threads, tuple(spans), given, distinct)

    def reach_to(self, other: BoundedSide) -> Reach:
        """`reach_between` the columns of both layouts."""
        threads = self.threads
        if -1 in self.spans or len(threads) != len(other.threads):
            return reach_between(self.hardware, other.hardware)
        # Vectors lie in the span of unit vectors exactly if the union of their bits does.
        moved = functools.reduce(operator.or_, map(operator.xor, threads, other.threads), other.given)
        for reach, bits in enumerate(self.spans):
            if not moved & ~bits:
                return Reach(reach)
        return reach_between(self.hardware, other.hardware)

    def choice_bits(self, other: BoundedSide) -> int:
        """The number of bits, depending on the thread, that choose among registers here for one of `other`."""
        moved = map(operator.xor, self.threads, other.threads)
        return f2.rank((*other.hardware.register, *moved)) - other.held


class Relation(NamedTuple):
    """How far a conversion reaches, and how many bits it chooses by or exchanges.

    bits: within a thread, the bits of a choice among registers; within a warp, the exchanges of a register bit
    with a lane bit. strict: with exchanges, they are of bits without copies; without exchanges, no shuffles do
    the conversion. rows: the exchanges that stay in rows of 16 lanes; without exchanges, 1 if all lanes stay in
    groups of four. copies: the source has copies in a warp, so that one phase does all exchanges.
    """

    reach: Reach
    bits: int
    strict: bool
    rows: int = 0
    copies: bool = False


@functools.lru_cache(maxsize=16384)
def relation(source: BoundedSide, target: BoundedSide, by_rows: bool = False) -> Relation:
    """The relation of one side to the other; `rows` and `copies` are computed only with `by_rows`."""
    reach = source.reach_to(target)
    if reach == Reach.THREAD:
        moves = source.threads != target.threads
        return Relation(reach, source.choice_bits(target) if moves else 0, False)
    if reach > Reach.WARP:
        return Relation(reach, 0, False)
    here, there = source.hardware, target.hardware
    exchanged = f2.rank((*here.register, *there.register)) - source.held
    rows = _in_rows(source, target, exchanged) if by_rows else 0
    if not source.distinct:
        return Relation(reach, exchanged, False, rows, by_rows)
    if exchanged:
        lanes = f2.rank((*here.lane, *there.lane)) - source.lanes
        return Relation(reach, exchanged, target.distinct and lanes >= exchanged, rows)
    return Relation(reach, 0, f2.rank((*here.register, *there.lane)) < source.held + target.lanes, rows)


def _in_rows(source: BoundedSide, target: BoundedSide, exchanged: int) -> int:
    here, there = source.hardware, target.hardware
    if exchanged:
        row = (*here.register, *here.lane[:_ROW_BITS])
        return f2.rank(row) + exchanged - f2.rank((*row, *there.register))
    # Whether every group of four lanes reads within itself, and all groups in the same way.
    group = (*here.register, *here.lane[:_QUAD_BITS])
    moved = map(operator.xor, source.threads[_QUAD_BITS:], target.threads[_QUAD_BITS:])
    stay = f2.rank((*here.register, *moved)) == source.held
    return stay and f2.rank((*group, *there.lane[:_QUAD_BITS])) == f2.rank(group)


@dataclass(frozen=True, slots=True, eq=False)
class LowerBound:
    """A conversion's reach, and a lower bound of its cost by each planner that may have a plan: "registers",
    "shuffle", "warp-shared", "cta-shared"."""

    reach: Reach
    by_planner: Mapping[str, Cost]

    def expected(self, warps: int) -> float:
        """A lower bound of `Cost.expected` of every plan."""
        return min(cost.expected(warps) for cost in self.by_planner.values())


def least_cost(src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target) -> LowerBound:
    """A lower bound of the cost of a conversion.

    Requires: as for `select`, and that the conversion does not cross CTAs.
    Ensures: least_cost(...).expected(w) <= select(...).cost.expected(w) for every w, if there is a plan.
    """
    return Bounds(element, target, src.total_out_bits).of(BoundedSide.of(src), BoundedSide.of(dst))


@dataclass
class Bounds:
    """Lower bounds of the conversions of tensors of 2^`bits` elements, kept because many conversions share
    one."""

    element: ElementType
    target: Target
    bits: int
    known: dict[tuple[Relation, int, bool, int, int], LowerBound] = field(default_factory=dict)
    joined: dict[BoundedSide, bool] = field(default_factory=dict)

    def of(self, source: BoundedSide, target: BoundedSide) -> LowerBound:
        """`least_cost` from one side to the other."""
        related = relation(source, target, bool(self.target.lane_instructions))
        joined = self.joined.get(target)
        if joined is None:
            pairs = self.target.service(LOAD, WIDEST).pairs
            joined = any(not f2.multiply_vector(target.hardware.lane, pair) for pair in pairs)
            self.joined[target] = joined
        key = related, target.held, joined, len(source.hardware.warp), len(source.hardware.block)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = LowerBound(related.reach, self._by_planner(*key))
        return found

    def _by_planner(
        self, related: Relation, held: int, joined: bool, warp_bits: int, block_bits: int
    ) -> dict[str, Cost]:
        """The lower bound of each planner that may have a plan; `held`: rank of the destination's registers.
        joined: phases of the destination's loads may be (`Service.of`)."""
        reach, bits, strict, _, _ = related
        if reach == Reach.THREAD and not bits:
            return {"registers": Cost()}
        element, target = self.element, self.target
        warps = 1 << warp_bits
        words = (1 << held) * element.memory_bytes / 4
        stored = (element.memory_bytes << self.bits) / (target.lanes << warp_bits + block_bits) / 4
        across = _shared((stored, words), warps, target, True, joined)
        if reach > Reach.WARP:
            return {"cta-shared": across}
        by_planner = {"warp-shared": _shared((stored, words), warps, target, False, joined)}
        by_planner["cta-shared"] = across
        made = max(1.0, words)
        if reach == Reach.THREAD:
            by_planner["shuffle"] = _shuffled(
                0.0, max(1.0, (words * (1 << bits)) - made), warps, element, target
            )
        elif target.lane_instructions:
            if bits or not strict:
                shuffles, alu = _by_lane_instructions(words, related, target)
                by_planner["shuffle"] = _shuffled(shuffles, alu, warps, element, target)
        elif strict and bits:
            shuffles = words * max(bits / 2 - 0.25, 0.5)
            by_planner["shuffle"] = _shuffled(shuffles, 1.0 * bits * words, warps, element, target)
        elif not strict:
            share = 1 - 1 / (1 << bits) if bits else 1.0
            by_planner["shuffle"] = _shuffled(words * share, 0.0, warps, element, target)
        return by_planner


def _by_lane_instructions(words: float, related: Relation, target: Target) -> tuple[float, float]:
    """Lower bounds (shuffles, vector instructions) on a GPU with lane instructions."""
    _, bits, strict, rows, copies = related
    swaps = any(native.operation == SWAP for native in native_exchanges(target.lane_instructions).values())
    others = bits - rows
    if strict:
        # Between rows, a swap is one instruction for two words. Without swaps half of the words are shuffled,
        # each with a select, and the last two exchanges in one phase take a quarter less together.
        if swaps:
            return 0.0, words * (_LEAST_IN_ROWS * rows + 0.5 * others)
        return words * max(0.0, others / 2 - 0.25), words * (_LEAST_IN_ROWS * rows + 1.0 * others)
    if not bits:
        return (0.0, words) if rows else (words, 0.0)
    inside = words * ((1 << rows) - 1) / (1 << bits)
    outside = words * ((1 << bits) - (1 << rows)) / (1 << bits)
    if not swaps:
        return outside, inside
    # One swap for two words, or for a word and a copy of it; `ds_swizzle` may be lighter than the latter.
    return 0.0, max(1.0, inside + outside * (2.0 if copies else 0.5))


@functools.lru_cache(maxsize=1024)
def _shuffled(shuffles: float, selects: float, warps: int, element: ElementType, target: Target) -> Cost:
    """The bound for shuffles and selects."""
    if shuffles:
        shuffles = max(element.memory_bytes / 4, 1.0, shuffles)
    return Work(shuffles, selects, waits=1).cost(target.costs, warps)


@functools.lru_cache(maxsize=1024)
def _shared(sides: tuple[float, float], warps: int, target: Target, meets: bool, joined: bool) -> Cost:
    """The bound of an exchange through shared memory; `sides`: words that a thread stores, and that it loads.
    meets: warps meet at a barrier."""
    stored, loaded = sides
    wavefronts = sum(
        max(1.0, side * 4 * target.lanes / target.most_bytes(kind))
        for kind, side in ((STORE, stored), (LOAD, loaded / 2 if joined else loaded))
    )
    accesses = sum(max(1.0, side * 4 / WIDEST) for side in sides)
    barriers = int(meets)
    work = Work(
        wavefronts=wavefronts, rounds=1, accesses=accesses, warp_barriers=1 - barriers, barriers=barriers
    )
    return work.cost(target.costs, warps)
