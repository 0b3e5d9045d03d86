"""The choice of the vectors, the rounds and the swizzle of an exchange through shared memory.

A register column can index a vector of stores if it is independent of the columns of the storing threads;
likewise for loads. Columns that can do both make the common vector. One side may use a wider vector if no
access then conflicts. Common columns beyond the vector can index rounds over a smaller scratch.
"""

from __future__ import annotations

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.swizzle import Columns, Side, Swizzle, optimal_swizzle
from triton_linear.lowering.target.phases import BANK_BYTES, LOAD, STORE, WIDEST
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True, slots=True)
class Exchange:
    """The columns of an exchange, by side; the warp columns of a store inside warps are zero."""

    store_register: Columns
    store_lane: Columns
    store_warp: Columns
    load_register: Columns
    load_lane: Columns
    load_warp: Columns

    @property
    def store_threads(self) -> Columns:
        """The columns of storing threads."""
        return (*self.store_lane, *self.store_warp)

    @property
    def load_threads(self) -> Columns:
        """The columns of loading threads."""
        return (*self.load_lane, *self.load_warp)

    @property
    def is_second(self) -> bool:
        """True for at most one of an exchange and its reverse, and where both sides hold the same elements:
        stores may hold more, of which no thread loads."""
        if (self.load_lane, self.load_register) >= (self.store_lane, self.store_register):
            return False
        stored, loaded = (*self.store_register, *self.store_threads), (*self.load_register, *self.load_threads)
        return f2.rank(stored) == f2.rank(loaded)

    @property
    def reverse(self) -> Exchange:
        """The exchange with loads in place of stores, and stores in place of loads."""
        stores = self.store_register, self.store_lane, self.store_warp
        return Exchange(self.load_register, self.load_lane, self.load_warp, *stores)


@dataclass(frozen=True, slots=True)
class Placement:
    """A swizzle, and the number of its low bits that are the vector of a store and of a load."""

    swizzle: Swizzle
    span: f2.Echelon
    element_bytes: int
    store_bits: int
    load_bits: int
    address_bits: int

    @property
    def round_count(self) -> int:
        """Rounds over the same scratch."""
        return 1 << len(self.swizzle.rounds)

    def locate(self, column: int, slots: int) -> tuple[int, int, int]:
        """(round, byte address of the access, position in it) of an element, for accesses of `slots`
        elements."""
        found = self.span.solve(column)
        if found is None:
            raise ValueError(f"element {column} is not part of the exchange")
        bits = self.address_bits
        offset = found & ((1 << bits) - slots)
        return found >> bits, offset * self.element_bytes, found & (slots - 1)


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """The bytes of an element, the GPU, and the scratch limit in bytes, which an exchange may exceed only if
    rounds cannot meet it."""

    element_bytes: int
    target: Target
    scratch_limit: int

    @property
    def widest(self) -> int:
        """Address bits within the widest vector, in elements."""
        return (WIDEST // self.element_bytes).bit_length() - 1

    def avoids_loads_of(self, vector_bits: int) -> bool:
        """True if the target avoids loads of 2^`vector_bits` elements."""
        return self.element_bytes << vector_bits in self.target.loads_not_taken

    def excess(self, exchange: Exchange) -> int:
        """Bits of rounds that an exchange needs to fit the scratch."""
        dims = f2.rank((*exchange.store_register, *exchange.store_threads))
        return max(1, (self.element_bytes << dims) // max(1, self.scratch_limit)).bit_length() - 1

    def rounds(self, exchange: Exchange, free: Columns) -> Columns:
        """The last `excess` of the free registers; the first ones are nearest to the vector in memory."""
        return free[max(0, len(free) - self.excess(exchange)) :]


def place(exchange: Exchange, limits: ExchangeLimits) -> Placement:
    """The fastest placement without bank conflicts, in rounds if it does not fit the scratch otherwise.

    An exchange and its reverse have the same memory layout if their vectors are equal, both sides hold the same
    elements, and the GPU serves loads like stores: a loop that goes there and back then needs one set of
    addresses. If one side has wider vectors, each way may take another layout of equal cost, which fits other
    instructions.

    Ensures: no thread of a side splits one of that side's vectors; no access conflicts.
    """
    if exchange.is_second and limits.target.serves_alike:
        there = place(exchange.reverse, limits)
        if there.store_bits == there.load_bits:
            return there
    free = shared_registers(exchange)
    # Columns that rounds need are not used for vectors, except within the word of a bank.
    word = max(1, BANK_BYTES // limits.element_bytes).bit_length() - 1
    wide = min(len(free), max(word, min(limits.widest, len(free) - limits.excess(exchange))))
    rounds = limits.rounds(exchange, free[wide:])
    for store, load in _attempts(exchange, free[:wide], limits):
        placement = _placed(exchange, store, load, rounds, limits)
        if placement is not None:
            return placement
    raise ValueError("vectors of equal width have a placement without conflicts")


def place_against(exchange: Exchange, row: Columns, loads: bool, limits: ExchangeLimits) -> Placement | None:
    """A placement without conflicts in which the vector of one side is `row`, or None.

    With `loads` it is the vector of the loads, else of the stores. The vector of the other side is the longest
    part of the row that its threads hold.
    """
    registers = exchange.store_register if loads else exchange.load_register
    threads = exchange.store_threads if loads else exchange.load_threads
    span = f2.Echelon(registers)
    held = next((bit for bit, column in enumerate(row) if column not in span), len(row))
    held = min(held, len(f2.extend(threads, row[:held])))
    rounds = limits.rounds(
        exchange, tuple(c for c in f2.extend(row, shared_registers(exchange)) if c not in row)
    )
    for bits in range(held, -1, -1):
        if bits and not loads and limits.avoids_loads_of(bits):
            continue
        store, load = (row[:bits], row) if loads else (row, row[:bits])
        placement = _placed(exchange, store, load, rounds, limits)
        if placement is not None:
            return placement
    return None


def _attempts(exchange: Exchange, common: Columns, limits: ExchangeLimits) -> list[tuple[Columns, Columns]]:
    """Pairs (store vector, load vector), fastest first; the pair of the common vector is always among them."""
    widest = limits.widest
    store_extra = _extra(exchange.store_register, exchange.store_threads, exchange.load_lane, common)
    load_extra = _extra(exchange.load_register, exchange.load_threads, exchange.store_lane, common)
    pairs = [(common, common)]
    # One side gains nothing from a vector of two elements of 8 bytes: it takes the same wavefronts, and moves
    # to make pairs of registers neighbours.
    alone = widest - len(common) if limits.element_bytes < 8 else 0
    for count in range(1, alone + 1):
        if count <= len(store_extra):
            pairs.append(((*common, *store_extra[:count]), common))
        if count <= len(load_extra):
            pairs.append((common, (*common, *load_extra[:count])))

    def time(pair: tuple[Columns, Columns]) -> float:
        return sum(
            _side_time(kind, exchange, len(vector), limits)
            for kind, vector in zip((STORE, LOAD), pair, strict=True)
        )

    taken = [pair for pair in pairs if pair[1] == common or not limits.avoids_loads_of(len(pair[1]))]
    return sorted(taken, key=time)


def shared_registers(exchange: Exchange) -> Columns:
    """Register columns of both sides that are independent of the threads of both, in source register order."""
    loaded = f2.Echelon(exchange.load_register)
    common = (
        *(column for column in exchange.store_register if column in loaded),
        *f2.intersection(exchange.store_register, exchange.load_register),
    )
    return f2.extend((*exchange.store_threads, *exchange.load_threads), common)


def _extra(registers: Columns, threads: Columns, other_lanes: Columns, common: Columns) -> Columns:
    """Registers of one side that could widen its vector alone; first those that are lanes of the other side, in
    the order of lanes."""
    order = {column: index for index, column in enumerate(other_lanes)}
    return f2.extend((*common, *threads), sorted(registers, key=lambda c: order.get(c, len(order))))


def _placed(
    exchange: Exchange, store: Columns, load: Columns, rounds: Columns, limits: ExchangeLimits
) -> Placement | None:
    """The placement for these vectors; None if a thread would split one or an access would conflict."""
    element_bytes, target = limits.element_bytes, limits.target
    low = max(store, load, key=len)
    first, second = exchange.store_threads, exchange.load_threads
    if len(load) > len(store):
        first, second = second, first
    rest = f2.extend((*low, *rounds), (*first, *second, *exchange.store_register))
    word_bits = max(1, BANK_BYTES // element_bytes).bit_length() - 1
    swizzle = optimal_swizzle(
        rounds,
        rest,
        _side(STORE, store, exchange, element_bytes, target),
        _side(LOAD, load, exchange, element_bytes, target),
        word_bits,
        (*exchange.store_threads, *exchange.load_threads),
    )
    if swizzle.conflicts > 1:
        return None
    span = f2.Echelon(swizzle.basis())
    placement = Placement(swizzle, span, element_bytes, len(store), len(load), swizzle.address_bits)
    for threads, vector in ((exchange.store_threads, store), (exchange.load_threads, load)):
        for column in threads:
            round_, _, position = placement.locate(column, 1 << len(vector))
            if round_ or position:
                return None
    return placement


def _side(kind: str, vector: Columns, exchange: Exchange, element_bytes: int, target: Target) -> Side:
    lanes = exchange.load_lane if kind == LOAD else exchange.store_lane
    # What loads need here, the loads of the reverse need where this stores.
    service = target.service(LOAD if target.serves_alike else kind, element_bytes << len(vector)).of(lanes)
    banks = service.banks * BANK_BYTES // max(BANK_BYTES, element_bytes)
    return Side(vector, service.columns(lanes), banks.bit_length() - 1)


def _side_time(kind: str, exchange: Exchange, vector_bits: int, limits: ExchangeLimits) -> float:
    """Clocks of one warp's accesses: their wavefronts, and one issue slot for each access."""
    registers = exchange.load_register if kind == LOAD else exchange.store_register
    lanes = exchange.load_lane if kind == LOAD else exchange.store_lane
    accesses = (1 << f2.rank(registers)) >> vector_bits
    service = limits.target.service(kind, limits.element_bytes << vector_bits)
    phases = limits.target.lanes // service.of(lanes).count
    return accesses * (phases * limits.target.costs.wavefront + limits.target.costs.alu)
