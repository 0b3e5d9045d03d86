"""Conversions inside a warp, by shuffles.

Write the conversion C (destination index -> source index, inside a warp) in blocks over register bits r, lane
bits l and warp bits w, all over F2:

    source register = a r + b l + e w        source lane = c r + d l + f w

A shuffle round moves one word per lane: the sender picks it, the receiver picks whom to read. With a twist K
(lane bits -> destination register bits), round q serves in lane l the destination register r = q + K l, so

    lane read in round q      = c q + D l + f w,              D = d + c K
    register sent in round q  = P1 q + P2 l + P3 w            (l: the sender's own lane)
      where P2 D = b + a K,  P1 = a + P2 c,  P3 = e + P2 f

which exists when D's null space lies in that of b + a K. Choosing K so that D is the identity makes every round
with c q = 0 free and the others butterflies: m exchanges of a lane bit with a register bit cost (1 - 2^-m) R
shuffles of R words (the paper's section on warp shuffles). What a sender puts into a word depends on its lane
(P2, P3), what a receiver takes out of it on its own (K): `words` makes either of byte permutes and selects.

Elements below 32 bits travel in words along a space V of destination registers with c V = 0, all of which a
round's sender and receiver share. V is chosen near the words in which both sides keep their registers.

All m exchanges at once take about 2 m R selects. One after another each takes R / 2 shuffles and 3 R / 2
selects, so all but the last are made one by one, or all but the last two where lanes change places besides.
Where a GPU exchanges a lane bit with the choice between two words natively, that may come first. The register
bit has to number words then: one inside them changes places with one that does, by a permute for each word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Cost, Rejected, ShufflePlan
from triton_linear.lowering.plan.words import NOWHERE, Row, TooLong, WordBuilder, spread, steering
from triton_linear.lowering.planners.conversion import Conversion, Hardware, Origin, Reach, between
from triton_linear.lowering.target.lanes import natives
from triton_linear.lowering.target.steps import Shuffle
from triton_linear.lowering.target.targets import Target

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

    @staticmethod
    def of(conv: Conversion) -> _Blocks:
        """The blocks of a conversion inside a warp."""

        def columns(origins: tuple[Origin, ...]) -> tuple[Columns, Columns]:
            return tuple(o.register for o in origins), tuple(o.lane for o in origins)

        a, c = columns(conv.register)
        b, d = columns(conv.lane)
        e, f = columns(conv.warp)
        return _Blocks(a, b, c, d, e, f, registers=len(conv.src.register))


def plan_shuffle(conv: Conversion, element: ElementType, target: Target) -> ShufflePlan | Rejected:
    """The cheapest shuffle plan for a conversion inside a warp, or why there is none.

    Requires: both layouts have the target's lanes.
    Ensures: no shared memory; the words moved carry up to 32 useful bits.
    """
    if conv.reach > Reach.WARP:
        return Rejected(PLANNER, conv.witness(Reach.WARP))
    best = _unspread_plan(_State.of(conv.src, element.per_word), conv.dst)
    if best is None:
        return Rejected(PLANNER, _entangled(_Blocks.of(conv)))
    if bits := natives(target.lane_instructions):
        state = _natively(_State.of(conv.src, element.per_word), conv.dst, bits)
        native = None if state is None else _unspread_plan(state, conv.dst)
        if native is not None:
            best = min(best, native, key=lambda plan: cost_of_shuffle(plan, element, target).clocks)
    if not target.replaces_beside_selects:
        return best
    # The other pipe is idle here, but not in every kernel: it has to pay.
    if not may_pay_to_replace(best, element, target):
        return best
    given = max(1, best.source_registers // best.slots)
    beside = replace(best, steps=spread(best.steps, best.outputs, given))
    clocks, less = (cost_of_shuffle(plan, element, target).clocks for plan in (best, beside))
    return beside if clocks > target.policy.replacing * less else best


def may_pay_to_replace(plan: ShufflePlan, element: ElementType, target: Target) -> bool:
    """Whether replacing half of the selects and permutes, which is the most there is, would pay."""
    now = cost_of_shuffle(plan, element, target)
    half = now.alu / 2
    least = target.costs.clocks(now.shuffles * target.costs.shuffle, half, half)
    return now.clocks > target.policy.replacing * least


def _unspread_plan(state: _State, wanted: Hardware) -> ShufflePlan | None:
    """The plan that makes exchanges one by one as long as that is cheaper, and the rest at once."""
    while not _is_best_at_once(state.held, wanted):
        swap = _next_swap(state.held, wanted, state.builder.slots)
        after = None if swap is None else state.advance(swap.following(state.held))
        if after is None:
            break
        state = after
    return state.finish(wanted)


def _natively(state: _State, wanted: Hardware, bits: Collection[int]) -> _State | None:
    """What is left after the exchanges of these lane bits, each by instructions of its own; None where there
    are none."""
    source = state.held
    while True:
        swap = _next_swap(state.held, wanted, state.builder.slots, bits)
        after = None if swap is None else state.trade(swap, wanted)
        if after is None:
            return None if state.held == source else state
        state = after


def cost_of_shuffle(plan: ShufflePlan, element: ElementType, target: Target) -> Cost:
    """Count what one warp executes; clocks by the target's table."""
    parts = 2 if element.bits == 64 else 1
    moving, shuffles = plan.moving(target)
    shuffles, beside = shuffles * parts, plan.replacements * parts
    alu = (plan.gathers + moving) * parts - beside
    clocks = target.costs.clocks(shuffles * target.costs.shuffle, alu, beside)
    return Cost(clocks, shuffles=shuffles, alu=alu, beside=beside)


# --- one exchange at a time ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _State:
    """A program so far and the layout that its last words hold: register r is slot r mod s of word r div s."""

    builder: WordBuilder
    words: tuple[int, ...]
    held: Hardware
    phases: int

    @staticmethod
    def of(source: Hardware, slots: int) -> _State:
        """The source registers, untouched."""
        count = max(1, (1 << len(source.register)) // slots)
        return _State(WordBuilder(slots, count), tuple(range(count)), source, 0)

    def advance(self, following: Hardware) -> _State | None:
        """The state that holds `following`."""
        found = self._best(_Blocks.of(between(self.held, following)))
        return None if found is None else _State(*found, following, self.phases + 1)

    def trade(self, swap: _Swap, wanted: Hardware) -> _State | None:
        """The state after an exchange by the instructions that there are for it."""
        builder, held, words = self.builder.copy(), self.held, list(self.words)
        inside = builder.slots.bit_length() - 1
        bits = [bit for bit in _bits(swap.combination) if bit >= inside]
        bit, combination = swap.bit, swap.combination
        if not bits:
            # The register bit is inside words: another, one that is to be inside them if there is one, has to
            # take its place. It numbers words itself then.
            final = f2.Echelon(wanted.register[:inside])
            outside = range(inside, len(held.register))
            other = min(outside, key=lambda b: (held.register[b] not in final, b), default=None)
            if other is None:
                return None
            units = list(f2.identity(len(held.register)))
            units[bit], units[other] = units[other], combination
            register = tuple(f2.multiply_vector(held.register, unit) for unit in units)
            words = [
                builder.gather((), (tuple((words[r // builder.slots], r % builder.slots) for r in row),))
                for row in _rows(f2.sums(tuple(units)), builder.slots)
            ]
            held, bit, combination = replace(held, register=register), other, 1 << other
        elif bit < inside:
            bit = bits[0]
        low, high = combination & (builder.slots - 1), combination >> inside
        made = list(words)
        for first in range(len(words)):
            second = first ^ 1 << bit - inside
            if first < second:
                other_word = words[first ^ high]
                if low:
                    row = tuple((other_word, slot ^ low) for slot in range(builder.slots))
                    other_word = builder.gather((), (row,))
                made[first], made[second] = builder.trade(words[first], other_word, swap.lane)
        following = _Swap(swap.lane, bit, combination).following(held)
        return _State(builder, tuple(made), following, self.phases)

    def finish(self, wanted: Hardware) -> ShufflePlan | None:
        """The plan that ends with `wanted`."""
        found = self._best(_Blocks.of(between(self.held, wanted)))
        if found is None:
            return None
        builder, words = found
        return ShufflePlan(
            source_registers=1 << len(self.held.register),
            destination_registers=1 << len(wanted.register),
            slots=builder.slots,
            steps=tuple(builder.steps),
            outputs=words,
            phases=self.phases + 1,
        )

    def _best(self, blocks: _Blocks) -> tuple[WordBuilder, tuple[int, ...]] | None:
        """The cheapest of the ways to do `blocks` at once."""
        best: tuple[WordBuilder, tuple[int, ...]] | None = None
        for phase in _phases(blocks, self.builder.slots):
            builder = self.builder.copy(limit=None if best is None else len(best[0].steps))
            try:
                words = phase.write(builder, self.words)
            except TooLong:
                continue
            if best is None or len(builder.steps) < len(best[0].steps):
                best = builder, words
        return best


def _is_best_at_once(held: Hardware, wanted: Hardware) -> bool:
    """One exchange, or two where lanes change places as well: their shuffles then serve both."""
    conv = between(held, wanted)
    exchanges = f2.rank(origin.lane for origin in conv.register)
    moved = sum(ours != theirs for ours, theirs in zip(held.lane, wanted.lane, strict=True))
    return exchanges <= 1 or (exchanges == 2 and moved > exchanges)


@dataclass(frozen=True, slots=True)
class _Swap:
    """An exchange that gives a lane bit the sum of some register bits, `combination`, and one of these, `bit`,
    what the lane bit was."""

    lane: int
    bit: int
    combination: int

    def following(self, held: Hardware) -> Hardware:
        """The layout after it."""
        lane, bit = self.lane, self.bit
        column = f2.multiply_vector(held.register, self.combination)
        register = (*held.register[:bit], held.lane[lane], *held.register[bit + 1 :])
        return replace(held, register=register, lane=(*held.lane[:lane], column, *held.lane[lane + 1 :]))


def _next_swap(
    held: Hardware, wanted: Hardware, slots: int, lanes: Collection[int] | None = None
) -> _Swap | None:
    """An exchange that gives a lane bit (one of `lanes`, if told) its final column, taken from registers."""
    columns = (*held.register, *held.lane)
    if f2.rank(columns) < len(columns):
        return None  # copies: what a lane would give up has no one place to go to
    span, final = f2.Echelon(held.register), f2.Echelon(wanted.register)
    inside_words = f2.Echelon(wanted.register[: slots.bit_length() - 1])
    for lane, column in enumerate(wanted.lane):
        differs = column != held.lane[lane] and (lanes is None or lane in lanes)
        combination = span.solve(column) if differs else None
        if not combination:
            continue
        given = held.lane[lane]
        # The register bit that is given up: one that is not to stay, where the lane's column is to end.
        bit = min(
            _bits(combination),
            key=lambda b: (held.register[b] in final, (1 << b < slots) != (given in inside_words), b),
        )
        return _Swap(lane, bit, combination)
    return None


def _rows(registers: Sequence[int], slots: int) -> list[Sequence[int]]:
    return [registers[start : start + slots] for start in range(0, len(registers), slots)]


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


# --- what one phase sends and takes -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Phase:
    """Words along V (`packed`) sent once per round; `repeats` are destination registers that equal others."""

    blocks: _Blocks
    twist: Columns
    packed: Columns
    rounds: Columns
    repeats: Columns

    def write(self, builder: WordBuilder, words: Sequence[int]) -> tuple[int, ...]:
        """Append the steps that take `words` of source registers to those of destination registers."""
        blocks, slots = self.blocks, builder.slots
        lane_bits, destination_bits = len(blocks.d), len(blocks.a)
        lanes, senders = _twisted(blocks, self.twist)
        p2 = _factor_through(lanes, senders, lane_bits)
        p1 = tuple(a ^ f2.multiply_vector(p2, c) for a, c in zip(blocks.a, blocks.c, strict=True))
        p3 = tuple(e ^ f2.multiply_vector(p2, f) for e, f in zip(blocks.e, blocks.f, strict=True))
        coordinates = _Coordinates((*self.packed, *self.rounds, *self.repeats))
        width = len(self.packed)
        lane_columns = (*lanes, *blocks.f)
        stays = lane_columns == tuple(1 << lane for lane in range(lane_bits)) + (0,) * len(blocks.f)

        # The place of each source register.
        held = [word * slots + slot for word in words for slot in range(slots)]

        # All that is linear in the destination register, for every one of them.
        away, origins = f2.sums(blocks.c), f2.sums(p1)
        numbers = f2.sums(tuple(map(coordinates.of, f2.identity(destination_bits))))
        steer = steering((*p2, *p3))
        offsets = f2.sums(tuple(vector for vector, _ in steer))
        masks = tuple(mask for _, mask in steer)
        along = f2.sums(self.packed)

        # Every word is made before the first is sent, and every one sent before one that came is looked at:
        # compilers keep much of that order, and the waits overlap.
        sent: list[tuple[int, int, int]] = []
        for round_ in range(1 << len(self.rounds)):
            q = _combine(self.rounds, round_)
            lane_xor = away[q]
            if stays and not lane_xor:
                continue
            kept = [origins[q ^ v] for v in along]
            table = tuple(
                [_padded([held[register ^ offset] for register in kept], slots) for offset in offsets]
            )
            sent.append((round_, builder.choose(masks, table), lane_xor))
        received = {
            round_: builder.shuffle(Shuffle(word, lane_xor, None if stays else lane_columns))
            for round_, word, lane_xor in sent
        }

        # A destination register's place depends on its thread through K and, where it never left, through P.
        own = steering(
            tuple(
                (self.twist[bit] if bit < lane_bits else 0) | column << destination_bits
                for bit, column in enumerate((*p2, *p3))
            )
        )
        own_masks = tuple(mask for _, mask in own)
        own_offsets = [
            (total & ((1 << destination_bits) - 1), total >> destination_bits)
            for total in f2.sums(tuple(vector for vector, _ in own))
        ]

        # The place of each destination register that came from another lane; None: it is where it was.
        rounds, slot = (1 << len(self.rounds)) - 1, (1 << width) - 1
        came = [
            None if stays and not lane_xor else received[found >> width & rounds] * slots + (found & slot)
            for lane_xor, found in zip(away, numbers, strict=True)
        ]

        def place(q: int, offset: int) -> int:
            found = came[q]
            return held[origins[q] ^ offset] if found is None else found

        count = 1 << destination_bits
        outputs = []
        for first in range(0, count, slots):
            registers = range(first, min(first + slots, count))
            table = tuple(
                [_padded([place(r ^ twist, own) for r in registers], slots) for twist, own in own_offsets]
            )
            outputs.append(builder.choose(own_masks, table))
        return tuple(outputs)


def _padded(places: Sequence[int], slots: int) -> Row:
    return (*places, *((NOWHERE,) * (slots - len(places))))


def _phases(blocks: _Blocks, slots: int) -> Iterator[_Phase]:
    """The ways worth trying; none where every twist leaves two registers of a lane in one round."""
    stacked = tuple(a | c << blocks.registers for a, c in zip(blocks.a, blocks.c, strict=True))
    repeats = f2.null_space(stacked)
    seen: set[tuple[Columns, Columns]] = set()
    for found in dict.fromkeys((_straightening_twist(blocks), _least_twist(blocks))):
        if found is None:
            continue
        # Destination registers modulo repeats, a basis that contains the image of K.
        distinct = f2.extend(repeats, (*found, *f2.identity(len(blocks.a))))
        modulo_repeats = _Coordinates((*distinct, *repeats))
        twist = tuple(_combine(distinct, modulo_repeats.of(k)) for k in found)
        for packed in _packings(blocks, distinct, slots):
            rounds = f2.extend(packed, (*twist, *distinct))
            if (twist, packed) not in seen:
                seen.add((twist, packed))
                yield _Phase(blocks, twist, packed, rounds, repeats)


def _packings(blocks: _Blocks, distinct: Columns, slots: int) -> Iterator[Columns]:
    """Choices of V: destination registers that travel in one word."""
    most = slots.bit_length() - 1
    still = [
        _combine(distinct, x) for x in f2.null_space(tuple(f2.multiply_vector(blocks.c, q) for q in distinct))
    ]
    if not most or not still:
        yield ()
        return
    still = list(f2.reduce(still))
    # Side by side in a word of the destination; side by side in one of the source.
    taken = [v for v in f2.reduce(still) if v < slots]
    sources = [f2.multiply_vector(blocks.a, v) for v in still]
    given = [_combine(tuple(still), x) for x in _landing_below(sources, slots, blocks.registers)]
    both = [v for v in given if v < slots]
    for order in ((*both, *given, *taken, *still), (*both, *taken, *given, *still)):
        yield f2.extend((), order)[:most]


def _landing_below(images: Sequence[int], slots: int, rows: int) -> tuple[int, ...]:
    """A basis of the combinations of `images` that are less than `slots`."""
    high = slots.bit_length() - 1
    return f2.null_space(tuple(image >> high for image in images)) if rows > high else f2.identity(len(images))


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
