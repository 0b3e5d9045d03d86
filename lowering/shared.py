"""Conversions through shared memory, by warp or by CTA.

The exchanged space is what the participants of one exchange hold: the span of the source registers and lanes,
and for a CTA of its warps. `placement` decides the vectors, the rounds and the swizzle.

An exchange inside a warp gives every warp its own slice of the scratch and needs no CTA barrier. There the
destination warp bits add to the loads what the warp's own data lacks, B(w) + A(w).

Threads that hold copies of each other's registers would store the same bytes twice. They split the work
instead: for each zero column of the source's lanes or warps, one register bit is taken over by that thread bit,
which then selects what the thread stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from triton_linear.dialect import f2
from triton_linear.lowering.conversion import Conversion, Reach
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.placement import Exchange, Placement, place
from triton_linear.lowering.plan import Access, Cost, MemorySide, Rejected, SharedPlan
from triton_linear.lowering.swizzle import Columns
from triton_linear.lowering.targets import Target


def plan_warp_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange within each warp, through a slice of scratch per warp."""
    if misfit := _misfit(conv, Reach.WARP):
        return Rejected("warp-shared", misfit)
    a, b = conv.src, conv.dst
    exchange = Exchange(
        a.register,
        a.lane,
        (0,) * len(a.warp),
        b.register,
        b.lane,
        tuple(theirs ^ ours for theirs, ours in zip(b.warp, a.warp, strict=True)),
    )
    return _plan("warp", exchange, element, target, scratch_limit >> len(a.warp))


def plan_cta_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange among all warps of a CTA."""
    if misfit := _misfit(conv, Reach.CTA):
        return Rejected("cta-shared", misfit)
    a, b = conv.src, conv.dst
    exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
    return _plan("cta", exchange, element, target, scratch_limit)


def _misfit(conv: Conversion, reach: Reach) -> str | None:
    """Why the conversion has no exchange within `reach`, or None."""
    if conv.reach > reach:
        return conv.witness(reach)
    if conv.src.block:
        return f"scratch is not laid out for clusters, here of {1 << len(conv.src.block)} CTAs"
    return None


def cost_of_shared(plan: SharedPlan, target: Target) -> Cost:
    """Count what one warp executes; clocks by the target's table."""
    wavefronts = 0
    for side in (plan.store, plan.load):
        accesses = sum(map(len, side.rounds))
        phases = target.lanes // target.lanes_per_phase(side.access_bytes)
        wavefronts += accesses * phases
    words = max(1, plan.store.access_bytes // 4)
    alu = sum(map(len, plan.store.rounds)) * words * ((1 << len(plan.split)) - 1)
    barrier = target.costs.warp_barrier if plan.scope == "warp" else target.costs.cta_barrier
    clocks = target.costs.clocks(wavefronts * target.costs.wavefront, alu) + plan.barriers * barrier
    return Cost(
        clocks, alu=alu, wavefronts=wavefronts, barriers=plan.barriers, scratch_bytes=plan.scratch_bytes
    )


def _plan(
    scope: str, exchange: Exchange, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan:
    sharing, split, taken = _split(scope, exchange, element, target)
    placement = place(sharing, element.memory_bytes, target, scratch_limit)
    tile_bytes = element.memory_bytes << placement.swizzle.address_bits
    warps = len(exchange.store_warp)
    slices = tuple(tile_bytes << bit for bit in range(warps)) if scope == "warp" else (0,) * warps

    def side(bits: int, lane: Columns, warp: Columns, order: Rounds) -> MemorySide:
        slots = 1 << bits
        columns = tuple(placement.locate(column, slots)[1] for column in (*lane, *warp))
        own = (0,) * len(lane) + slices
        return MemorySide(
            access_bytes=element.memory_bytes * slots,
            columns=tuple(column ^ slot for column, slot in zip(columns, own, strict=True)),
            rounds=order,
        )

    holders: dict[int, int] = {}
    for register, value in enumerate(_span(exchange.store_register)):
        holders.setdefault(value, register)
    stores = _stores(placement, _span(f2.extend((), sharing.store_register)), _span(taken), holders)
    loads, outputs = _loads(placement, _span(exchange.load_register))
    return SharedPlan(
        source_registers=1 << len(exchange.store_register),
        scope=scope,
        element_bytes=element.memory_bytes,
        store=side(placement.store_bits, sharing.store_lane, sharing.store_warp, stores),
        load=side(placement.load_bits, sharing.load_lane, sharing.load_warp, loads),
        split=split,
        outputs=outputs,
        scratch_bytes=tile_bytes << (warps if scope == "warp" else 0),
    )


Rounds = tuple[tuple[Access, ...], ...]


def _split(
    scope: str, exchange: Exchange, element: ElementType, target: Target
) -> tuple[Exchange, Columns, Columns]:
    """Let duplicate threads store different registers: the exchange after that, as a mask of one thread bit
    each the bits that select, and the register columns that they took over."""
    threads = [*exchange.store_lane, *exchange.store_warp]
    sharers = len(threads) if scope == "cta" else len(exchange.store_lane)
    idle = [bit for bit, column in enumerate(threads[:sharers]) if not column]
    own = f2.extend(threads, exchange.store_register)
    wide = (target.max_access_bytes // element.memory_bytes).bit_length() - 1
    loaded = f2.Echelon(exchange.load_register)
    # Registers that both sides share make vectors: the others are given away first.
    ranked = sorted(own, key=lambda column: column in loaded)
    spare = ranked[: max(0, len(ranked) - wide)]
    count = min(len(idle), len(spare))
    taken = tuple(spare[:count])
    for bit, column in zip(idle, taken, strict=False):
        threads[bit] = column
    kept = f2.extend(taken, exchange.store_register)
    lanes = len(exchange.store_lane)
    sharing = Exchange(
        tuple(column for column in kept if column not in taken) if count else exchange.store_register,
        tuple(threads[:lanes]),
        tuple(threads[lanes:]),
        exchange.load_register,
        exchange.load_lane,
        exchange.load_warp,
    )
    return sharing, tuple(1 << bit for bit in idle[:count]), taken


def _span(columns: Columns) -> list[int]:
    """Every sum of the columns: entry i sums those that the bits of i select."""
    values = [0]
    for column in columns:
        values += [value ^ column for value in values]
    return values


def _stores(
    placement: Placement, values: Iterable[int], alternatives: list[int], holders: Mapping[int, int]
) -> Rounds:
    """The store accesses of each round; an access has the registers of every alternative, one after another."""
    slots = 1 << placement.store_bits
    groups: list[dict[int, list[int]]] = [{} for _ in range(placement.round_count)]
    for value in values:
        round_, offset, position = placement.locate(value, slots)
        registers = groups[round_].setdefault(offset, [0] * (slots * len(alternatives)))
        for number, other in enumerate(alternatives):
            registers[number * slots + position] = holders[value ^ other]
    return tuple(
        tuple(Access(offset, tuple(registers)) for offset, registers in sorted(group.items()))
        for group in groups
    )


def _loads(placement: Placement, values: Iterable[int]) -> tuple[Rounds, tuple[tuple[int, int, int], ...]]:
    """The load accesses of each round, and where each destination register is: (round, access, position)."""
    slots = 1 << placement.load_bits
    groups: list[dict[int, list[int]]] = [{} for _ in range(placement.round_count)]
    found = []
    for register, value in enumerate(values):
        round_, offset, position = placement.locate(value, slots)
        registers = groups[round_].setdefault(offset, [-1] * slots)
        if registers[position] < 0:
            registers[position] = register
        found.append((round_, offset, position))
    order = tuple(
        tuple(Access(offset, tuple(registers)) for offset, registers in sorted(group.items()))
        for group in groups
    )
    index = [{access.offset: i for i, access in enumerate(accesses)} for accesses in order]
    return order, tuple((round_, index[round_][offset], position) for round_, offset, position in found)
