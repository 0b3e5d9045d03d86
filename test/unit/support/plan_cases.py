"""Pairs of layouts to plan conversions of, and what a plan does with every element."""

from __future__ import annotations

import plan_machine

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.lowering.plan.element import element_type

ELEMENTS = [element_type(name) for name in ("i1", "i8", "f16", "f32", "i64")]


def agrees(plan, src, dst, lanes, warps):
    """Whether the plan, run for every thread, puts what is wanted into every register."""
    source, wanted = (plan_machine.held(layout, lanes, warps) for layout in (src, dst))
    return plan_machine.run(plan, source, lanes) == wanted


def check(plan, src, dst, lanes, warps):
    assert agrees(plan, src, dst, lanes, warps)


def random_pair(rng, machine):
    lane_bits = machine.lanes.bit_length() - 1
    warp_bits = rng.randrange(3)
    dims = rng.randrange(1, lane_bits + warp_bits + 5)
    general = rng.random() < 0.5
    src = plan_machine.random_layout(rng, dims, lane_bits, warp_bits, rng.randrange(3), general)
    if rng.random() < 0.6:  # keep the warps, so that conversions inside a warp are common
        columns = {name: list(src.columns(name)) for name in (REGISTER, LANE)}
        flat = columns[REGISTER] + columns[LANE]
        for _ in range(rng.randrange(1, 8)):
            i, j = rng.randrange(len(flat)), rng.randrange(len(flat))
            flat[i], flat[j] = flat[j], flat[i]
            if general and i != j and rng.random() < 0.5:
                flat[i] ^= flat[j]
        count = len(columns[REGISTER])
        bases = [(REGISTER, [[c] for c in flat[:count]]), (LANE, [[c] for c in flat[count:]])]
        bases += [(WARP, [[c] for c in src.columns(WARP)]), ("block", [])]
        return src, type(src).from_bases(bases, [("dim0", 1 << dims)]), warp_bits
    dst = plan_machine.random_layout(rng, dims, lane_bits, warp_bits, rng.randrange(3), general)
    return src, dst, warp_bits


def blocked(size, threads, warps, order):
    fields = f"sizePerThread = {size}, threadsPerWarp = {threads}, warpsPerCTA = {warps}, order = {order}"
    return f"#ttg.blocked<{{{fields}}}>"
