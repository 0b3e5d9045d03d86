"""Conversions inside a warp, by shuffles.

Write the conversion C (destination index -> source index, inside a warp) in blocks over register bits r, lane
bits l and warp bits w, all over F2:

    source register = a r + b l + e w        source lane = c r + d l + f w

A shuffle round moves one word per lane: the sender picks it, the receiver picks whom to read. With a twist K
(lane bits -> destination register bits), round q serves in lane l the destination register r = q + K l, so

    lane read in round q      = c q + D l + f w,              D = d + c K
    register sent in round q  = P1 q + P2 l + P3 w            (l: the sender's own lane)
      where P2 D = b + a K,  P1 = a + P2 c,  P3 = e + P2 f

which exists when D's null space lies in that of b + a K. The sender's dependence on its lane (P2, P3) is a
chain of selects between pairs of registers before the rounds, the receiver's (K) one after them. Choosing K
so that D is the identity makes every round with c q = 0 free and the others butterflies: m exchanges of a
lane bit with a register bit cost (1 - 2^-m) R shuffles of R words (the paper's section on warp shuffles).

Elements below 32 bits are packed along a space V of destination registers with c V = 0 whose sources a V the
selects never separate, so every stage works on whole words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triton_linear.dialect import f2
from triton_linear.lowering.conversion import Conversion, Origin, Reach
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.plan import Cost, Rejected, Round, ShufflePlan, Stage
from triton_linear.lowering.targets import Target

PLANNER = "shuffle"
Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of C, as columns; `registers` counts the source's register bits."""

    a: Columns
    b: Columns
    c: Columns
    d: Columns
    e: Columns
    f: Columns
    registers: int


def plan_shuffle(conv: Conversion, element: ElementType, target: Target) -> ShufflePlan | Rejected:
    """The cheapest shuffle plan for a conversion inside a warp, or why there is none.

    Requires: both layouts have the target's lanes.
    Ensures: no shared memory; the words moved carry up to 32 useful bits.
    """
    if conv.reach > Reach.WARP:
        return Rejected(PLANNER, conv.witness(Reach.WARP))
    blocks = _blocks(conv)
    twists = [twist for twist in (_straightening_twist(blocks), _least_twist(blocks)) if twist is not None]
    if not twists:
        return Rejected(PLANNER, _entangled(blocks))
    plans = [_plan_with_twist(blocks, twist, element) for twist in twists]
    return min(plans, key=lambda plan: cost_of_shuffle(plan, element, target).clocks)


def cost_of_shuffle(plan: ShufflePlan, element: ElementType, target: Target) -> Cost:
    """Count what one warp executes; clocks by the target's table."""
    parts = 2 if element.bits == 64 else 1
    shuffles = plan.shuffles * parts
    received, selects = _needed(plan.post, {word for word, _ in plan.outputs})
    if len(plan.pre) == len(plan.post) == 1 and plan.pre[0].mask == plan.post[0].mask:
        # Of a pair's two selects before and two after the shuffle, LLVM drops the one whose result stays in
        # its lane and is selected again on the same condition.
        selects -= len(plan.rounds) // 2
    packed, more = _needed(plan.pre, {plan.rounds[index].word for index in received})
    alu = (selects + more) * parts
    if len(plan.words[0]) > 1:
        per_word = 32 // max(8, element.bits)
        alu += packing_cost((plan.words[index] for index in sorted(packed)), per_word)
        alu += gathering_cost(plan.outputs, per_word)
    return Cost(target.costs.clocks(shuffles * target.costs.shuffle, alu), shuffles=shuffles, alu=alu)


def _needed(stages: Sequence[Stage], words: set[int]) -> tuple[set[int], int]:
    """The words that must go into the stages for these to come out, and the selects on the way."""
    selects = 0
    for stage in reversed(stages):
        selects += len(words)
        words = words | {stage.partner[index] for index in words}
    return words, selects


def packing_cost(words: Iterable[Sequence[int]], per_word: int) -> int:
    """Byte permutes that make these words of registers, which lie side by side, `per_word` in a word."""
    cost = 0
    for registers in words:
        sources = {register // per_word for register in registers}
        in_place = all(register % per_word == slot for slot, register in enumerate(registers))
        cost += max(len(sources) - 1, 0 if in_place else 1)
    return cost


def gathering_cost(places: Sequence[tuple[int, int]], per_word: int) -> int:
    """Byte permutes that make words of `per_word` neighbouring registers from their (word, position) places."""
    cost = 0
    for start in range(0, len(places), per_word):
        group = places[start : start + per_word]
        in_place = all(position == slot for slot, (_, position) in enumerate(group))
        cost += max(len({word for word, _ in group}) - 1, 0 if in_place else 1)
    return cost


def _blocks(conv: Conversion) -> _Blocks:
    def columns(origins: tuple[Origin, ...]) -> tuple[Columns, Columns]:
        return tuple(o.register for o in origins), tuple(o.lane for o in origins)

    a, c = columns(conv.register)
    b, d = columns(conv.lane)
    e, f = columns(conv.warp)
    # Registers that repeat others (null space of a over c) need no round of their own; without them every
    # further question has one answer.
    return _Blocks(a, b, c, d, e, f, registers=len(conv.src.register))


def _straightening_twist(blocks: _Blocks) -> Columns | None:
    """K with D = 1, if there is one."""
    span = f2.Echelon(blocks.c)
    twist = [span.solve(column ^ (1 << lane)) for lane, column in enumerate(blocks.d)]
    found = tuple(column for column in twist if column is not None)
    return found if len(found) == len(twist) else None


def _least_twist(blocks: _Blocks) -> Columns | None:
    """K of small rank with null(D) inside null(b + a K), grown from zero one dimension at a time."""
    twist = [0] * len(blocks.d)
    for _ in range(len(twist) + 1):
        lanes, senders = _twisted(blocks, tuple(twist))
        lost = next((x for x in f2.null_space(lanes) if f2.multiply_vector(senders, x)), None)
        if lost is None:
            return tuple(twist)
        span = f2.Echelon(lanes)
        fresh = next((q for q, column in enumerate(blocks.c) if column not in span), None)
        if fresh is None:
            return None
        twist[(lost & -lost).bit_length() - 1] ^= 1 << fresh
    return None


def _twisted(blocks: _Blocks, twist: Columns) -> tuple[Columns, Columns]:
    """D = d + c K and b + a K."""
    lanes = tuple(d ^ f2.multiply_vector(blocks.c, k) for d, k in zip(blocks.d, twist, strict=True))
    senders = tuple(b ^ f2.multiply_vector(blocks.a, k) for b, k in zip(blocks.b, twist, strict=True))
    return lanes, senders


def _entangled(blocks: _Blocks) -> str:
    lost = next(x for x in f2.null_space(blocks.d) if f2.multiply_vector(blocks.b, x))
    return (
        f"destination lane={lost} needs another register of the same source lane in the same round, "
        "and no destination register reads another lane"
    )


def _plan_with_twist(blocks: _Blocks, twist: Columns, element: ElementType) -> ShufflePlan:
    destination_bits = len(blocks.a)
    lane_bits = len(blocks.d)
    stacked = tuple(a | c << blocks.registers for a, c in zip(blocks.a, blocks.c, strict=True))
    repeats = f2.null_space(stacked)

    # Destination registers modulo repeats, a basis that contains the image of K.
    distinct = f2.extend(repeats, (*twist, *f2.identity(destination_bits)))
    modulo_repeats = _Coordinates((*distinct, *repeats))
    twist = tuple(_combine(distinct, modulo_repeats.of(k)) for k in twist)

    lanes, senders = _twisted(blocks, twist)
    p2 = _factor_through(lanes, senders, lane_bits)
    p1 = tuple(a ^ f2.multiply_vector(p2, c) for a, c in zip(blocks.a, blocks.c, strict=True))
    p3 = tuple(e ^ f2.multiply_vector(p2, f) for e, f in zip(blocks.e, blocks.f, strict=True))

    steered = (*p2, *p3, *(f2.multiply_vector(p1, k) for k in twist))
    packed = _packing(blocks, distinct, steered, element)
    packed_sources = tuple(f2.multiply_vector(blocks.a, v) for v in packed)
    leaders = f2.extend(packed_sources, (*steered, *f2.identity(blocks.registers)))
    source = _Coordinates((*packed_sources, *leaders))

    # Shift each round's representative along V so that its source is a word's leader.
    rounds_basis = []
    for q in f2.extend(packed, (*twist, *distinct)):
        position = source.of(f2.multiply_vector(p1, q)) & ((1 << len(packed)) - 1)
        rounds_basis.append(q ^ _combine(packed, position))
    destination = _Coordinates((*packed, *rounds_basis, *repeats))

    width = len(packed)
    round_mask = (1 << len(rounds_basis)) - 1

    def round_of(register: int) -> int:
        return destination.of(register) >> width & round_mask

    def word_of(register: int) -> int:
        return source.of(register) >> width

    rounds = []
    for index in range(1 << len(rounds_basis)):
        q = _combine(tuple(rounds_basis), index)
        rounds.append(Round(word_of(f2.multiply_vector(p1, q)), f2.multiply_vector(blocks.c, q)))
    outputs = []
    for register in range(1 << destination_bits):
        where = destination.of(register)
        outputs.append((where >> width & round_mask, where & ((1 << width) - 1)))
    lane_columns = (*lanes, *blocks.f)
    stay = tuple(1 << lane for lane in range(lane_bits)) + (0,) * len(blocks.f)
    return ShufflePlan(
        source_registers=1 << blocks.registers,
        words=tuple(
            tuple(
                _combine(leaders, word) ^ _combine(packed_sources, position) for position in range(1 << width)
            )
            for word in range(1 << len(leaders))
        ),
        pre=_stages(tuple(word_of(column) for column in (*p2, *p3)), 1 << len(leaders)),
        lane_columns=lane_columns,
        lane_map_is_identity=lane_columns == stay,
        rounds=tuple(rounds),
        post=_stages(tuple(round_of(k) for k in twist), len(rounds)),
        outputs=tuple(outputs),
    )


def _factor_through(inner: Columns, outer: Columns, rows: int) -> Columns:
    """X with X · inner = outer; zero outside the image of `inner`."""
    images = f2.Echelon()
    values = []
    for column, value in zip(inner, outer, strict=True):
        if images.add(column):
            values.append(value)
        else:
            values.append(0)
    for unit in f2.identity(rows):
        images.add(unit)
        values.append(0)
    result = []
    for unit in f2.identity(rows):
        combination = images.solve(unit)
        assert combination is not None  # the units are in the span
        result.append(_combine(tuple(values), combination))
    return tuple(result)


def _packing(blocks: _Blocks, distinct: Columns, steered: Columns, element: ElementType) -> Columns:
    """V: destination registers that travel in one word, lowest register bits first."""
    most = (32 // max(8, element.bits)).bit_length() - 1 if element.bits < 32 else 0
    still = [
        _combine(distinct, x) for x in f2.null_space(tuple(f2.multiply_vector(blocks.c, q) for q in distinct))
    ]
    chosen: list[int] = []
    span = f2.Echelon(steered)
    for v in sorted(f2.reduce(still)):
        if len(chosen) == most:
            break
        if span.add(f2.multiply_vector(blocks.a, v)):
            chosen.append(v)
    return tuple(chosen)


def _stages(columns: Columns, words: int) -> tuple[Stage, ...]:
    """Select stages that xor a word's index with the sum of `columns` over the set bits of the thread."""
    span = f2.Echelon()
    masks: dict[int, int] = {}
    for column in columns:
        span.add(column)
    for bit, column in enumerate(columns):
        combination = span.solve(column)
        assert combination is not None  # every column was added
        for index, vector in enumerate(columns):
            if combination >> index & 1:
                masks[vector] = masks.get(vector, 0) | 1 << bit
    return tuple(
        Stage(mask, tuple(index ^ vector for index in range(words))) for vector, mask in masks.items() if vector
    )


class _Coordinates:
    """Coordinates in a basis given by its vectors."""

    __slots__ = ("_span",)

    def __init__(self, basis: Columns) -> None:
        self._span = f2.Echelon(basis)

    def of(self, vector: int) -> int:
        """The set of basis vectors, bit i for the i-th, whose sum is `vector`."""
        found = self._span.solve(vector)
        if found is None:
            raise ValueError(f"vector {vector} is outside the basis")
        return found


def _combine(vectors: Columns, selection: int) -> int:
    """The sum of the selected vectors; selections beyond the last are ignored."""
    return f2.multiply_vector(vectors, selection & ((1 << len(vectors)) - 1))
