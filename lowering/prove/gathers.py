"""The proof of a gather's plan, for all indices.

Every place is affine in the bits of index and thread. So for every register of the result it is enough to check
the case without set bits and the cases with one set bit.

Through shared memory: if a linear map M of addresses to elements holds for all stores (as in `exchange`), a
fetch loads M of its address, provided that some thread stored there in the same round. In an exchange inside
warps, each warp must access its own part of the scratch only. In a cluster the rank of a CTA stands above the
bits of an address, as in `exchange`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.gathers import AnyGatherPlan, GatherPlan, GatherSharedPlan
from triton_linear.lowering.plan.plans import CLUSTER


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a layout by hardware dimension, as flattened elements; the first dimension of the tensor
    has the lowest bits."""

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    block: tuple[int, ...]

    @classmethod
    def of(cls, layout: LinearLayout, sizes: Sequence[int], without: int | None = None) -> _Columns:
        """The columns of a layout in a tensor of `sizes`, with coordinates in dimension `without` set to
        zero."""
        bases = dict(layout.bases)
        strides = list(itertools.accumulate(sizes[:-1], operator.mul, initial=1))
        if without is not None:
            strides[without] = 0
        found = (
            tuple(sum(map(operator.mul, vector, strides)) for vector in bases.get(name, ()))
            for name in (REGISTER, LANE, WARP, BLOCK)
        )
        return cls(*found)


def refuted_gather(plan: AnyGatherPlan, src: LinearLayout, index: LinearLayout, axis: int) -> str | None:
    """The reason why `plan` is not the gather of these layouts; None if it is."""
    if isinstance(plan, GatherSharedPlan):
        return _refuted_memory(plan, src, index, axis)
    return _refuted_shuffles(plan, src, index, axis)


def _refuted_shuffles(plan: GatherPlan, src: LinearLayout, index: LinearLayout, axis: int) -> str | None:
    sizes = [size for _, size in src.out_dims]
    held, beside = _Columns.of(src, sizes), _Columns.of(index, sizes, axis)
    start = sum(size.bit_length() - 1 for size in sizes[:axis])
    lane_bits, warp_bits = len(held.lane), len(held.warp)
    if plan.axis_bits != sizes[axis].bit_length() - 1 or held.block != beside.block:
        return "it is for another tensor"
    elements = f2.sums(_Columns.of(index, [size for _, size in index.out_dims]).register)
    if len(plan.outputs) != len(elements) or plan.source_registers != 1 << len(held.register):
        return "it has other registers"
    threads = (0, *(1 << bit for bit in range(lane_bits + warp_bits)))
    numbers = (0, *(1 << bit for bit in range(plan.axis_bits)))
    for register, output in enumerate(plan.outputs):
        wanted, taken = plan.wanted[output], plan.indices[output]
        if elements[register] != elements[taken]:
            return f"register {register} goes by the index in register {taken}"
        for thread, number in [*((t, 0) for t in threads), *((0, n) for n in numbers)]:
            own_lane, warp = thread & ((1 << lane_bits) - 1), thread >> lane_bits
            choice = wanted.choice_flip
            choice ^= f2.multiply_vector(plan.choice_by_index, number)
            choice ^= f2.multiply_vector(plan.choice_by_thread, thread)
            lane = wanted.lane_flip
            lane ^= f2.multiply_vector(plan.lane_by_index, number)
            lane ^= f2.multiply_vector(plan.lane_by_thread, thread)
            if not plan.moves and lane != own_lane:
                return f"register {register} wants another lane, and nothing moves"
            source = wanted.base ^ f2.multiply_vector(plan.choices, choice)
            found = f2.multiply_vector(held.register, source) ^ f2.multiply_vector(held.lane, lane)
            found ^= f2.multiply_vector(held.warp, warp)
            asked = f2.multiply_vector(beside.register, register) ^ f2.multiply_vector(beside.lane, own_lane)
            asked ^= f2.multiply_vector(beside.warp, warp) ^ number << start
            if found != asked:
                place = f"register {register} of thread {thread}"
                return f"{place} takes element {found} for index {number}, not {asked}"
    return None


def _refuted_memory(plan: GatherSharedPlan, src: LinearLayout, index: LinearLayout, axis: int) -> str | None:
    sizes = [size for _, size in src.out_dims]
    held, beside = _Columns.of(src, sizes), _Columns.of(index, sizes, axis)
    start = sum(size.bit_length() - 1 for size in sizes[:axis])
    elements = f2.sums(_Columns.of(index, [size for _, size in index.out_dims]).register)
    if plan.axis_bits != sizes[axis].bit_length() - 1 or len(held.block) != len(beside.block):
        return "it is for another tensor"
    if len(plan.outputs) != len(elements) or plan.source_registers != 1 << len(held.register):
        return "it has other registers"
    return _Memory(plan, held, beside, start).refuted(elements)


class _Memory:
    """The memory of a plan as pairs (place, element); a place is the address with the rank of the CTA above it,
    and the round above that.

    _map: pairs with independent places, which define M. _origin: one of the stored pairs. _cosets: the places
    of thread 0 modulo the address columns of the threads. _stores, _loads, _indices: what the bits of the
    storing and of the loading thread's number in the cluster, and those of an index, add to a place.
    """

    def __init__(self, plan: GatherSharedPlan, held: _Columns, beside: _Columns, start: int) -> None:
        self._plan, self._beside, self._start = plan, beside, start
        self._registers, self._lanes = held.register, len(held.lane)
        self._threads = (*held.lane, *held.warp, *held.block)
        self._own, self._ctas = len(held.lane) + len(held.warp), len(held.block)
        self._rank = plan.scratch_bytes.bit_length()
        self._round = self._rank + self._ctas
        self._stores: tuple[int, ...] = ()
        self._loads: tuple[int, ...] = ()
        self._indices: tuple[int, ...] = ()
        self._origin = (0, 0)
        self._map: list[tuple[int, int]] = []
        self._span = f2.Echelon()
        self._cosets: set[int] = set()

    def refuted(self, elements: list[int]) -> str | None:
        """The reason why a fetch loads a wrong element, or None."""
        plan = self._plan
        known = (self._own,) if plan.scope == "warp" else (self._own, len(self._threads))
        if len(plan.store.columns) != self._own or len(plan.address_by_thread) not in known:
            return "it is for other threads"
        if reason := self._other_ctas():
            return reason
        self._enter_columns()
        return self._out_of_bounds() or self._stored() or self._fetched(elements)

    def _other_ctas(self) -> str | None:
        """The reason why the ranks of CTAs do not fit the plan's scope or the cluster, or None."""
        plan, ranks = self._plan, self._plan.ranks
        if plan.scope not in ("warp", "cta", CLUSTER):
            return f"scope '{plan.scope}' has no barrier"
        if (ranks is not None) != (plan.scope == CLUSTER):
            return f"scope '{plan.scope}' {'has' if ranks else 'lacks'} CTAs to load from"
        if any(mask >> self._own for mask in plan.split):
            return "what is stored where depends on the CTA"
        if ranks is None:
            return None
        if list(map(len, ranks.loads)) != list(map(len, plan.fetches)):
            return "there is no CTA for every load"
        if len(ranks.columns) != len(self._threads) or len(plan.rank_by_index) != plan.axis_bits:
            return "there is no CTA for every thread and index"
        named = (*ranks.columns, *plan.rank_by_index, *(rank for round_ in ranks.loads for rank in round_))
        if any(rank >> self._ctas for rank in named):
            return f"a load is from a CTA that a cluster of {1 << self._ctas} does not have"
        return None

    def _enter_columns(self) -> None:
        plan, ranks = self._plan, self._plan.ranks
        here = (*((0,) * self._own), *(1 << bit for bit in range(self._ctas)))
        beyond = (0,) * (len(self._threads) - len(plan.address_by_thread))
        self._stores = self._placed((*plan.store.columns, *((0,) * self._ctas)), here)
        self._loads = self._placed((*plan.address_by_thread, *beyond), here if ranks is None else ranks.columns)
        by_index = (0,) * plan.axis_bits if ranks is None else plan.rank_by_index
        self._indices = self._placed(plan.address_by_index, by_index)

    def _placed(self, addresses: tuple[int, ...], ranks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(address | rank << self._rank for address, rank in zip(addresses, ranks, strict=True))

    def _out_of_bounds(self) -> str | None:
        """The reason why an address is misaligned, outside the scratch or in another warp's part, or None."""
        plan = self._plan
        lanes = self._lanes
        stores = [access.offset for accesses in plan.store.rounds for access in accesses]
        fetches = [fetch.offset for round_ in plan.fetches for fetch in round_]
        for name, width, inside, columns in (
            ("store", plan.store.access_bytes, stores, plan.store.columns),
            ("load", plan.element_bytes, [*fetches, *plan.address_by_index], plan.address_by_thread),
        ):
            reached = 0
            for address in (*inside, *columns):
                if address % width:
                    return f"a {name} of {width} bytes is at {address:#x}"
                reached |= address
            if reached + width > plan.scratch_bytes:
                return f"a {name} reaches byte {reached + width - 1} of {plan.scratch_bytes}"
            if plan.scope == "warp":
                part = plan.scratch_bytes >> len(columns) - lanes
                local = max((*inside, *columns[:lanes]), default=0)
                own = [column & ~(part - 1) for column in columns[lanes:]]
                if local >= part or own != [part << bit for bit in range(len(own))]:
                    return f"a {name} reaches what is another warp's"
        return None

    def _stored(self) -> str | None:
        """Enter all stores; return the reason why no linear map holds for them, or None."""
        plan, side = self._plan, self._plan.store
        held = f2.sums(self._registers)
        alternatives = 1 << len(plan.split)
        steps: set[tuple[int, ...]] = set()
        pairs: list[tuple[int, int]] = []
        for number, accesses in enumerate(side.rounds):
            for access in accesses:
                if len(access.registers) != side.slots * alternatives:
                    return f"a store of {side.slots} elements has {len(access.registers)}"
                found = [held[register] for register in access.registers]
                for position in range(side.slots):
                    place = number << self._round | access.offset + position * plan.element_bytes
                    same = found[position :: side.slots]
                    pairs.append((place, same[0]))
                    steps.add(tuple(element ^ same[0] for element in same))
        if len(steps) != 1:
            return "alternatives of stores do not differ alike"
        (step,) = steps
        if any(step[a ^ b] != step[a] ^ step[b] for a in range(alternatives) for b in range(alternatives)):
            return "alternatives of stores are not linear"
        moved: list[tuple[int, int]] = []
        for bit, (column, element) in enumerate(zip(self._stores, self._threads, strict=True)):
            chosen = sum(1 << i for i, mask in enumerate(plan.split) if mask >> bit & 1)
            moved.append((column, element ^ step[chosen]))
        self._origin = pairs[0]
        for place, element in (*moved, *(self._from_origin(*pair) for pair in pairs)):
            image = self._image(place)
            if image is None:
                self._span.add(place)
                self._map.append((place, element))
            elif image != element:
                address = place & (1 << self._rank) - 1
                return f"places that are {address:#x} apart do not hold elements that are {element} apart"
        threads = f2.Echelon(self._stores)
        basis = f2.reduce(self._stores)
        self._cosets = {_reduced(basis, place) for place, _ in pairs}
        if len(self._cosets) << threads.rank != 1 << len(self._map):
            return "not every place among those that are stored to has an element"
        return None

    def _fetched(self, elements: list[int]) -> str | None:
        """The reason why a fetch loads a wrong element, or None."""
        plan, beside = self._plan, self._beside
        ranks = [[0] * len(round_) for round_ in plan.fetches] if plan.ranks is None else plan.ranks.loads
        fetches = [
            (number, fetch, rank)
            for number, round_ in enumerate(plan.fetches)
            for fetch, rank in zip(round_, ranks[number], strict=True)
        ]
        threads = (0, *(1 << bit for bit in range(len(self._threads))))
        indices = (0, *(1 << bit for bit in range(plan.axis_bits)))
        asked = [*((thread, 0) for thread in threads), *((0, index) for index in indices)]
        of_threads = (*beside.lane, *beside.warp, *beside.block)
        for register, output in enumerate(plan.outputs):
            number, fetch, rank = fetches[output]
            if elements[register] != elements[fetch.index]:
                return f"register {register} goes by the index in register {fetch.index}"
            for thread, index in asked:
                start = number << self._round | rank << self._rank | fetch.offset
                start ^= f2.multiply_vector(self._indices, index) ^ f2.multiply_vector(self._loads, thread)
                place, _ = self._from_origin(start, 0)
                image = self._image(place)
                who = f"register {register} of thread {thread}"
                if image is None:
                    address = start & (1 << self._rank) - 1
                    return f"{who} loads {address:#x} for index {index}, where nothing is stored"
                found = image ^ self._origin[1]
                wanted = f2.multiply_vector(beside.register, register) ^ index << self._start
                wanted ^= f2.multiply_vector(of_threads, thread)
                if found != wanted:
                    return f"{who} loads element {found} for index {index}, not {wanted}"
        return None

    def _from_origin(self, place: int, element: int) -> tuple[int, int]:
        return place ^ self._origin[0], element ^ self._origin[1]

    def _image(self, place: int) -> int | None:
        """M of a difference of places; None if M is not defined there."""
        found = self._span.solve(place)
        return None if found is None else f2.multiply_vector([element for _, element in self._map], found)


def _reduced(basis: tuple[int, ...], vector: int) -> int:
    """The representative of a vector modulo a reduced basis."""
    for one in basis:
        vector = min(vector, vector ^ one)
    return vector
