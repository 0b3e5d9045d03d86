"""Gathers inside a warp: `result[..., x, ...] = src[..., index[..., x, ...], ...]` along one axis.

The result has the layout of the index, so a thread that holds an index also wants the element it names. Write
i for the index and (r, l, w) for the register, lane and warp that hold it. With S the source's layout, D the
index's, and D' that without its coordinate on the axis, the element is wherever S has (i, D'(r, l, w)):

    S(register, lane, w) = i on the axis + D'(r, l, w) beside it

All of that is linear over F2, so one solution for each bit of i, r, l and w makes the map

    register = P i + Q r + R (l, w)          lane = T i + U r + V (l, w)

which exists when no bit needs another warp (the paper: the axis part of the warp bits is zero). For one
register r of the result, the source registers that any lane may want are a coset of the span of P and R:
2^n registers for a span of n dimensions. Nobody knows what others want, so all of them are shuffled, each from
the lane that the receiver's own index names, and the receiver chooses among them by n bits, the choice: linear
in its index and its thread number too. So shuffles are as many as results times 2^n, whatever the lanes on the
axis. Where V alone is left of the lane map, and is the own lane, nothing is shuffled and the choice is all.

Elements below 32 bits travel together where they are choices for the same result, in a word of as many as fit,
and come out of it by a byte permute whose selector is the choice.

An index out of range is undefined behaviour; only as many bits of it are read as the axis has, so no lane and
no register that is not there is named.
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
from triton_linear.lowering.plan.gathers import Columns, GatherPlan, Wanted
from triton_linear.lowering.plan.plans import Cost, Rejected
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.target.policy import Policy
from triton_linear.lowering.target.targets import Target

PLANNER = "gather"


@functools.lru_cache(maxsize=1024)
def plan_gather(
    src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target
) -> GatherPlan | Rejected:
    """The cheapest gather inside a warp along dimension `axis`, or why there is none.

    Requires: both layouts map register, lane, warp (and block) onto tensors that agree but for the size of the
    axis, of sizes that are powers of two.
    Ensures: no shared memory; equal arguments give equal plans.

    Raises ValueError for tensors that do not agree.
    """
    if reason := misfit(src, index, axis, target):
        return Rejected(PLANNER, reason)
    rejected: Rejected | None = None
    best: GatherPlan | None = None
    # Elements that a warp holds in several places are looked for in registers or in lanes first.
    for preference in itertools.product((True, False), repeat=2):
        found = _Planner.of(src, index, axis, *preference).plan(element, target.policy)
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


def cost_of_gather(plan: GatherPlan, element: ElementType, target: Target, warps: int = 4) -> Cost:
    """Count what one warp executes; clocks and waiting by the target's table.

    Shuffles are counted exactly. `alu` counts selects, permutes, packing and what places them, as compilers
    leave that: an `and` goes with the `xor` or the comparison behind it.
    """
    parts = 2 if element.bits == 64 else 1
    groups = {group for wanted in plan.wanted for group in plan.groups(wanted)}
    packing = len(groups) * max((1 << plan.packed) - 1, int(element.per_word > 1))
    alu = len(plan.wanted) * placing(plan, target) + packing + plan.selects * parts + plan.permutes
    return priced(plan.shuffles * parts, alu, target, warps)


def placing(plan: GatherPlan, target: Target) -> int:
    """Instructions that find the lane and the choice of one result."""
    count = 0
    if plan.moves and (kept := segments_of(plan, target)) is not None:
        distance = unmasked(plan.lane_by_index, kept, target.lanes)
        count += operations_of(plan.lane_by_index) if distance is None else int(distance != 0)
    elif plan.moves:
        count += max(1, operations_of(plan.lane_by_index)) + (target.vendor == "amd")
    if plan.choices:
        # ptxas takes two bits and more out of a word before it tests them.
        tests = plan.select_bits + (plan.select_bits > 1)
        # A bit of the index that is a bit of the choice, and no other, is tested where it is.
        single = all(c & (c - 1) == 0 for c in plan.choice_by_index) and not any(plan.choice_by_thread)
        found = 0 if single and not plan.packed else max(1, operations_of(plan.choice_by_index))
        count += found + tests + bool(plan.packed)
    return count


def segments_of(plan: GatherPlan, target: Target) -> int | None:
    """The bits of the own lane that shuffles of this target keep by themselves; None where they do not."""
    return plan.kept_lanes if target.shuffles_in_segments else None


def unmasked(columns: Columns, kept: int, lanes: int) -> int | None:
    """By how much an index is shifted up so that its bits are those of the lane where bits that are `kept` and
    those beyond `lanes` are not looked at; None where no shift does.

    >>> unmasked((0, 1, 2), 0b11100, 32), unmasked((1, 2, 0), 0b11100, 32), unmasked((2, 1), 0b11100, 32)
    (-1, 0, None)
    """
    distances = distances_of(columns)
    if len(distances) != 1:
        return None
    (distance,) = distances
    places = [bit + distance for bit, column in enumerate(columns) if not column]
    seen = any(place >= 0 and 1 << place & ~kept & (lanes - 1) for place in places)
    return None if seen else distance


def multiplier(columns: Columns, target: Target) -> int:
    """What an index is multiplied by so that each of its bits is where its column has it, and others beside it;
    0 where a product does not do, or shifts are as good.

    >>> from triton_linear.lowering.target.targets import target
    >>> multiplier((128, 256, 64), target("cuda:90")), multiplier((64, 128, 256), target("cuda:90"))
    (144, 0)
    """
    distances = sorted(distances_of(columns))
    if target.vendor != "nvidia" or len(distances) < 2 or distances[0] < 0:
        return 0  # elsewhere products of 32 bits take four times as long as shifts
    apart = all(high - low >= len(columns) for low, high in itertools.pairwise(distances))
    return sum(1 << distance for distance in distances) if apart else 0


def distances_of(columns: Columns) -> set[int]:
    """By how much bits are moved."""
    return {
        place - bit
        for bit, column in enumerate(columns)
        for place in range(column.bit_length())
        if column >> place & 1
    }


def priced(shuffles: int, alu: int, target: Target, warps: int) -> Cost:
    """The cost of shuffles and other instructions that wait for one another once, for one warp of so many."""
    table = target.costs
    busy = shuffles * max(table.lone_shuffle, warps * table.shuffle) + alu * table.lone_alu
    wait = table.shuffle_wait if shuffles else table.select_wait
    clocks = table.clocks(shuffles * table.shuffle, alu)
    return Cost(clocks, table.alone * busy + wait, shuffles=shuffles, alu=alu)


def _clocks(plan: GatherPlan, element: ElementType, target: Target) -> float:
    return cost_of_gather(plan, element, target).clocks


def operations_of(columns: Columns) -> int:
    """Instructions of a linear function of the index: for each distance that bits move one that takes them and
    adds them to the others, and a shift."""
    distances = distances_of(columns)
    return sum(2 if distance else 1 for distance in distances)


def misfit(src: LinearLayout, index: LinearLayout, axis: int, target: Target) -> str | None:
    """Why the layouts are no gather inside warps of this target, before any planning."""
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


def beside_of(layout: LinearLayout, axis: int, sizes: Iterable[int]) -> Hardware:
    """The columns of a layout in a tensor of `sizes`, without their coordinate on the axis."""
    places = list(itertools.accumulate((size.bit_length() - 1 for size in sizes), initial=0))
    columns: dict[str, Columns] = dict.fromkeys((REGISTER, LANE, WARP, BLOCK), ())
    for name, vectors in layout.bases:
        columns[name] = tuple(
            sum(part << places[dim] for dim, part in enumerate(vector) if dim != axis) for vector in vectors
        )
    return Hardware(columns[REGISTER], columns[LANE], columns[WARP], columns[BLOCK])


@dataclass(frozen=True, slots=True)
class _Solver:
    """Finds the register and lane of a warp at which a source layout holds the sum of what is asked for."""

    span: f2.Echelon
    first: int
    lanes_first: bool

    @staticmethod
    def of(held: Hardware, lanes_first: bool) -> _Solver:
        pair = (held.lane, held.register) if lanes_first else (held.register, held.lane)
        return _Solver(f2.Echelon((*pair[0], *pair[1])), len(pair[0]), lanes_first)

    def place(self, wanted: int) -> tuple[int, int] | None:
        """(register, lane), or None where the warp does not hold it."""
        found = self.span.solve(wanted)
        if found is None:
            return None
        first, second = found & ((1 << self.first) - 1), found >> self.first
        return (second, first) if self.lanes_first else (first, second)


@dataclass(frozen=True, slots=True)
class _Planner:
    """The two layouts by columns of the source's tensor, what the index's registers hold, and in which order
    places are looked for."""

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
        return _Planner(held, beside_of(index, axis, sizes), axis_columns, elements, by_index, by_thread)

    def plan(self, element: ElementType, policy: Policy) -> GatherPlan | Rejected:
        """The plan, or the bit whose source is not in the warp."""
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
        return self._assembled(by_index, by_thread, by_register, element, policy)

    def _assembled(
        self,
        by_index: list[tuple[int, int]],
        by_thread: list[tuple[int, int]],
        by_register: list[tuple[int, int]],
        element: ElementType,
        policy: Policy,
    ) -> GatherPlan | Rejected:
        choices = f2.reduce(register for register, _ in (*by_index, *by_thread))
        if 1 << len(choices) > policy.gather_choices:
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
        wanted: list[Wanted] = []
        outputs: list[int] = []
        for number, (register, lane, held) in enumerate(zip(registers, lanes, elements, strict=True)):
            if held not in first:
                first[held] = len(wanted)
                flip = sum(1 << j for j, c in enumerate(choices) if register >> c.bit_length() - 1 & 1)
                base = register ^ f2.multiply_vector(choices, flip)
                indices.append(number)
                wanted.append(Wanted(base, lane, flip))
            outputs.append(first[held])
        own_lane = tuple(1 << bit for bit in range(len(self.held.lane)))
        lane_by_thread = tuple(lane for _, lane in by_thread)
        still = lane_by_thread == own_lane + (0,) * len(self.held.warp)
        moves = not still or any(lane for _, lane in by_index) or any(one.lane_flip for one in wanted)
        plan = GatherPlan(
            source_registers=1 << len(self.held.register),
            index_registers=len(outputs),
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
        if len(plan.wanted) * plan.words > policy.gather_words:
            return Rejected(PLANNER, f"{len(plan.wanted)} results are chosen from {plan.words} words each")
        return plan
