"""One exchange through shared memory: the stores and loads of a placement, as a plan.

The exchanged space is the span of the source registers and lanes, and in a CTA of its warps.
`placement` decides the vectors, the rounds and the swizzle.

Threads that hold copies of each other's registers would store the same bytes twice. They split the stores
instead: each zero column of the source's lanes or warps takes the place of a register column, and that thread
bit then selects the register that the thread stores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.packing import loaded_words, stored_words
from triton_linear.lowering.plan.plans import Access, MemorySide, SharedPlan, Work
from triton_linear.lowering.planners.placement import (
    Exchange,
    ExchangeLimits,
    Placement,
    place,
    place_against,
    shared_registers,
)
from triton_linear.lowering.planners.swizzle import Columns
from triton_linear.lowering.planners.transposing import WORD, Fragment, matrix_fragment, moves_words
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target


def work_of_exchange(plan: SharedPlan, target: Target) -> Work:
    """The instructions of one warp."""
    parts = 2 if plan.element_bytes == 8 else 1
    return _work(plan, (len(stored_words(plan).steps) + len(loaded_words(plan).steps)) * parts, target)


def cheapest(
    plans: Iterable[SharedPlan], target: Target, below: float = math.inf
) -> tuple[SharedPlan, Work] | None:
    """The plan of the fewest clocks, and its work; None if none takes less than `below` clocks.

    Of equal plans, one whose matrix accesses move words wins; then the first. Packing words is the slowest part
    of planning. So plans are tried in the order of their cost without packing, and the search ends at the first
    whose cost without packing is too high.
    """
    bare = [(_work(plan, 0, target).clocks(target.costs), number, plan) for number, plan in enumerate(plans)]
    best = None
    least: tuple[float, bool, int] = below, False, -1
    for clocks, number, plan in sorted(bare, key=lambda entry: entry[:2]):
        if clocks > least[0]:
            break
        work = work_of_exchange(plan, target)
        taken = work.clocks(target.costs)
        words = any(moves_words(side.matrix) for side in (plan.load, plan.store))
        if (order := (taken, not words, number)) < least:
            best, least = (plan, work), order
    return best


def _work(plan: SharedPlan, alu: int, target: Target) -> Work:
    """The work of a plan that makes the words of its accesses with `alu` instructions."""
    wavefronts = sum(
        len(accesses) * side.wavefronts(kind, plan.element_bytes, target)
        for kind, side in ((STORE, plan.store), (LOAD, plan.load))
        for accesses in side.rounds
    )
    shuffles = waits = 0
    for stage in (plan.before, plan.after):
        if stage is not None:
            waits += stage.phases
            moving, passes = stage.moving(target)
            shuffles += passes
            alu += stage.picks + moving
    inside = plan.barriers if plan.scope == "warp" else 0
    first = int(target.waits_before_stores and plan.stores_apart)
    return Work(
        shuffles,
        alu,
        wavefronts,
        waits,
        len(plan.load.rounds),
        plan.accesses,
        inside + first,
        plan.barriers - inside,
    )


def exchange_plans(
    scope: str, exchange: Exchange, element: ElementType, target: Target, scratch_limit: int
) -> Iterator[SharedPlan]:
    """Yield plans without shuffles before or after the exchange; at least one.

    `scope` is "warp" (every warp has its own slice of the scratch) or "cta".
    """
    limits = ExchangeLimits(element.memory_bytes, target, scratch_limit)
    sharing, split, taken = split_copies(scope, exchange, limits)
    build = _Builder(scope, exchange, sharing, split, taken, limits)
    plan = build.plan(place(sharing, limits), None, None)
    shared = shared_registers(sharing)
    yield plan
    if not (target.load_matrix or target.store_matrix):
        return
    size = element.memory_bytes
    narrow = min(plan.store.access_bytes, plan.load.access_bytes) < WORD
    steps = stored_words(plan).steps or loaded_words(plan).steps
    # One side accesses elements of less than a word one by one, or permutes them: instructions that transpose
    # avoid both.
    transposes = size < WORD and (narrow or bool(steps))
    # The others load up to four words at once, in as many wavefronts as loads of a word.
    few = size < target.policy.matrix_bytes and (WORD <= plan.load.access_bytes <= target.policy.matrix_bytes)
    names = [name for name in target.load_matrix if (few if moves_words(name) else transposes)]
    loads = _fragments(names, sharing.load_register, sharing.load_lane, shared, limits.element_bytes)
    fewer = size < target.policy.matrix_bytes and plan.store.access_bytes >= WORD
    names = [name for name in target.store_matrix if (fewer if moves_words(name) else transposes)]
    stores = _fragments(names, sharing.store_register, sharing.store_lane, shared, limits.element_bytes)
    for load in loads:
        for other in build.by_matrices(None, load):
            if not moves_words(load.name) or other.accesses < plan.accesses:
                yield other
    for store in stores:
        for other in build.by_matrices(store, None):
            if not moves_words(store.name) or other.accesses < plan.accesses:
                yield other
    for store, load in itertools.product(stores, loads):
        if store.vector == load.vector:
            yield from build.by_matrices(store, load)


def _fragments(
    names: Iterable[str], registers: Columns, lanes: Columns, shared: Columns, element_bytes: int
) -> list[Fragment]:
    """The matrix accesses of `names` that fit the registers and lanes of one side."""
    found = [matrix_fragment(name, registers, lanes, shared, element_bytes) for name in names]
    return [fragment for fragment in found if fragment is not None]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes plans of one exchange from placements."""

    scope: str
    exchange: Exchange
    sharing: Exchange
    split: Columns
    taken: Columns
    limits: ExchangeLimits

    def by_matrices(self, store: Fragment | None, load: Fragment | None) -> list[SharedPlan]:
        """The plan whose stores, loads, or both are matrix accesses; an empty list if it has no placement."""
        fragments = [fragment for fragment in (store, load) if fragment is not None]
        exchange = self.sharing
        if store is not None:
            exchange = replace(exchange, store_register=(*store.vector, *store.outer), store_lane=store.lanes)
        if load is not None:
            exchange = replace(exchange, load_register=(*load.vector, *load.outer), load_lane=load.lanes)
        placement = place_against(exchange, fragments[0].vector, load is not None, self.limits)
        if placement is None or _splits_rows(placement, store, load):
            return []
        return [self.plan(placement, store, load)]

    def plan(self, placement: Placement, store: Fragment | None, load: Fragment | None) -> SharedPlan:
        """The plan for a placement; a side with a fragment is made of matrix accesses."""
        size, sharing = self.limits.element_bytes, self.sharing
        tile_bytes = size << placement.address_bits
        warps = len(sharing.store_warp)
        slices = tuple(tile_bytes << bit for bit in range(warps)) if self.scope == "warp" else (0,) * warps
        holders: dict[int, int] = {}
        for register, value in enumerate(f2.sums(self.exchange.store_register)):
            holders.setdefault(value, register)
        stored = Accesses(placement, placement.store_bits, store)
        loaded = Accesses(placement, placement.load_bits, load)
        loads, outputs = loaded.loads(sharing.load_register)
        store_lanes = sharing.store_lane if store is None else store.lanes
        load_lanes = sharing.load_lane if load is None else load.lanes
        return SharedPlan(
            source_registers=1 << len(self.exchange.store_register),
            scope=self.scope,
            element_bytes=size,
            store=stored.side(
                store_lanes,
                sharing.store_warp,
                slices,
                stored.stores(f2.extend((), sharing.store_register), f2.sums(self.taken), holders),
                len(self.split),
            ),
            load=loaded.side(load_lanes, sharing.load_warp, slices, loads, 0),
            split=self.split,
            outputs=outputs,
            scratch_bytes=tile_bytes << (warps if self.scope == "warp" else 0),
        )


Rounds = tuple[tuple[Access, ...], ...]
Groups = dict[int, list[int]]
"""The registers of each access, by its place (`Accesses.places`) without the position."""


def _splits_rows(placement: Placement, store: Fragment | None, load: Fragment | None) -> bool:
    """True if some matrix access has incomplete rows, or does not begin at the start of a row."""
    for fragment, bits in ((store, placement.store_bits), (load, placement.load_bits)):
        if fragment is not None:
            row = len(fragment.vector)
            if bits < row or any(placement.locate(column, 1 << row)[2] for column in fragment.outer):
                return True
    return False


def split_copies(scope: str, exchange: Exchange, limits: ExchangeLimits) -> tuple[Exchange, Columns, Columns]:
    """Let threads that hold copies store different registers.

    Returns the exchange after that, the masks (of one thread bit each) that select among registers, and the
    register columns that these thread bits took over.
    """
    threads = [*exchange.store_lane, *exchange.store_warp]
    sharers = len(exchange.store_lane) if scope == "warp" else len(threads)
    idle = [bit for bit, column in enumerate(threads[:sharers]) if not column]
    own = f2.extend(threads, exchange.store_register)
    loaded = f2.Echelon(exchange.load_register)
    # Registers of both sides make vectors, so the others are given to threads first.
    ranked = sorted(own, key=lambda column: column in loaded)
    spare = ranked[: max(0, len(ranked) - limits.widest)]
    count = min(len(idle), len(spare))
    taken = tuple(spare[:count])
    for bit, column in zip(idle, taken, strict=False):
        threads[bit] = column
    kept = f2.extend(taken, exchange.store_register)
    lanes = len(exchange.store_lane)
    sharing = replace(
        exchange,
        store_register=tuple(c for c in kept if c not in taken) if count else exchange.store_register,
        store_lane=tuple(threads[:lanes]),
        store_warp=tuple(threads[lanes:]),
    )
    return sharing, tuple(1 << bit for bit in idle[:count]), taken


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of one side of a placement: vectors of a thread, or matrix accesses of a warp."""

    placement: Placement
    bits: int
    fragment: Fragment | None

    @property
    def slots(self) -> int:
        """Elements of a thread in one access."""
        return 1 << (self.bits if self.fragment is None else len(self.fragment.inner))

    def places(self, columns: Columns) -> list[int]:
        """The place of every sum of register columns, in order: from the highest bits of one integer down its
        round, the byte address of its access (32 bits), the position in it (8 bits). All three are linear in
        the column, so one xor sums them."""
        found = map(self._locator(), columns)
        return f2.sums([round_ << 40 | offset << 8 | position for round_, offset, position in found])

    def _locator(self) -> Callable[[int], tuple[int, int, int]]:
        placement, slots = self.placement, self.slots
        if self.fragment is None:
            return lambda column: placement.locate(column, slots)
        inner, outer = self.fragment.inner, self.fragment.outer
        span = f2.Echelon((*inner, *outer))

        def locate(column: int) -> tuple[int, int, int]:
            found = span.solve(column)
            if found is None:
                raise ValueError(f"register column {column} is outside the matrix accesses")
            start = f2.multiply_vector(outer, found >> len(inner))
            round_, offset, _ = placement.locate(start, 1)
            return round_, offset, found & (slots - 1)

        return locate

    def stores(self, columns: Columns, alternatives: list[int], holders: Mapping[int, int]) -> Rounds:
        """The store accesses of each round, with the registers of every alternative, one after another."""
        slots = self.slots
        groups: Groups = {}
        for value, at in zip(f2.sums(columns), self.places(columns), strict=True):
            registers = groups.get(at >> 8)
            if registers is None:
                registers = groups[at >> 8] = [0] * (slots * len(alternatives))
            for number, other in enumerate(alternatives):
                registers[number * slots + (at & 0xFF)] = holders[value ^ other]
        return self._ordered(groups)

    def loads(self, columns: Columns) -> tuple[Rounds, tuple[tuple[int, int, int], ...]]:
        """The load accesses of each round, and (round, access, position) of each destination register."""
        groups: Groups = {}
        places = self.places(columns)
        for register, at in enumerate(places):
            registers = groups.get(at >> 8)
            if registers is None:
                registers = groups[at >> 8] = [-1] * self.slots
            if registers[at & 0xFF] < 0:
                registers[at & 0xFF] = register
        numbers: dict[int, int] = {}
        counts = [0] * self.placement.round_count
        for access in sorted(groups):
            numbers[access] = counts[access >> 32]
            counts[access >> 32] += 1
        return self._ordered(groups), tuple([(at >> 40, numbers[at >> 8], at & 0xFF) for at in places])

    def _ordered(self, groups: Groups) -> Rounds:
        rounds: list[list[Access]] = [[] for _ in range(self.placement.round_count)]
        for access, registers in sorted(groups.items()):
            rounds[access >> 32].append(Access(access & 0xFFFFFFFF, tuple(registers)))
        return tuple(map(tuple, rounds))

    def side(self, lanes: Columns, warps: Columns, slices: Columns, rounds: Rounds, choices: int) -> MemorySide:
        """The plan's description of this side; `slices` has the byte offset of the slice of each warp bit."""
        vector = 1 << self.bits
        lane_columns = tuple(self.placement.locate(column, vector)[1] for column in lanes)
        warp_columns = tuple(
            self.placement.locate(column, vector)[1] ^ own for column, own in zip(warps, slices, strict=True)
        )
        return MemorySide(
            access_bytes=self.placement.element_bytes * vector,
            columns=(*lane_columns, *warp_columns),
            rounds=rounds,
            slots=self.slots,
            matrix="" if self.fragment is None else self.fragment.name,
            choices=choices,
        )
