"""The swizzle has as few conflicts as any, told by trying all; where vectors differ some cannot be avoided, and
the placement then takes others."""

from __future__ import annotations

import itertools
import random

import pytest

from triton_linear.dialect import f2
from triton_linear.lowering.planners.placement import Exchange, ExchangeLimits, place
from triton_linear.lowering.planners.swizzle import Columns, Side, optimal_swizzle
from triton_linear.lowering.target.phases import WIDEST
from triton_linear.lowering.target.targets import target

DIMS = 4


def bases(space: Columns, count: int) -> set[Columns]:
    """All subspaces of `count` dimensions of a space, by their reduced bases."""
    vectors = [vector for vector in f2.sums(space) if vector]
    found = {f2.reduce(chosen) for chosen in itertools.combinations(vectors, count)}
    return {tuple(basis) for basis in found if len(basis) == count}


def wavefronts(side: Side, segment: Columns) -> int:
    """Of one phase: how many of its words have the same bank, those that differ by a sum of segments."""
    words = f2.sums(f2.extend((), (*side.vector, *side.phase)))
    own = set(f2.sums(segment))
    return max(len({one ^ other for other in words if one ^ other in own}) for one in words)


def fewest(store: Side, load: Side, rest: Columns) -> int:
    """By trying every place that the banks can have."""
    low = max(store.vector, load.vector, key=len)
    few, many = sorted((store, load), key=lambda side: side.bank_bits)
    return min(
        max(wavefronts(many, segment), wavefronts(few, wider))
        for segment in bases(rest, max(0, DIMS - max(len(low), many.bank_bits)))
        for wider in bases(rest, max(0, DIMS - max(len(low), few.bank_bits)))
        if f2.rank((*wider, *segment)) == len(wider)
    )


def drawn(rng: random.Random, vector: Columns, bank_bits: int) -> Side:
    """A side with this vector and the lanes of a phase, as many as banks serve."""
    others = list(range(1, 1 << DIMS))
    rng.shuffle(others)
    return Side(vector, f2.extend(vector, others)[: bank_bits - len(vector)], bank_bits)


@pytest.mark.parametrize("banks", [(1, 1), (2, 2), (1, 2), (2, 1), (2, 3), (3, 2)])
def test_no_swizzle_has_fewer_conflicts(banks: tuple[int, int]) -> None:
    rng, unavoidable, none = random.Random(str(banks)), 0, 0
    for _ in range(60):
        widths = [rng.randrange(min(2, *banks) + 1) for _ in range(2)]
        low = tuple(f2.extend((), rng.sample(range(1, 1 << DIMS), 8))[: max(widths)])
        store, load = (drawn(rng, low[:width], bits) for width, bits in zip(widths, banks, strict=True))
        rest = f2.extend(low, rng.sample(range(1, 1 << DIMS), 15))
        swizzle = optimal_swizzle((), rest, store, load, word_bits=0)
        assert f2.rank(swizzle.basis()) == DIMS
        least = fewest(store, load, rest)
        assert swizzle.conflicts == least, (store, load)
        equal = store.vector == load.vector
        assert least == 1 or not equal
        unavoidable += least > 1
        none += least == 1
    assert none > 10
    assert unavoidable or min(banks) == 1


@pytest.mark.parametrize("name", ["hip:gfx942", "hip:gfx950"])
def test_where_conflicts_cannot_be_avoided_other_vectors_are_taken(name: str) -> None:
    """A thread stores four neighbouring words; each lane loads one, and no lane of its phase the others."""
    gpu = target(name)
    words = f2.identity(2)
    lanes = tuple(4 << bit for bit in range(6))
    loading = (*lanes[:5], 1)
    exchange = Exchange(words, lanes, (), (2, lanes[5]), loading, ())
    bits = WIDEST // 4
    wide = Side(words, gpu.service("store", 4 * bits).columns(lanes), 5)
    narrow = Side((), gpu.service("load", 4).columns(loading), 5)
    rest = f2.extend(words, (*lanes, *loading))
    assert optimal_swizzle((), rest, wide, narrow, word_bits=0).conflicts > 1
    placement = place(exchange, ExchangeLimits(4, gpu, 1 << 20))
    assert placement.swizzle.conflicts == 1 and placement.store_bits < 2


@pytest.mark.parametrize("name", ["cuda:80", "cuda:90", "cuda:100"])
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
def test_the_way_back_has_the_same_addresses(name: str, element_bytes: int) -> None:
    rng, limits, same = random.Random(name), ExchangeLimits(element_bytes, target(name), 2048), 0
    for _ in range(50):
        sides = []
        for _ in range(2):
            columns = list(f2.identity(10))
            rng.shuffle(columns)
            sides += [tuple(columns[:4]), tuple(columns[4:9]), tuple(columns[9:])]
        exchange = Exchange(*sides)
        there, back = place(exchange, limits), place(exchange.reverse, limits)
        assert sorted((back.store_bits, back.load_bits)) == sorted((there.store_bits, there.load_bits))
        if there.store_bits == there.load_bits:
            assert back.swizzle == there.swizzle
            same += 1
    assert 0 < same <= 50
    assert exchange.is_second != exchange.reverse.is_second


def test_the_way_back_of_stores_that_nobody_loads_has_a_layout_of_its_own() -> None:
    """The source holds one column in its registers and its warps, the destination in its warps alone."""
    exchange = Exchange((128, 256, 1, 2), (64, 32, 16, 8, 4), (0,), (128, 256, 64), (2, 4, 8, 16, 32), (0,))
    assert exchange.load_lane < exchange.store_lane and not exchange.is_second
    found = place(exchange, ExchangeLimits(4, target("cuda:90"), 1 << 20))
    assert all(found.span.solve(column) is not None for column in exchange.store_register)
