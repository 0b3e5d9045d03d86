"""The lanes that shared memory serves together are those that others measured, and plans do with them as the
tables say."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from plan_cases import random_pair

from triton_linear.dialect import f2
from triton_linear.lowering.interpreter.counts import costs
from triton_linear.lowering.interpreter.memory import Recorded
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.planners.conversion import conversion
from triton_linear.lowering.planners.shared import plan_cta_shared
from triton_linear.lowering.target.targets import target

# What was measured, of the first 32 lanes; the others are served alike.
WIDE_CDNA3 = [{0, 1, 2, 3, 20, 21, 22, 23}, {4, 5, 6, 7, 16, 17, 18, 19}]
WIDE_CDNA3 += [{8, 9, 10, 11, 28, 29, 30, 31}, {12, 13, 14, 15, 24, 25, 26, 27}]
WIDE_CDNA4 = [{*range(4), *range(12, 16), *range(20, 28)}, {*range(4, 12), *range(16, 20), *range(28, 32)}]
EIGHTS = [set(range(first, first + 8)) for first in range(0, 32, 8)]
HALVES = [set(range(16)), set(range(16, 32))]
ALL = [set(range(32))]

MEASURED = {
    ("hip:gfx942", "load", 4): (ALL, 32),
    ("hip:gfx942", "load", 8): (HALVES, 32),
    ("hip:gfx942", "load", 16): (WIDE_CDNA3, 32),
    ("hip:gfx942", "store", 16): (EIGHTS, 32),
    ("hip:gfx950", "load", 8): (ALL, 64),
    ("hip:gfx950", "load", 12): (WIDE_CDNA3, 32),
    ("hip:gfx950", "load", 16): (WIDE_CDNA4, 64),
    ("hip:gfx950", "store", 8): (HALVES, 32),
    ("hip:gfx950", "store", 16): (EIGHTS, 32),
    ("cuda:90", "load", 16): (EIGHTS, 32),
}


@pytest.mark.parametrize(("name", "kind", "size"), MEASURED)
def test_phases_are_those_measured(name: str, kind: str, size: int) -> None:
    sets, banks = MEASURED[name, kind, size]
    gpu = target(name)
    service = gpu.service(kind, size)
    order = service.order(gpu.lanes)
    found = [set(order[start : start + service.count]) for start in range(0, gpu.lanes, service.count)]
    wanted = [{lane + half for lane in lanes} for half in range(0, gpu.lanes, 32) for lanes in sets]
    assert service.banks == banks
    assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))


COPIES = {
    ("load", 4): (1, 1),
    ("load", 8): (2, 1),
    ("load", 16): (4, 2),
    ("store", 8): (2, 2),
    ("store", 16): (4, 4),
}
"""Clocks of an access on an H200; the second where lanes that differ in bit 0, or in bit 1, hold copies."""


@pytest.mark.parametrize(("kind", "size"), COPIES)
def test_copies_in_pairs_of_lanes_join_phases_of_loads(kind: str, size: int) -> None:
    """Those in other lanes do not, and those in more lanes join no more. The interpreter counts the same."""
    gpu = target("cuda:90")
    alone, paired = COPIES[kind, size]
    for copied in itertools.chain.from_iterable(itertools.combinations(range(5), n) for n in range(6)):
        columns = [0] * 5
        for number, bit in enumerate(bit for bit in range(5) if bit not in copied):
            columns[bit] = size << number
        expected = paired if {0, 1} & set(copied) else alone
        assert 32 // gpu.service(kind, size).of(columns).count == expected
        access = Recorded(0, kind, size, np.array(f2.sums(columns), np.int64))
        (counted,) = costs([access], gpu)
        assert counted.wavefronts == expected >= counted.minimum


@pytest.mark.parametrize("name", ["cuda:80", "cuda:100", "hip:gfx942", "hip:gfx950"])
def test_copies_join_no_phases_where_that_was_not_measured(name: str) -> None:
    assert not any(service.pairs for service in target(name).services.values())


def test_gfx950_takes_fewer_loads_of_64_bits() -> None:
    gpu, rng = target("hip:gfx950"), random.Random(4)
    free, widths = replace(gpu, loads_not_taken=frozenset()), (Counter[int](), Counter[int]())
    for _ in range(250):
        src, dst, _ = random_pair(rng, gpu)
        for machine, seen in zip((gpu, free), widths, strict=True):
            plan = plan_cta_shared(conversion(src, dst), element_type("f16"), machine, 1 << 20)
            assert isinstance(plan, SharedPlan)
            seen[0 if plan.load.matrix else plan.load.access_bytes] += 1
    assert widths[0][8] < widths[1][8], widths


def test_matrix_loads_and_loads_from_other_ctas_join_no_phases() -> None:
    """Nor does the interpreter count them so; whole warps among some threads it does."""
    columns = [0, 16, 32, 64, 128]
    addresses = np.array(f2.sums(columns), np.int64)
    accesses = [
        Recorded(0, "load", 16, addresses),
        Recorded(0, "load", 16, addresses, joins=False),
        Recorded(0, "load", 16, addresses, np.arange(32, 64)),
        Recorded(0, "load", 16, addresses[:16], np.arange(16)),
    ]
    assert [found.wavefronts for found in costs(accesses, target("cuda:90"))] == [2, 4, 2, 2]
