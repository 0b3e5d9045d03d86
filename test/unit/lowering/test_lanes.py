"""Every route between lanes and every trade, emitted and run by itself."""

from __future__ import annotations

import numpy as np
import pytest
from simulate_cases import function, random_registers

from triton_linear.lowering.emit.machines import machine_of
from triton_linear.lowering.emit.parts import parts_of
from triton_linear.lowering.emit.text import FunctionWriter
from triton_linear.lowering.emit.words import WordWriter
from triton_linear.lowering.interpreter.function import simulate
from triton_linear.lowering.target.lanes import native_exchanges
from triton_linear.lowering.target.steps import Shuffle, Trade
from triton_linear.lowering.target.targets import target

TARGETS = ["hip:gfx90a", "hip:gfx942", "hip:gfx950"]


def run(name: str, steps: list[Shuffle | Trade], words: int) -> tuple[np.ndarray, np.ndarray]:
    """What is in `words` registers of each lane, and what the steps leave, by register and lane."""
    gpu = target(name)
    writer = FunctionWriter("%w")
    given = [parts_of(writer, [f"%a{number}"]) for number in range(words)]
    program = WordWriter(writer, machine_of(gpu), 1, given, words).run(steps)
    names = [program.word(words + number)[0].word for number in range(len(steps))]
    lines = [f"%r{number} = llvm.bitcast {value} : i32 to i32" for number, value in enumerate(names)]
    types = ["i32"] * words
    registers = random_registers(5, types, gpu.lanes)
    body = writer.body() + "\n".join(lines)
    outcome = simulate(function(types, body, ["i32"] * len(steps)), registers, gpu, 1, 16)
    return np.stack([r[0] for r in registers]), np.stack([v[0] for v in outcome.values])


@pytest.mark.parametrize("name", TARGETS)
def test_every_xor_reads_that_lane(name: str) -> None:
    gpu = target(name)
    lane = np.arange(gpu.lanes)
    routed = [xor for xor in range(1, gpu.lanes) if machine_of(gpu).route(Shuffle(0, xor)) is not None]
    assert {1, 2, 3, 7, 8, 15} <= set(routed)
    given, found = run(name, [Shuffle(0, xor) for xor in range(1, gpu.lanes)], 1)
    for xor in range(1, gpu.lanes):
        assert (found[xor - 1] == given[0][lane ^ xor]).all(), xor


@pytest.mark.parametrize("name", TARGETS)
def test_trades_are_what_they_say(name: str) -> None:
    gpu = target(name)
    lane = np.arange(gpu.lanes)
    bits = sorted(native_exchanges(gpu.lane_instructions))
    assert {2, 3} <= set(bits)
    for bit in bits:
        given, found = run(name, [Trade((0, 1), bit, 0), Trade((0, 1), bit, 1)], 2)
        for side in (0, 1):
            other = given[1 - side][lane ^ 1 << bit]
            assert (found[side] == np.where(lane >> bit & 1 == side, given[side], other)).all(), (bit, side)
