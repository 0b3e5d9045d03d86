"""Executes plans directly, thread by thread, from their definition: a second reading of what they mean."""

from __future__ import annotations

import functools
import random

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.plan.plans import Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.lowering.target.steps import Shuffle, Trade


def random_layout(rng: random.Random, dims: int, lane_bits: int, warp_bits: int, extra: int, general: bool):
    """A surjective layout onto 2^dims elements with `extra` zero columns; general: any basis."""
    columns = [1 << i for i in range(dims)]
    rng.shuffle(columns)
    if general:
        for _ in range(4 * dims):
            i, j = rng.randrange(dims), rng.randrange(dims)
            if i != j:
                columns[i] ^= columns[j]
    columns += [0] * (extra + max(0, lane_bits + warp_bits - dims - extra))
    rng.shuffle(columns)
    lane, warp, register = (
        columns[:lane_bits],
        columns[lane_bits : lane_bits + warp_bits],
        columns[lane_bits + warp_bits :],
    )
    bases = [(name, [[c] for c in cs]) for name, cs in ((REGISTER, register), (LANE, lane), (WARP, warp))]
    return LinearLayout.from_bases([*bases, (BLOCK, [])], [("dim0", 1 << dims)])


@functools.lru_cache(4)
def held(layout: LinearLayout, lanes: int, warps: int) -> list[list[int]]:
    """The elements of each thread's registers, by a one-dimensional layout. Nobody changes them."""
    counts = (REGISTER, layout.in_dim_size(REGISTER)), (LANE, lanes), (WARP, warps)
    own, lane, warp = ([linear(layout.columns(name), n) for n in range(count)] for name, count in counts)
    return [[element ^ here ^ there for element in own] for there in warp for here in lane]


def parity(x: int) -> int:
    return bin(x).count("1") & 1


def linear(columns, x: int) -> int:
    total = 0
    for bit, column in enumerate(columns):
        total ^= column if x >> bit & 1 else 0
    return total


def run(plan: Plan, source: list[list[int]], lanes: int) -> list[list[int]]:
    """Destination registers by thread, from source registers by thread."""
    if isinstance(plan, RegisterPlan):
        return [[registers[i] for i in plan.sources] for registers in source]
    for stage in plan.stages:
        source = (_run_shuffle if isinstance(stage, ShufflePlan) else _run_shared)(stage, source, lanes)
    return source


def _run_shuffle(plan: ShufflePlan, source, lanes):
    def packed(registers):
        words = [registers[i : i + plan.slots] for i in range(0, len(registers), plan.slots)]
        return [word + [None] * (plan.slots - len(word)) for word in words]

    threads = range(len(source))
    words = [packed(registers) for registers in source]
    for step in plan.steps:
        made = []
        for thread in threads:
            if isinstance(step, Shuffle):
                own = step.lane_columns is None
                lane = (thread % lanes if own else linear(step.lane_columns, thread)) ^ step.lane_xor
                made.append(words[thread // lanes * lanes + lane][step.word])
            elif isinstance(step, Trade):
                stays = thread >> step.lane_bit & 1 == step.side
                other = words[thread ^ 1 << step.lane_bit][step.words[1 - step.side]]
                made.append(words[thread][step.words[step.side]] if stays else other)
            else:
                slots = [slot for word in step.sources for slot in words[thread][word]]
                chosen = sum(parity(mask & thread) << bit for bit, mask in enumerate(step.masks))
                made.append([None if pick < 0 else slots[pick] for pick in step.picks[chosen]])
        for thread, word in zip(threads, made, strict=True):
            words[thread].append(word)
    return [
        [row[plan.outputs[r // plan.slots]][r % plan.slots] for r in range(plan.destination_registers)]
        for row in words
    ]


def _places(side, element_bytes, thread, lanes, offset):
    """The byte addresses of a thread's elements in one access, by position."""
    if not side.matrix:
        start = linear(side.columns, thread) ^ offset
        assert start % side.access_bytes == 0
        return [start + slot * element_bytes for slot in range(side.slots)]
    if side.matrix.startswith("ds_read"):
        # Unit u of lane i of 16 is unit i % n of the 8 bytes that lane (16 u + i) / n of these names.
        unit, lane = int(side.matrix.rpartition("_b")[2]) // 8, thread % 16
        units, places = 8 // unit, []
        for byte in range(0, side.slots * element_bytes, element_bytes):
            namer = (16 * (byte // unit) + lane) // units
            start = linear(side.columns, thread - lane + namer) ^ offset
            assert start % 8 == 0
            places.append(start + lane % units * unit + byte % unit)
        return places
    # Matrix k, word of lane l: word l % 4 of row l / 4, which lane 8 k + row names. Transposed, half h of the
    # word is of row 2 (l % 4) + h, in column l / 4.
    places, lane = [], thread % lanes
    for byte in range(0, side.slots * element_bytes, element_bytes):
        word, half, low = byte // 4, byte % 4 // 2, byte % 2
        transposes = side.matrix.endswith(".trans")
        row = 2 * (lane % 4) + half if transposes else lane // 4
        start = linear(side.columns, thread - lane + 8 * word + row) ^ offset
        assert start % 16 == 0
        places.append(start + (lane // 4 * 2 + low if transposes else lane % 4 * 4 + byte % 4))
    return places


def _run_shared(plan: SharedPlan, source, lanes):
    results = [[None] * len(plan.outputs) for _ in source]
    size, threads, slots = plan.element_bytes, range(len(source)), plan.store.slots
    for index, (stores, loads) in enumerate(zip(plan.store.rounds, plan.load.rounds, strict=True)):
        memory = {}
        for thread in threads:
            choice = sum(parity(mask & thread) << bit for bit, mask in enumerate(plan.split))
            for access in stores:
                assert len(access.registers) == slots << len(plan.split)
                places = _places(plan.store, size, thread, lanes, access.offset)
                registers = access.registers[choice * slots : (choice + 1) * slots]
                for where, register in zip(places, registers, strict=True):
                    assert where + size <= plan.scratch_bytes
                    assert memory.setdefault(where, source[thread][register]) == source[thread][register]
        for thread in threads:
            for register, (round_, access, position) in enumerate(plan.outputs):
                if round_ == index:
                    places = _places(plan.load, size, thread, lanes, loads[access].offset)
                    results[thread][register] = memory[places[position]]
    return results
