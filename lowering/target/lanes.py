"""How words move between the lanes of an AMD wave, as data: instructions, routes made of them, exchanges.

Some instructions shuffle by a fixed xor of lane numbers, with neither memory nor an address register:

- DPP (`update.dpp`) reads another lane of the same row of 16: any lane of the same four (`quad_perm`), the
  mirrored lane of eight or sixteen (xor 7 and 15), the lane rotated by eight (xor 8). It is one vector
  instruction. Two of them give every xor below 16.
- `ds_swizzle` reads the lane with any of the low five bits flipped, by the LDS crossbar, at no address.
- `v_permlane16_swap` and `v_permlane32_swap` exchange the odd rows, or halves, of one register with the even
  ones of another. Of two copies of a word they make one of its even rows and one of its odd ones: a copy, a
  swap and a select give xor 16 and 32.
- `ds_bpermute` reads any lane, by an address in every lane. It does every other shuffle.

A swap exchanges a register bit with lane bit 4 or 5 without the selects that shuffles would need. For lane bits
2 and 3 two shifts by DPP within the row do (`row_shl`, `row_shr`): each writes only the groups of four lanes
that its bank mask names, and the other groups keep their word.

Sources: "AMD Instinct MI200", "MI300" and "CDNA4" ISA, DPP_CTRL, DS_SWIZZLE_B32 and V_PERMLANE*_SWAP_B32.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from triton_linear.dialect import f2
from triton_linear.lowering.target.steps import Shuffle, Trade

DPP, SWIZZLE, SWAP = "dpp", "swizzle", "swap"
LANES = 64
"""The lanes of a wave."""
_QUAD_BITS = 2
_ROW_SHIFT_LEFT, _ROW_SHIFT_RIGHT = 0x100, 0x110


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """One instruction that gives each lane the word of another.

    `control` is DPP_CTRL, the offset of `ds_swizzle`, or the number of lanes that a swap exchanges at a time.
    """

    operation: str
    control: int

    @property
    def alu(self) -> int:
        """Vector instructions that the move takes."""
        return {DPP: 1, SWIZZLE: 0, SWAP: 3}[self.operation]

    @property
    def passes(self) -> int:
        """Passes of a wave through the LDS crossbar."""
        return int(self.operation == SWIZZLE)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: its operation, and its control for each xor of lane numbers that it can do."""

    operation: str
    controls: Mapping[int, int]


def quad_perm(lanes: tuple[int, int, int, int]) -> int:
    """The DPP_CTRL with which lane k of four reads lane `lanes[k]`.

    >>> hex(quad_perm((1, 0, 3, 2)))
    '0xb1'
    """
    return sum(lane << 2 * place for place, lane in enumerate(lanes))


def _flipped(xor: int) -> int:
    return quad_perm((0 ^ xor, 1 ^ xor, 2 ^ xor, 3 ^ xor))


INSTRUCTIONS: Mapping[str, Instruction] = {
    "quad_perm": Instruction(DPP, {xor: _flipped(xor) for xor in (1, 2, 3)}),
    "row_half_mirror": Instruction(DPP, {7: 0x141}),
    "row_mirror": Instruction(DPP, {15: 0x140}),
    "row_ror:8": Instruction(DPP, {8: 0x128}),
    "ds_swizzle": Instruction(SWIZZLE, {xor: xor << 10 | 0x1F for xor in range(1, 32)}),
    "v_permlane16_swap": Instruction(SWAP, {16: 16}),
    "v_permlane32_swap": Instruction(SWAP, {32: 32}),
}


@dataclass(frozen=True, slots=True)
class NativeExchange:
    """An exchange of a register bit with one of `lane_bits` that takes no selects.

    `alu` counts the vector instructions for two words, with the copies of words that are read again later.
    """

    operation: str
    lane_bits: tuple[int, ...]
    alu: int


EXCHANGES: Mapping[str, NativeExchange] = {
    "bank_mask": NativeExchange(DPP, (2, 3), 3),
    "v_permlane16_swap": NativeExchange(SWAP, (4,), 1),
    "v_permlane32_swap": NativeExchange(SWAP, (5,), 1),
}

CDNA2 = ("quad_perm", "row_half_mirror", "row_mirror", "row_ror:8", "ds_swizzle", "bank_mask")
CDNA4 = (*CDNA2, "v_permlane16_swap", "v_permlane32_swap")

# In halves of a vector instruction. A swap is three instructions. A pass through the crossbar takes two clocks
# of the CU and a wait that is not fully hidden; `ds_bpermute` takes an address on top.
_WEIGHTS = {DPP: 2, SWAP: 6, SWIZZLE: 7}
_PERMUTE_WEIGHT = 9


@functools.cache
def _routes(instructions: tuple[str, ...]) -> Mapping[int, tuple[Move, ...]]:
    """The lightest sequence of moves for each xor, if it is lighter than `ds_bpermute` (Dijkstra)."""
    steps = [
        (xor, Move(instruction.operation, control), _WEIGHTS[instruction.operation])
        for instruction in (INSTRUCTIONS[name] for name in instructions if name in INSTRUCTIONS)
        for xor, control in instruction.controls.items()
    ]
    found: dict[int, tuple[Move, ...]] = {}
    queue: list[tuple[int, int, int, tuple[Move, ...]]] = [(0, 0, 0, ())]
    while queue:
        weight, length, xor, route = heapq.heappop(queue)
        if xor in found:
            continue
        found[xor] = route
        for flipped, move, more in steps:
            if xor ^ flipped not in found and weight + more < _PERMUTE_WEIGHT:
                heapq.heappush(queue, (weight + more, length + 1, xor ^ flipped, (*route, move)))
    return found


def route(step: Shuffle, instructions: tuple[str, ...]) -> tuple[Move, ...] | None:
    """The moves that do a shuffle, one after the other; None if it takes `ds_bpermute`."""
    columns = step.lane_columns
    if columns is None:
        return _routes(instructions).get(step.lane_xor)
    inside, others = columns[:_QUAD_BITS], columns[_QUAD_BITS:]
    own = f2.identity(LANES.bit_length() - 1)[_QUAD_BITS:]
    if max(step.lane_xor, *inside) >> _QUAD_BITS or others != own + (0,) * (len(others) - len(own)):
        return None
    # Every group of four lanes reads within itself, all in the same way.
    first, second, third, fourth = (lane ^ step.lane_xor for lane in f2.sums(inside))
    return (Move(DPP, quad_perm((first, second, third, fourth))),)


@functools.cache
def native_exchanges(instructions: tuple[str, ...]) -> Mapping[int, NativeExchange]:
    """The exchange without selects for each lane bit that has one."""
    found = [EXCHANGES[name] for name in instructions if name in EXCHANGES]
    return {bit: native for native in found for bit in native.lane_bits}


def shift(lane_bit: int, side: int) -> tuple[int, int]:
    """(DPP_CTRL, bank mask) of the shift that overwrites one side's word of an exchange with the other side's.

    >>> [hex(value) for value in (*shift(2, side=0), *shift(3, side=1))]
    ['0x114', '0xa', '0x108', '0x3']
    """
    banks = sum(1 << bank for bank in range(4) if bank >> (lane_bit - 2) & 1 != side)
    return (_ROW_SHIFT_LEFT if side else _ROW_SHIFT_RIGHT) | 1 << lane_bit, banks


def work(step: Shuffle | Trade, instructions: tuple[str, ...]) -> tuple[float, int]:
    """(vector instructions, passes through the LDS crossbar) of a step."""
    if isinstance(step, Trade):
        return native_exchanges(instructions)[step.lane_bit].alu / 2, 0
    moves = route(step, instructions)
    if moves is None:
        return 0, 1
    return sum(move.alu for move in moves), sum(move.passes for move in moves)
