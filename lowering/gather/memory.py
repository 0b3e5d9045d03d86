"""Gathers through shared memory: the source is stored once, and each result is loaded at the place of its
index.

A thread loads an element of its own row, D'(r, l, w) in the words of `shuffles`; the index is the coordinate
along the row. So the bank bits are first given to the rows of the lanes and then to the axis. If no two lanes
of a phase share a row, no load has bank conflicts, whatever the indices are. If a row has as many banks of its
own as it has words, it has none either. Other loads are counted with the mean conflicts of random indices.
Stores are those of conversions: copies are stored once, without bank conflicts.

If every element stays in its warp, so does the exchange: each warp has its own slice of the scratch, and there
is no barrier of the CTA. Register columns that source and result share in the other dimensions can make rounds
over less scratch.

If an index may ask for what another CTA of the cluster holds, each load computes the rank of that CTA from the
index as it does the address (`request`). The barriers are those of conversions across CTAs.

`plan_row_major` is Triton's gather through memory: every register is stored and every result loaded,
row-major.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.dimensions import fields, total_bits
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.gather.request import Request
from triton_linear.lowering.gather.shuffles import columns_beside_axis, misfit, multiplier, operations_of
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import Columns
from triton_linear.lowering.plan.packing import stored_words
from triton_linear.lowering.plan.plans import (
    SECTOR,
    Access,
    Index,
    MemorySide,
    Ranks,
    Rejected,
    SharedPlan,
)
from triton_linear.lowering.plan.work import Work
from triton_linear.lowering.planners import shared_access
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.planners.exchange import Accesses, split_copies
from triton_linear.lowering.planners.placement import Exchange, ExchangeLimits, Placement, shared_registers
from triton_linear.lowering.planners.swizzle import Side, Swizzle, optimal_swizzle
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target

PLANNER = "gather-shared"
_DRAWS = 128
_RANK = 32
"""The bit of a place at which the rank of a CTA begins."""


@functools.lru_cache(maxsize=1024)
def plan_gather_shared(
    src: LinearLayout,
    index: LinearLayout,
    axis: int,
    element: ElementType,
    situation: Situation,
) -> SharedPlan | Rejected:
    """The cheapest gather through shared memory along dimension `axis`, or the reason why there is none.

    `Situation.scratch_limit` bounds the scratch as far as rounds allow.

    Requires: as for `plan_gather`.
    Ensures: no store has bank conflicts, unless addresses that avoid them take longer; equal arguments give
    equal plans.

    Raises ValueError for tensors that do not agree.
    """
    target = situation.gpu
    found = Request.of(src, index, axis, target)
    if isinstance(found, str):
        return Rejected(PLANNER, found)
    warps = len(found.held.warp)
    limit = situation.scratch(1 << warps)
    own = limit >> warps if found.scope == "warp" else limit
    plans = list(_Planner(found, ExchangeLimits(element.memory_bytes, target, own)).plans())
    plain = _row_major_plan(src, index, axis, element, target)
    if plain is not None and plain.scratch_bytes <= limit:
        plans.append(plain)
    if not plans:
        return Rejected(PLANNER, f"it takes more than the {target.max_shared_bytes} bytes of shared memory")
    busy = situation.busy(1 << warps)

    def clocks(plan: SharedPlan) -> float:
        return work_of_indexed_loads(plan, element, target).cost(target.costs, 1 << warps).expected(busy)

    return min(plans, key=clocks)


def work_of_indexed_loads(plan: SharedPlan, element: ElementType, target: Target) -> Work:
    """The instructions of one warp, with the mean wavefronts of loads at random indices.

    `alu` counts packing and addresses, after the compiler.
    """
    assert plan.index is not None
    loads = plan.load.accesses
    each = _conflicts(plan, target) * plan.store.wavefronts(STORE, plan.element_bytes, target)
    stores = plan.store.accesses * each
    fetched = _mean_wavefronts(
        plan.load.columns[: target.lanes.bit_length() - 1], plan.index.columns, plan.element_bytes, target
    )
    parts = 2 if element.bits == 64 else 1
    words = max(1, plan.source_registers // plan.per_word)
    packing = words * (plan.per_word - 1) if plan.store.access_bytes >= 4 else 0
    alu = len(stored_words(plan).steps) * parts + packing + loads * _operations(plan.index.columns, target)
    if plan.ranks is not None:
        alu += loads * operations_of(plan.index.ranks)
    inside = plan.barriers if plan.scope == "warp" else 0
    return Work(
        alu=alu,
        wavefronts=stores + loads * fetched,
        far_sectors=_far_sectors(plan, plan.index, target),
        rounds=len(plan.load.rounds),
        accesses=plan.accesses,
        warp_barriers=inside,
        barriers=plan.barriers - inside,
    )


def plan_row_major(
    src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target
) -> SharedPlan | None:
    """Triton's gather through memory, with single stores; None in a cluster, or if memory is too small."""
    if misfit(src, index, axis, target):
        return None
    held, beside = Hardware.of(src), columns_beside_axis(index, axis, [size for _, size in src.out_dims])
    size = element.memory_bytes
    scratch = size << total_bits(src.out_dims)
    if held.block or beside.block or scratch > target.max_shared_bytes:
        return None
    order = _row_major(src)

    def place(columns: Columns) -> Columns:
        return tuple(size * f2.multiply_vector(order, column) for column in columns)

    start = fields(src.out_dims)[axis][0]
    along = tuple(1 << start + bit for bit in range(src.out_dims[axis][1].bit_length() - 1))
    stored = [Access(offset, (number,)) for number, offset in enumerate(f2.sums(place(held.register)))]
    fetched = f2.sums(place(beside.register))
    return _gather_plan(
        scope="cta",
        store=MemorySide(size, place((*held.lane, *held.warp)), (tuple(stored),), 1),
        split=(),
        source_registers=len(stored),
        threads=place((*beside.lane, *beside.warp)),
        loads=[[(number, offset) for number, offset in enumerate(fetched)]],
        outputs=[(0, number) for number in range(len(fetched))],
        axis=place(along),
        element_bytes=size,
        scratch_bytes=scratch,
    )


def _gather_plan(
    scope: str,
    store: MemorySide,
    split: Columns,
    source_registers: int,
    threads: Columns,
    loads: Sequence[Sequence[tuple[int, int]]],
    outputs: Sequence[tuple[int, int]],
    axis: Columns,
    element_bytes: int,
    scratch_bytes: int,
    ranks: Ranks | None = None,
    axis_ranks: Columns = (),
) -> SharedPlan:
    """The plan of a gather. threads, axis, axis_ranks: what the bits of the thread's number and of the index
    add to addresses, and the latter to ranks. loads: (register, offset) of each, by round. outputs: (round,
    load) of each register."""
    rounds = tuple(tuple(Access(offset, (register,)) for register, offset in round_) for round_ in loads)
    return SharedPlan(
        source_registers=source_registers,
        scope=scope,
        element_bytes=element_bytes,
        store=store,
        load=MemorySide(element_bytes, threads, rounds, 1),
        split=split,
        outputs=tuple((round_, number, 0) for round_, number in outputs),
        scratch_bytes=scratch_bytes,
        ranks=ranks,
        index=Index(axis, axis_ranks or (0,) * len(axis)),
    )


def _row_major_plan(
    src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target
) -> SharedPlan | None:
    """Triton's gather, but with one load for results that are copies."""
    found = plan_row_major(src, index, axis, element, target)
    if found is None:
        return None
    elements = f2.sums(Hardware.of(index).register)
    first: dict[int, int] = {}
    for held in elements:
        first.setdefault(held, len(first))
    kept = [elements.index(held) for held in first]
    (loads,) = found.load.rounds
    load = replace(found.load, rounds=(tuple(loads[number] for number in kept),))
    outputs = tuple((0, first[held], 0) for held in elements)
    return with_merged_stores(replace(found, load=load, outputs=outputs), target)


def with_merged_stores(plan: SharedPlan, target: Target) -> SharedPlan:
    """A plan of single stores after LLVM: overwritten stores are gone, and neighbours are one vector."""
    (accesses,) = plan.store.rounds
    by_offset = {access.offset: access for access in accesses}
    threads = functools.reduce(int.__or__, plan.store.columns, 0)
    width = plan.element_bytes
    while width < target.max_access_bytes and not threads & width and accesses[0].offset ^ width in by_offset:
        width *= 2
    if width == plan.element_bytes:
        return plan
    merged = [
        Access(
            offset, tuple(by_offset[offset | step].registers[0] for step in range(0, width, plan.element_bytes))
        )
        for offset in sorted(by_offset)
        if not offset & width - 1
    ]
    side = replace(plan.store, access_bytes=width, slots=width // plan.element_bytes, rounds=(tuple(merged),))
    return replace(plan, store=side)


def _row_major(layout: LinearLayout) -> Columns:
    """For each bit of a flattened element, which has dimension 0 lowest, its row-major place (last dimension
    lowest)."""
    places: list[int] = []
    above = sum(size.bit_length() - 1 for _, size in layout.out_dims)
    for _, size in layout.out_dims:
        above -= size.bit_length() - 1
        places += [1 << above + bit for bit in range(size.bit_length() - 1)]
    return tuple(places)


class _Planner:
    """Makes plans of one gather."""

    def __init__(self, gathered: Request, limits: ExchangeLimits) -> None:
        self._gathered, self._limits = gathered, limits
        held, beside = gathered.held, gathered.beside
        stays = (0,) * len(held.warp) if gathered.scope == "warp" else held.warp
        # All CTAs have the same memory layout, so ranks have no part in the placement.
        whole = Exchange(
            held.register,
            held.lane,
            stays,
            beside.register,
            (*beside.lane, *gathered.axis),
            beside.warp,
            gathered.block,
        )
        self._sharing, self._split, self._taken = split_copies(gathered.scope, whole, limits)

    def plans(self) -> Iterator[SharedPlan]:
        """Yield plans without store conflicts, for vectors of all widths, of registers in three orders."""
        sharing, limits = self._sharing, self._limits
        free = shared_registers(sharing)
        rounds = limits.rounds(sharing, free)
        own = f2.extend((*sharing.store_threads, *rounds), sharing.store_register)
        rows, axis = f2.Echelon(self._gathered.beside.lane), f2.Echelon(self._gathered.axis)
        orders = (
            own,
            tuple(sorted(own, key=lambda column: column not in rows)),
            tuple(sorted(own, key=lambda column: column in axis)),
        )
        vectors = {order[:count] for order in orders for count in range(min(limits.widest, len(own)) + 1)}
        for vector in sorted(vectors, key=lambda vector: (len(vector), vector)):
            placement = self._placement(vector, rounds)
            if placement is not None:
                plan = self._plan(placement)
                if (
                    plan.scratch_bytes <= limits.target.max_shared_bytes
                    and _conflicts(plan, limits.target) == 1
                ):
                    yield plan

    def _placement(self, vector: Columns, rounds: Columns) -> Placement | None:
        """The placement for stores of a vector; None if a thread would split one."""
        sharing, limits = self._sharing, self._limits
        size, target = limits.element_bytes, limits.target
        word_bits = max(1, target.bank_bytes // size).bit_length() - 1
        store = target.service(STORE, size << len(vector))
        load = target.service(LOAD, size)
        rows = load.columns(self._gathered.beside.lane)
        store_side = Side(vector, store.columns(sharing.store_lane), self._bank_bits(store.banks))
        bank_bits = self._bank_bits(load.banks)
        inside = vector[:word_bits]
        phase = f2.extend(inside, rows)
        # Storing lanes that differ on the axis need different banks anyway, so these columns come first.
        stored = f2.Echelon(store_side.phase)
        axis = sorted(self._gathered.axis, key=lambda column: column not in stored)
        phase = (*phase, *f2.extend((*inside, *phase), axis))[: max(bank_bits, len(phase))]
        threads = (*sharing.store_threads, *sharing.load_threads)
        rest = f2.extend((*vector, *rounds), (*threads, *sharing.store_register))
        swizzle = optimal_swizzle(rounds, rest, store_side, Side((), phase, bank_bits), word_bits)
        for one in (self._in_axis_order(swizzle), swizzle) if store.banks == load.banks else (swizzle,):
            placement = Placement(one, f2.Echelon(one.basis()), size, len(vector), 0, one.address_bits)
            if not self._is_split(placement):
                return placement
        return None

    def _is_split(self, placement: Placement) -> bool:
        """True if some thread would store part of a vector, or take part in some rounds only."""
        sharing = self._sharing
        for columns, slots in ((sharing.store_threads, 1 << placement.store_bits), (sharing.load_threads, 1)):
            for column in columns:
                round_, _, position = placement.locate(column, slots)
                if round_ or position:
                    return True
        return False

    def _in_axis_order(self, swizzle: Swizzle) -> Swizzle:
        """The same wavefronts, with the columns of the axis in order: an address then takes few
        instructions."""
        axis, rows = self._gathered.axis, self._gathered.beside.lane
        span = f2.Echelon(swizzle.segment)
        segment = f2.extend((), (*(column for column in axis if column in span), *swizzle.segment))
        lanes = f2.extend(axis, (*rows, *self._sharing.store_lane))
        inside = (*swizzle.low, *swizzle.filler)
        bank = f2.extend((*inside, *segment), (*lanes, *axis, *swizzle.bank))
        return replace(swizzle, bank=bank, segment=segment)

    def _bank_bits(self, banks: int) -> int:
        words = max(self._limits.target.bank_bytes, self._limits.element_bytes)
        return (banks * self._limits.target.bank_bytes // words).bit_length() - 1

    def _plan(self, placement: Placement) -> SharedPlan:
        """The plan with the elements at the places of `placement`."""
        gathered, sharing, limits = self._gathered, self._sharing, self._limits
        held, beside = gathered.held, gathered.beside
        size = limits.element_bytes
        tile = size << placement.address_bits
        warps = len(held.warp)
        slices = tuple(tile << bit for bit in range(warps)) if gathered.scope == "warp" else (0,) * warps
        holders: dict[int, int] = {}
        for register, value in enumerate(f2.sums(held.register)):
            holders.setdefault(value, register)
        stored = Accesses(placement, placement.store_bits, None)
        registers = f2.extend((), sharing.store_register)
        stores = stored.stores(registers, f2.sums(self._taken), holders)

        def place(columns: Sequence[int]) -> Columns:
            return tuple(placement.locate(column, 1)[1] for column in columns)

        loads: list[list[tuple[int, int]]] = [[] for _ in range(placement.round_count)]
        known = gathered.ranks
        far = [0] * len(gathered.elements) if known is None else f2.sums(known.register)
        ranks: list[list[int]] = [[] for _ in loads]
        first: dict[int, tuple[int, int]] = {}
        outputs: list[tuple[int, int]] = []
        for register, (element, column, rank) in enumerate(
            zip(gathered.elements, f2.sums(beside.register), far, strict=True)
        ):
            if element not in first:
                round_, offset, _ = placement.locate(column, 1)
                first[element] = round_, len(loads[round_])
                loads[round_].append((register, offset))
                ranks[round_].append(rank)
            outputs.append(first[element])
        return _gather_plan(
            scope=gathered.scope,
            store=stored.side(sharing.store_lane, sharing.store_warp, slices, stores, len(self._split)),
            split=self._split,
            source_registers=1 << len(held.register),
            threads=(
                *place(beside.lane),
                *(column ^ own for column, own in zip(place(beside.warp), slices, strict=True)),
                *place(gathered.block),
            ),
            loads=loads,
            outputs=outputs,
            axis=place(gathered.axis),
            element_bytes=size,
            scratch_bytes=tile << (warps if gathered.scope == "warp" else 0),
            ranks=None if known is None else Ranks(known.thread, tuple(map(tuple, ranks))),
            axis_ranks=() if known is None else known.axis,
        )


def _operations(columns: Columns, target: Target) -> int:
    """Instructions that compute an address from an index: its linear map, and the xor with the row's
    address."""
    if multiplier(columns, target):
        return 3
    return operations_of(columns) + 1


def _conflicts(plan: SharedPlan, target: Target) -> int:
    """Wavefronts of a phase of the stores; 1 without bank conflicts."""
    side = plan.store
    service = target.service(STORE, side.access_bytes)
    together = [f2.multiply_vector(side.columns, lane) for lane in service.lanes]
    return shared_access.conflicts(together, side.access_bytes, service.banks, target.bank_bytes)


@functools.lru_cache(maxsize=4096)
def _mean_wavefronts(lanes: Columns, by_index: Columns, element_bytes: int, target: Target) -> float:
    """Mean wavefronts of a warp's load at random indices, from a fixed sample."""
    rng = random.Random(0)
    own, moved = f2.sums(lanes), f2.sums(by_index)
    service = target.service(LOAD, element_bytes)
    taken = 0
    for _ in range(_DRAWS):
        drawn = rng.choices(moved, k=len(own))
        addresses = [start ^ step for start, step in zip(own, drawn, strict=True)]
        taken += shared_access.wavefronts(addresses, element_bytes, service, target)
    return taken / _DRAWS


def _far_sectors(plan: SharedPlan, index: Index, target: Target) -> float:
    """Mean sectors of other CTAs' memory that the loads of a warp touch, at random indices."""
    if plan.ranks is None:
        return 0.0
    ranks = plan.ranks.columns
    addresses = (*plan.load.columns, *((0,) * (len(ranks) - len(plan.load.columns))))
    # What an index may add to the rank is as likely with any other rank of the same coset.
    spread = f2.sums(f2.reduce(index.ranks))
    loads = Counter(min(rank ^ step for step in spread) for round_ in plan.ranks.loads for rank in round_)
    by_thread = tuple(rank << _RANK | address for rank, address in zip(ranks, addresses, strict=True))
    by_index = zip(index.ranks, index.columns, strict=True)
    moved = tuple(rank << _RANK | address for rank, address in by_index)
    own_bits, lanes = len(plan.store.columns), target.lanes.bit_length() - 1
    return sum(
        count * _mean_far_sectors(by_thread, moved, rank, own_bits, lanes) for rank, count in loads.items()
    )


@functools.lru_cache(maxsize=4096)
def _mean_far_sectors(by_thread: Columns, by_index: Columns, rank: int, own_bits: int, lane_bits: int) -> float:
    """Mean sectors of other CTAs' memory that a load of a warp touches, from a fixed sample. Places have the
    rank of a CTA above the address; `rank` is the load's own summand."""
    rng = random.Random(0)
    lanes, moved = f2.sums(by_thread[:lane_bits]), f2.sums(by_index)
    touched = 0
    for _ in range(_DRAWS):
        thread = rng.randrange(1 << len(by_thread)) >> lane_bits << lane_bits
        own = thread >> own_bits
        start = f2.multiply_vector(by_thread, thread) ^ rank << _RANK
        places = {
            start ^ lane ^ step for lane, step in zip(lanes, rng.choices(moved, k=len(lanes)), strict=True)
        }
        touched += len({place // SECTOR for place in places if place >> _RANK != own})
    return touched / _DRAWS
