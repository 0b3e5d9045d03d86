"""Gathers inside a warp: `result[..., x, ...] = src[..., index[..., x, ...], ...]` along one axis.

The result has the layout of the index, so a thread that holds an index also wants the element it names. Write
i for the index and (r, l, w) for the register, lane and warp that hold it. Let S be the source's layout, D the
index's, and D' the layout D without the coordinate on the axis. The element is where S has (i, D'(r, l, w)):

    S(register, lane, w) = i on the axis + D'(r, l, w) beside it

All of that is linear over F2, so one solution for each bit of i, r, l and w makes the map

    register = P i + Q r + R (l, w)          lane = T i + U r + V (l, w)

which exists if no bit needs another warp (the paper: the axis part of the warp bits is zero). For one register
r of the result, the source registers that any lane may want are a coset of the span of P and R: 2^n registers
for a span of n dimensions. No lane knows what other lanes want, so all 2^n registers are shuffled, each from
the lane that the receiver's own index names. The receiver chooses among them by n bits, the choice, which is
linear in its index and its thread number too. So a gather takes 2^n shuffles for each result, however many
lanes lie along the axis. If the lane map is the identity on lanes (T and U are zero), nothing is shuffled and
the choice alone is left.

Elements below 32 bits that are choices for the same result travel packed into words. A byte permute extracts
the element, with the choice as its selector.

An index out of range is undefined behaviour. Only the low bits of an index are read, as many as the axis has,
so it cannot name a lane or register that does not exist.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import Columns, GatheredWord, GatherPlan
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.plan.work import Work
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.targets import Target

PLANNER = "gather"


@functools.lru_cache(maxsize=1024)
def plan_gather(
    src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target
) -> GatherPlan | Rejected:
    """The cheapest gather inside a warp along dimension `axis`, or the reason why there is none.

    Requires: both layouts map register, lane, warp (and block) onto tensors whose sizes are powers of two and
    equal except along the axis.
    Ensures: no shared memory; equal arguments give equal plans.

    Raises ValueError for tensors that do not agree.
    """
    if reason := misfit(src, index, axis, target):
        return Rejected(PLANNER, reason)
    rejected: Rejected | None = None
    best: GatherPlan | None = None
    # If a warp holds an element in several places, registers or lanes are preferred.
    for preference in itertools.product((True, False), repeat=2):
        found = _Planner.of(src, index, axis, *preference).plan(element)
        if isinstance(found, Rejected):
            rejected = rejected or found
            continue
        for plan in (found, replace(found, packed=0)):
            if best is None or _clocks(plan, element, target) < _clocks(best, element, target):
                best = plan
    if best is None:
        assert rejected is not None  # either is set by each iteration
        return rejected
    return best


def work_of_gather(plan: GatherPlan, element: ElementType, target: Target) -> Work:
    """The instructions of one warp.

    Shuffles are counted exactly. `alu` counts selects, permutes, packing and the computation of lane and
    choice, after the compiler: it merges an `and` with the `xor` or the comparison behind it.
    """
    parts = 2 if element.bits == 64 else 1
    groups = {group for wanted in plan.wanted for group in plan.groups(wanted)}
    packing = len(groups) * max((1 << plan.packed) - 1, int(element.per_word > 1))
    alu = len(plan.wanted) * placing_instructions(plan, target) + packing + plan.selects * parts + plan.permutes
    return Work(plan.shuffles * parts, alu, waits=1)


def placing_instructions(plan: GatherPlan, target: Target) -> int:
    """Instructions that compute the lane and the choice of one result."""
    count = 0
    if plan.moves and (kept := segments_of(plan, target)) is not None:
        distance = lane_shift(plan.lane_by_index, kept, target.lanes)
        count += operations_of(plan.lane_by_index) if distance is None else int(distance != 0)
    elif plan.moves:
        count += max(1, operations_of(plan.lane_by_index)) + (target.vendor == "amd")
    if plan.choices:
        # ptxas extracts two and more bits from a word before it tests them.
        tests = plan.select_bits + (plan.select_bits > 1)
        # If each choice bit is one bit of the index, ptxas tests the index itself.
        single = all(c & (c - 1) == 0 for c in plan.choice_by_index) and not any(plan.choice_by_thread)
        found = 0 if single and not plan.packed else max(1, operations_of(plan.choice_by_index))
        count += found + tests + bool(plan.packed)
    return count


def segments_of(plan: GatherPlan, target: Target) -> int | None:
    """The lane bits that shuffles of this target take from the reading lane's own number; None without
    support."""
    return plan.kept_lanes if target.shuffles_in_segments else None


def lane_shift(columns: Columns, kept: int, lanes: int) -> int | None:
    """The left shift that makes an index the lane number, in the lane bits below `lanes` that are not `kept`;
    None if no shift does. `columns` is the lane map of the index.

    >>> lane_shift((0, 1, 2), 0b11100, 32), lane_shift((1, 2, 0), 0b11100, 32), lane_shift((2, 1), 0b11100, 32)
    (-1, 0, None)
    """
    distances = shift_distances(columns)
    if len(distances) != 1:
        return None
    (distance,) = distances
    places = [bit + distance for bit, column in enumerate(columns) if not column]
    seen = any(place >= 0 and 1 << place & ~kept & (lanes - 1) for place in places)
    return None if seen else distance


def shift_distances(columns: Columns) -> set[int]:
    """The distances by which a linear map shifts bits to the left."""
    return {
        place - bit
        for bit, column in enumerate(columns)
        for place in range(column.bit_length())
        if column >> place & 1
    }


def _clocks(plan: GatherPlan, element: ElementType, target: Target) -> float:
    return work_of_gather(plan, element, target).clocks(target.costs)


def operations_of(columns: Columns) -> int:
    """Instructions of a linear map of the index: for each distance, one that masks and adds the bits, and a
    shift unless the distance is 0."""
    distances = shift_distances(columns)
    return sum(2 if distance else 1 for distance in distances)


def misfit(src: LinearLayout, index: LinearLayout, axis: int, target: Target) -> str | None:
    """The reason why no planner of this target takes the layouts, or None."""
    sizes = [[size for _, size in layout.out_dims] for layout in (src, index)]
    if len(sizes[0]) != len(sizes[1]) or not 0 <= axis < len(sizes[0]):
        raise ValueError(f"plan_gather: no axis {axis} of source {sizes[0]} and index {sizes[1]}")
    if any(a != b for dim, (a, b) in enumerate(zip(*sizes, strict=True)) if dim != axis):
        raise ValueError(f"plan_gather: source {sizes[0]} and index {sizes[1]} differ beside axis {axis}")
    for side, layout in (("source", src), ("index", index)):
        lanes = layout.in_dim_size(LANE) if layout.has_in_dim(LANE) else 1
        if lanes != target.lanes:
            return f"the {side} layout has {lanes} lanes, {target.name} has {target.lanes}"
    for dim in (WARP, BLOCK):
        counts = [layout.in_dim_size(dim) if layout.has_in_dim(dim) else 1 for layout in (src, index)]
        if counts[0] != counts[1]:
            return f"the source layout has {counts[0]} in '{dim}', the index {counts[1]}"
    return None


def columns_beside_axis(layout: LinearLayout, axis: int, sizes: Iterable[int]) -> Hardware:
    """The columns of a layout in a tensor of `sizes`, with their coordinate on the axis set to zero."""
    places = list(itertools.accumulate((size.bit_length() - 1 for size in sizes), initial=0))
    columns: dict[str, Columns] = dict.fromkeys((REGISTER, LANE, WARP, BLOCK), ())
    for name, vectors in layout.bases:
        columns[name] = tuple(
            sum(part << places[dim] for dim, part in enumerate(vector) if dim != axis) for vector in vectors
        )
    return Hardware(columns[REGISTER], columns[LANE], columns[WARP], columns[BLOCK])


@dataclass(frozen=True, slots=True)
class _Solver:
    """Finds the register and lane of a warp at which a source layout holds an element."""

    span: f2.Echelon
    first: int
    lanes_first: bool

    @staticmethod
    def of(held: Hardware, lanes_first: bool) -> _Solver:
        pair = (held.lane, held.register) if lanes_first else (held.register, held.lane)
        return _Solver(f2.Echelon((*pair[0], *pair[1])), len(pair[0]), lanes_first)

    def place(self, wanted: int) -> tuple[int, int] | None:
        """(register, lane), or None if the warp does not hold the element."""
        found = self.span.solve(wanted)
        if found is None:
            return None
        first, second = found & ((1 << self.first) - 1), found >> self.first
        return (second, first) if self.lanes_first else (first, second)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Both layouts by their columns in the source's tensor, the columns of the index's registers, and the
    solvers for the maps of the index and of the thread."""

    held: Hardware
    beside: Hardware
    axis_columns: Columns
    elements: Columns
    by_index: _Solver
    by_thread: _Solver

    @staticmethod
    def of(
        src: LinearLayout, index: LinearLayout, axis: int, index_in_lanes: bool, thread_in_lanes: bool
    ) -> _Planner:
        sizes = [size for _, size in src.out_dims]
        held = Hardware.of(src)
        start = sum(size.bit_length() - 1 for size in sizes[:axis])
        axis_columns = tuple(1 << start + bit for bit in range(sizes[axis].bit_length() - 1))
        by_index, by_thread = (_Solver.of(held, first) for first in (index_in_lanes, thread_in_lanes))
        elements = Hardware.of(index).register
        return _Planner(
            held, columns_beside_axis(index, axis, sizes), axis_columns, elements, by_index, by_thread
        )

    def plan(self, element: ElementType) -> GatherPlan | Rejected:
        """The plan, or a rejection with the bit whose source is not in the warp."""
        by_index: list[tuple[int, int]] = []
        for bit, column in enumerate(self.axis_columns):
            place = self.by_index.place(column)
            if place is None:
                return Rejected(PLANNER, f"index bit {1 << bit} names an element of another warp")
            by_index.append(place)
        by_thread: list[tuple[int, int]] = []
        for name, own, wanted in (
            ("lane", self.held.lane, self.beside.lane),
            ("warp", self.held.warp, self.beside.warp),
        ):
            for bit, (stay, column) in enumerate(zip(own, wanted, strict=True)):
                place = self.by_thread.place(column ^ stay)
                if place is None:
                    return Rejected(PLANNER, f"destination {name}={1 << bit} wants elements of another warp")
                own_bit = 1 << bit if name == "lane" else 0
                by_thread.append((place[0], place[1] ^ own_bit))
        if self.held.block != self.beside.block:
            return Rejected(PLANNER, "elements are wanted from other CTAs")
        by_register: list[tuple[int, int]] = []
        for bit, column in enumerate(self.beside.register):
            place = self.by_thread.place(column)
            if place is None:
                return Rejected(PLANNER, f"destination register={1 << bit} wants elements of another warp")
            by_register.append(place)
        return self._assembled(by_index, by_thread, by_register, element)

    def _assembled(
        self,
        by_index: list[tuple[int, int]],
        by_thread: list[tuple[int, int]],
        by_register: list[tuple[int, int]],
        element: ElementType,
    ) -> GatherPlan | Rejected:
        choices = f2.reduce(register for register, _ in (*by_index, *by_thread))
        if 1 << len(choices) > limits.GATHER_CHOICES:
            return Rejected(PLANNER, f"an index names one of {1 << len(choices)} registers")
        span = f2.Echelon(choices)

        def choice(register: int) -> int:
            found = span.solve(register)
            assert found is not None  # a member of the span that `choices` is a basis of
            return found

        registers = f2.sums(column for column, _ in by_register)
        lanes = f2.sums(lane for _, lane in by_register)
        elements = f2.sums(self.elements)
        first: dict[int, int] = {}
        indices: list[int] = []
        wanted: list[GatheredWord] = []
        outputs: list[int] = []
        for number, (register, lane, held) in enumerate(zip(registers, lanes, elements, strict=True)):
            if held not in first:
                first[held] = len(wanted)
                flip = sum(1 << j for j, c in enumerate(choices) if register >> c.bit_length() - 1 & 1)
                base = register ^ f2.multiply_vector(choices, flip)
                indices.append(number)
                wanted.append(GatheredWord(base, lane, flip))
            outputs.append(first[held])
        own_lane = tuple(1 << bit for bit in range(len(self.held.lane)))
        lane_by_thread = tuple(lane for _, lane in by_thread)
        still = lane_by_thread == own_lane + (0,) * len(self.held.warp)
        moves = not still or any(lane for _, lane in by_index) or any(one.lane_flip for one in wanted)
        plan = GatherPlan(
            source_registers=1 << len(self.held.register),
            axis_bits=len(self.axis_columns),
            lane_by_index=tuple(lane for _, lane in by_index),
            lane_by_thread=lane_by_thread,
            choice_by_index=tuple(choice(register) for register, _ in by_index),
            choice_by_thread=tuple(choice(register) for register, _ in by_thread),
            choices=choices,
            packed=min(len(choices), element.per_word.bit_length() - 1),
            moves=moves,
            indices=tuple(indices),
            wanted=tuple(wanted),
            outputs=tuple(outputs),
        )
        if len(plan.wanted) * plan.words > limits.GATHER_WORDS:
            return Rejected(PLANNER, f"{len(plan.wanted)} results are chosen from {plan.words} words each")
        return plan
