"""Choosing the vectors, the rounds and the swizzle of an exchange through shared memory.

A register bit can index a vector of stores when no other bit of a storing thread touches it, and likewise for
loads. What both sides share this way makes their common vector; a side that could go wider does, as long as no
access conflicts. Shared registers beyond the vector can index rounds over a smaller scratch.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.swizzle import Columns, Side, Swizzle, optimal_swizzle
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True, slots=True)
class Exchange:
    """The columns that take part, by side; the warp columns of a warp-scope store are zero.

    In a cluster loads are from several CTAs, whose memory is laid out alike: there the columns of the loads are
    places within a CTA, `load_block` those of the rank of the thread's own CTA, and `register_ranks` and
    `thread_ranks` what bits of registers and of threads, that rank included, add to the rank of the CTA that
    is loaded from.
    """

    store_register: Columns
    store_lane: Columns
    store_warp: Columns
    load_register: Columns
    load_lane: Columns
    load_warp: Columns
    load_block: Columns = ()
    register_ranks: Columns = ()
    thread_ranks: Columns = ()

    @property
    def store_threads(self) -> Columns:
        """The columns of storing threads."""
        return (*self.store_lane, *self.store_warp)

    @property
    def load_threads(self) -> Columns:
        """The columns of loading threads."""
        return (*self.load_lane, *self.load_warp, *self.load_block)

    @property
    def is_far(self) -> bool:
        """Whether some load is from another CTA."""
        inside = len(self.load_lane) + len(self.load_warp)
        own = (*(0 for _ in range(inside)), *f2.identity(len(self.load_block)))
        return any(self.register_ranks) or self.thread_ranks not in ((), own)

    @property
    def lanes_of_one_rank(self) -> Columns:
        """The columns of loading lanes, those first that load from the same CTA."""
        ranked = zip(self.thread_ranks, self.load_lane, strict=False)
        return tuple(column for _, column in sorted(ranked, key=lambda entry: entry[0] != 0))

    @property
    def load_registers(self) -> Columns:
        """The columns of loaded registers, with the CTA above all bits of elements where there are several."""
        if not any(self.register_ranks):
            return self.load_register
        above = max(column.bit_length() for column in (*self.store_register, *self.store_threads))
        return tuple(
            column | rank << above for column, rank in zip(self.load_register, self.register_ranks, strict=True)
        )

    @property
    def near_registers(self) -> Columns:
        """The columns of loaded registers that do not change the CTA, so that they can be in one vector."""
        if not any(self.register_ranks):
            return self.load_register
        return tuple(c for c, rank in zip(self.load_register, self.register_ranks, strict=True) if not rank)


@dataclass(frozen=True, slots=True)
class Placement:
    """A swizzle, and how many of its low bits a store and a load take at once."""

    swizzle: Swizzle
    span: f2.Echelon
    element_bytes: int
    store_bits: int
    load_bits: int

    @property
    def round_count(self) -> int:
        """Rounds over the same scratch."""
        return 1 << len(self.swizzle.rounds)

    def locate(self, column: int, slots: int) -> tuple[int, int, int]:
        """(round, byte address of the access, position in it) of an element, in accesses of `slots`."""
        found = self.span.solve(column)
        if found is None:
            raise ValueError(f"element {column} is not part of the exchange")
        bits = self.swizzle.address_bits
        offset = found & ((1 << bits) - slots)
        return found >> bits, offset * self.element_bytes, found & (slots - 1)


@dataclass(frozen=True, slots=True)
class Room:
    """What an exchange may use: bytes of an element, the GPU, and the scratch that it should not exceed."""

    element_bytes: int
    target: Target
    scratch_limit: int

    @property
    def widest(self) -> int:
        """Bits of the widest vector, in elements."""
        return (self.target.max_access_bytes // self.element_bytes).bit_length() - 1

    def does_without(self, vector_bits: int) -> bool:
        """Whether loads of so many bits of elements are not taken."""
        return self.element_bytes << vector_bits in self.target.loads_not_taken

    def excess(self, exchange: Exchange) -> int:
        """Bits of rounds that it takes to fit the scratch."""
        dims = f2.rank((*exchange.store_register, *exchange.store_threads))
        return max(1, (self.element_bytes << dims) // max(1, self.scratch_limit)).bit_length() - 1

    def rounds(self, exchange: Exchange, free: Columns) -> Columns:
        """As many of the free registers as it takes to fit the scratch, the last ones: the first are nearest
        in memory to the vector."""
        return free[max(0, len(free) - self.excess(exchange)) :]


def place(exchange: Exchange, room: Room) -> Placement:
    """The fastest placement without bank conflicts, in rounds over the scratch where they make it fit.

    Ensures: no thread of a side splits one of that side's vectors; no access conflicts, those to the memory of
    other CTAs aside.
    """
    for placement in placements(exchange, room):
        return placement
    raise ValueError("vectors of equal width have a placement without conflicts")


def placements(exchange: Exchange, room: Room) -> Iterator[Placement]:
    """All of them, the fastest first, as far as that is known without the clocks of loads from other CTAs."""
    free = shared_registers(exchange)
    # What is needed for rounds is not there for vectors, beyond the words that a bank holds.
    word = max(1, room.target.bank_bytes // room.element_bytes).bit_length() - 1
    wide = min(len(free), max(word, min(room.widest, len(free) - room.excess(exchange))))
    rounds = room.rounds(exchange, free[wide:])
    for store, load in _attempts(exchange, free[:wide], room):
        yield from _placed(exchange, store, load, rounds, room)


def place_against(exchange: Exchange, row: Columns, loads: bool, room: Room) -> Placement | None:
    """A placement without conflicts where one side's vector is `row`, or None.

    That side is the loads' or, if not `loads`, the stores'; the other side's vector is as much of the row as
    its threads hold.
    """
    registers = exchange.store_register if loads else exchange.load_registers
    threads = exchange.store_threads if loads else exchange.load_threads
    span = f2.Echelon(registers)
    held = next((bit for bit, column in enumerate(row) if column not in span), len(row))
    held = min(held, len(f2.extend(threads, row[:held])))
    rounds = room.rounds(exchange, tuple(c for c in f2.extend(row, shared_registers(exchange)) if c not in row))
    for bits in range(held, -1, -1):
        if bits and not loads and room.does_without(bits):
            continue
        store, load = (row[:bits], row) if loads else (row, row[:bits])
        for placement in _placed(exchange, store, load, rounds, room):
            return placement
    return None


def _attempts(exchange: Exchange, common: Columns, room: Room) -> list[tuple[Columns, Columns]]:
    """(store vector, load vector), fastest first; common vectors alone are always among them."""
    widest = room.widest
    store_extra = _extra(exchange.store_register, exchange.store_threads, exchange.load_lane, common)
    load_extra = _extra(exchange.near_registers, exchange.load_threads, exchange.store_lane, common)
    pairs = [(common, common)]
    # A side alone gains nothing from two elements of 8 bytes: as many wavefronts, and moves that make pairs of
    # registers neighbours.
    alone = widest - len(common) if room.element_bytes < 8 else 0
    for count in range(1, alone + 1):
        if count <= len(store_extra):
            pairs.append(((*common, *store_extra[:count]), common))
        if count <= len(load_extra):
            pairs.append((common, (*common, *load_extra[:count])))

    def time(pair: tuple[Columns, Columns]) -> float:
        registers = exchange.store_register, exchange.load_register
        return sum(
            _side_time(kind, columns, len(vector), room)
            for kind, columns, vector in zip((STORE, LOAD), registers, pair, strict=True)
        )

    taken = [pair for pair in pairs if pair[1] == common or not room.does_without(len(pair[1]))]
    return sorted(taken, key=time)


def shared_registers(exchange: Exchange) -> Columns:
    """Register directions of both sides that no thread bit of either touches, in source register order."""
    loaded = f2.Echelon(exchange.load_registers)
    common = (
        *(column for column in exchange.store_register if column in loaded),
        *f2.intersection(exchange.store_register, exchange.load_registers),
    )
    return f2.extend((*exchange.store_threads, *exchange.load_threads), common)


def _extra(registers: Columns, threads: Columns, other_lanes: Columns, common: Columns) -> Columns:
    """Registers of one side that could widen its vector alone, the other side's first lanes before all."""
    order = {column: index for index, column in enumerate(other_lanes)}
    return f2.extend((*common, *threads), sorted(registers, key=lambda c: order.get(c, len(order))))


def _placed(
    exchange: Exchange, store: Columns, load: Columns, rounds: Columns, room: Room
) -> Iterator[Placement]:
    """The placement for these vectors, none when a thread would split one or an access conflict.

    Where loads are from other CTAs, first that in which lanes that load from the same one lie side by side:
    there memory is read by sectors.
    """
    if exchange.is_far:
        side_by_side = _swizzled(exchange, store, load, rounds, room, exchange.lanes_of_one_rank)
        if side_by_side is not None:
            yield side_by_side
    placement = _swizzled(exchange, store, load, rounds, room, ())
    if placement is not None:
        yield placement


def _swizzled(
    exchange: Exchange, store: Columns, load: Columns, rounds: Columns, room: Room, side_by_side: Columns
) -> Placement | None:
    element_bytes, target = room.element_bytes, room.target
    low = max(store, load, key=len)
    first, second = exchange.store_threads, exchange.load_threads
    if len(load) > len(store):
        first, second = second, first
    rest = f2.extend((*low, *rounds), (*first, *second, *exchange.store_register))
    word_bits = max(1, target.bank_bytes // element_bytes).bit_length() - 1
    swizzle = optimal_swizzle(
        rounds,
        rest,
        _side(STORE, store, exchange.store_lane, element_bytes, target),
        _side(LOAD, load, exchange.load_lane, element_bytes, target, side_by_side),
        word_bits,
        (*exchange.store_threads, *exchange.load_threads),
        side_by_side,
    )
    if swizzle.conflicts > 1:
        return None
    span = f2.Echelon(swizzle.basis())
    placement = Placement(swizzle, span, element_bytes, len(store), len(load))
    for threads, vector in ((exchange.store_threads, store), (exchange.load_threads, load)):
        for column in threads:
            round_, _, position = placement.locate(column, 1 << len(vector))
            if round_ or position:
                return None
    return placement


def _side(
    kind: str, vector: Columns, lanes: Columns, element_bytes: int, target: Target, side_by_side: Columns = ()
) -> Side:
    service = target.service(kind, element_bytes << len(vector))
    banks = service.banks * target.bank_bytes // max(target.bank_bytes, element_bytes)
    phase = f2.extend((), side_by_side)[: len(service.lanes)] if side_by_side else service.columns(lanes)
    return Side(vector, phase, banks.bit_length() - 1)


def _side_time(kind: str, registers: Columns, vector_bits: int, room: Room) -> float:
    """Clocks of one warp's accesses: their wavefronts, and an issue slot each."""
    accesses = (1 << f2.rank(registers)) >> vector_bits
    phases = room.target.lanes // room.target.service(kind, room.element_bytes << vector_bits).count
    return accesses * (phases * room.target.costs.wavefront + room.target.costs.alu)
