"""Conversions through shared memory, by warp or by CTA.

The exchanged space is what the participants of one exchange hold: the span of the source registers and lanes,
and for a CTA of its warps. Registers that both sides share, and that no lane or warp touches, may index the
elements of one vector access (V) or the rounds over a smaller scratch; `swizzle` places the rest.

An exchange inside a warp gives every warp its own slice of the scratch and needs no CTA barrier. There the
destination warp bits add to the loads what the warp's own data lacks, B(w) + A(w).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triton_linear.dialect import f2
from triton_linear.lowering.conversion import Conversion, Reach
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.plan import Access, Cost, Rejected, SharedPlan
from triton_linear.lowering.swizzle import Swizzle, optimal_swizzle
from triton_linear.lowering.targets import Target

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The columns that take part, by side; the warp columns of a warp-scope store are zero."""

    store_register: Columns
    store_lane: Columns
    store_warp: Columns
    load_register: Columns
    load_lane: Columns
    load_warp: Columns


def plan_warp_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange within each warp, through a slice of scratch per warp."""
    if misfit := _misfit(conv, Reach.WARP):
        return Rejected("warp-shared", misfit)
    a, b = conv.src, conv.dst
    exchange = _Exchange(
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
    exchange = _Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
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
    accesses = sum(len(accesses) for side in (plan.stores, plan.loads) for accesses in side)
    wavefronts = accesses * (target.lanes // target.lanes_per_phase(plan.access_bytes))
    barrier = target.costs.warp_barrier if plan.scope == "warp" else target.costs.cta_barrier
    clocks = wavefronts * target.costs.wavefront + plan.barriers * barrier
    return Cost(clocks, wavefronts=wavefronts, barriers=plan.barriers, scratch_bytes=plan.scratch_bytes)


def _plan(
    scope: str, exchange: _Exchange, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan:
    swizzle = _place(exchange, element, target, scratch_limit)
    span = f2.Echelon(swizzle.basis())
    slots = 1 << len(swizzle.vector)
    address_mask = (1 << swizzle.address_bits) - slots
    size = element.memory_bytes

    def locate(column: int) -> tuple[int, int, int]:
        """(round, byte address of the vector, position in the vector)."""
        found = span.solve(column)
        assert found is not None  # the basis spans the exchange
        return found >> swizzle.address_bits, (found & address_mask) * size, found & (slots - 1)

    rounds = 1 << len(swizzle.rounds)
    store_order, _ = _accesses(map(locate, _register_values(exchange.store_register)), rounds, slots)
    load_order, outputs = _accesses(map(locate, _register_values(exchange.load_register)), rounds, slots)
    tile_bytes = size << swizzle.address_bits
    warps = len(exchange.store_warp)
    slices = tuple(tile_bytes << bit for bit in range(warps)) if scope == "warp" else (0,) * warps

    def thread_columns(lane: Columns, warp: Columns) -> Columns:
        lanes = tuple(locate(column)[1] for column in lane)
        return (*lanes, *(locate(column)[1] ^ slot for column, slot in zip(warp, slices, strict=True)))

    return SharedPlan(
        source_registers=1 << len(exchange.store_register),
        scope=scope,
        element_bytes=size,
        access_bytes=size * slots,
        store_columns=thread_columns(exchange.store_lane, exchange.store_warp),
        load_columns=thread_columns(exchange.load_lane, exchange.load_warp),
        stores=store_order,
        loads=load_order,
        outputs=outputs,
        scratch_bytes=tile_bytes << (warps if scope == "warp" else 0),
    )


def _place(exchange: _Exchange, element: ElementType, target: Target, scratch_limit: int) -> Swizzle:
    """Choose V and the rounds among the shared registers, then the swizzle of the rest."""
    size = element.memory_bytes
    threads = (*exchange.store_lane, *exchange.store_warp, *exchange.load_lane, *exchange.load_warp)
    in_load = f2.Echelon(exchange.load_register)
    common = (
        *(column for column in exchange.store_register if column in in_load),
        *f2.intersection(exchange.store_register, exchange.load_register),
    )
    free = f2.extend(threads, common)
    widest = (target.max_access_bytes // size).bit_length() - 1
    vector, free = free[:widest], free[widest:]
    dims = f2.rank((*exchange.store_register, *exchange.store_lane, *exchange.store_warp))
    excess = max(1, (size << dims) // max(1, scratch_limit)).bit_length() - 1
    # The last shared registers index the rounds: the first are nearest in memory to the vector.
    kept = max(0, len(free) - excess)
    rounds = free[kept:]
    rest = f2.extend((*vector, *rounds), (*threads, *exchange.store_register))
    access = size << len(vector)
    phase_bits = target.lanes_per_phase(access).bit_length() - 1
    return optimal_swizzle(
        vector,
        rounds,
        rest,
        store_phase=f2.extend((), exchange.store_lane[:phase_bits]),
        load_phase=f2.extend((), exchange.load_lane[:phase_bits]),
        sub_bits=max(1, target.bank_bytes // access).bit_length() - 1,
        bank_bits=(target.wavefront_bytes // max(access, target.bank_bytes)).bit_length() - 1,
    )


def _register_values(columns: Columns) -> Iterable[int]:
    """The tensor coordinate of every register of thread zero."""
    values = [0]
    for column in columns:
        values += [value ^ column for value in values]
    return values


def _accesses(
    places: Iterable[tuple[int, int, int]], rounds: int, slots: int
) -> tuple[tuple[tuple[Access, ...], ...], tuple[tuple[int, int, int], ...]]:
    """Group registers into vector accesses, by round and offset; a repeated register takes part once.

    Also where each register went: (round, access, position).
    """
    groups: list[dict[int, list[int]]] = [{} for _ in range(rounds)]
    found = []
    for register, (round_, offset, position) in enumerate(places):
        registers = groups[round_].setdefault(offset, [-1] * slots)
        if registers[position] < 0:
            registers[position] = register
        found.append((round_, offset, position))
    order = tuple(
        tuple(Access(offset, tuple(registers)) for offset, registers in sorted(group.items()))
        for group in groups
    )
    index = [{access.offset: i for i, access in enumerate(accesses)} for accesses in order]
    outputs = tuple((round_, index[round_][offset], position) for round_, offset, position in found)
    return order, outputs
