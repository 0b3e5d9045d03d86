"""The one formula that turns the work of a plan into clocks."""

from __future__ import annotations

import pytest

from triton_linear.lowering.plan.plans import Work
from triton_linear.lowering.target.targets import target

TABLE = target("cuda:90").costs


@pytest.mark.parametrize(
    ("work", "clocks"),
    [
        (Work(), 0.0),
        (Work(wavefronts=8), 8 * TABLE.wavefront),
        (Work(shuffles=8), 8 * TABLE.shuffle),
        (Work(alu=8), 8 * TABLE.alu),
        (Work(barriers=1, warp_barriers=1), TABLE.cta_barrier),
    ],
)
def test_one_pipe_takes_what_its_instructions_take(work: Work, clocks: float) -> None:
    assert work.clocks(TABLE) == pytest.approx(clocks)


def test_pipes_delay_each_other_and_less_than_one_after_another() -> None:
    both = Work(shuffles=8, alu=16).clocks(TABLE)
    alone = Work(shuffles=8).clocks(TABLE), Work(alu=16).clocks(TABLE)
    assert max(alone) < both < sum(alone)


def test_a_lone_cta_waits_once_for_each_phase_round_and_barrier() -> None:
    waits = Work(waits=2, rounds=3, barriers=4, warp_barriers=5).latency(TABLE, 4)
    assert waits == 2 * TABLE.select_wait + 3 * TABLE.memory_wait + 4 * TABLE.barrier_wait
    shuffled = [Work(shuffles=1, waits=waits).latency(TABLE, 1) for waits in (0, 1)]
    assert shuffled[1] - shuffled[0] == pytest.approx(TABLE.shuffle_wait)


def test_more_warps_share_the_memory_pipe_and_not_the_others() -> None:
    few, many = (Work(wavefronts=8).latency(TABLE, warps) for warps in (1, 4))
    assert many == pytest.approx(4 * few)
    assert Work(alu=8).latency(TABLE, 1) == Work(alu=8).latency(TABLE, 4)


def test_a_mean_of_wavefronts_is_rounded_up_in_the_counts_alone() -> None:
    found = Work(wavefronts=2.25, barriers=1, warp_barriers=2).cost(TABLE, 4, scratch_bytes=64)
    assert (found.wavefronts, found.barriers, found.scratch_bytes) == (3, 3, 64)
    assert found.clocks < 3 * TABLE.wavefront + TABLE.cta_barrier
