"""Loads from other CTAs have returned before a thread comes to the next barrier of the cluster, in cubins:
each load sets a scoreboard barrier that somebody waits for."""

from __future__ import annotations

import pytest
from cluster_marks import ordered

from bench.gpu_random.gathers import gather_cases
from bench.gpu_random.kernels import RandomCase, cluster_cases
from bench.gpu_random.reductions import reduction_cases
from bench.gpu_random.run import build
from triton_linear.lowering.emit import machines
from triton_linear.ptxas.cubin import decoded

OPCODE = 0x1FF
LOAD, ARRIVE = 0x180, 0x1C7
"""LD, which may load from other CTAs, and UCGABAR_ARV."""
SIZES = (2, 4, 8)


def under_way(cubin: bytes) -> tuple[int, int, int]:
    """The loads, the barriers of the cluster, and how many loads are under way at one of them."""
    pending: dict[int, int] = {}
    loads = barriers = late = 0
    for low, high in decoded(cubin):
        waited, sets = high >> 52 & 0x3F, high >> 46 & 7
        for barrier in [number for number in pending if waited >> number & 1]:
            del pending[barrier]
        if low & OPCODE == ARRIVE:
            barriers, late = barriers + 1, late + sum(pending.values())
        if low & OPCODE == LOAD:
            loads, pending[sets] = loads + 1, pending.get(sets, 0) + 1
    return loads, barriers, late


def cases() -> list[RandomCase]:
    """Conversions that take turns and some that are too large to, gathers, and reductions."""
    conversions = cluster_cases(1, 64, SIZES)
    large = [case for case in conversions if max(case.register_counts) * case.element.bits >= 512]
    return [*conversions[:3], *large[:3], *gather_cases(1, 2, SIZES), *reduction_cases(1, 3, SIZES)]


@ordered
@pytest.mark.parametrize("target", ["cuda:90", "cuda:100"])
def test_loads_have_returned_before_the_next_barrier(target: str) -> None:
    found = [under_way(build(case, "ours", target).cubin) for case in cases()]
    assert all(loads and barriers for loads, barriers, _ in found)
    assert [late for _, _, late in found] == [0] * len(found)


@ordered
def test_loads_that_nobody_waits_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines._Nvidia, "receive", lambda *_: None)
    assert any(under_way(build(case, "ours", "cuda:90").cubin)[2] for case in cases())
