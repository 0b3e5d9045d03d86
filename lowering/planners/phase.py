"""One phase of shuffles: the register that each lane sends, the lane that it reads, and the packing into words.

Write the conversion C (destination index -> source index, inside a warp) in blocks over register bits r, lane
bits l and warp bits w, all over F2:

    source register = a r + b l + e w        source lane = c r + d l + f w

A shuffle round moves one word per lane: the sender picks the word, the receiver picks the lane. With a twist K
(lane bits -> destination register bits), round q serves in lane l the destination register r = q + K l, so

    lane read in round q      = c q + D l + f w,              D = d + c K
    register sent in round q  = P1 q + P2 l + P3 w            (l: the sender's own lane)
      where P2 D = b + a K,  P1 = a + P2 c,  P3 = e + P2 f

which exists if D's null space lies in that of b + a K. If K makes D the identity, every round with c q = 0 is
free and the others are butterflies: m exchanges of a lane bit with a register bit cost (1 - 2^-m) R shuffles of
R words (the paper's section on warp shuffles). The registers that a sender packs into a word depend on its lane
(P2, P3), the slots that a receiver takes on its own lane (K): `words` does both by byte permutes and selects.

Elements below 32 bits travel in words along a space V of destination registers with c V = 0: all registers of a
word have the same sender and the same receiver. V is chosen near the words in which both sides keep their
registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.words import NOWHERE, Row, WordBuilder, parity_terms
from triton_linear.lowering.planners.conversion import Conversion, Origin
from triton_linear.lowering.target.steps import Shuffle

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of C, as columns; `registers`: register bits of the source."""

    a: Columns
    b: Columns
    c: Columns
    d: Columns
    e: Columns
    f: Columns
    registers: int

    @staticmethod
    def of(conv: Conversion) -> Blocks:
        """The blocks of a conversion inside a warp."""

        def columns(origins: tuple[Origin, ...]) -> tuple[Columns, Columns]:
            return tuple(o.register for o in origins), tuple(o.lane for o in origins)

        a, c = columns(conv.register)
        b, d = columns(conv.lane)
        e, f = columns(conv.warp)
        return Blocks(a, b, c, d, e, f, registers=len(conv.src.register))


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase that sends one word along V (`packed`) per round; `repeats`: differences of destination registers
    that are equal."""

    blocks: Blocks
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

        # The linear functions of a destination register, for every destination register.
        away, origins = f2.sums(blocks.c), f2.sums(p1)
        numbers = f2.sums(tuple(map(coordinates.of, f2.identity(destination_bits))))
        terms = parity_terms((*p2, *p3))
        offsets = f2.sums(tuple(vector for vector, _ in terms))
        masks = tuple(mask for _, mask in terms)
        along = f2.sums(self.packed)

        # All words are made before the first is sent, and all are sent before a received one is used: compilers
        # keep much of that order, so that the latencies overlap.
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

        # The place of a destination register depends on the thread through K, and through P if it was not sent.
        own = parity_terms(
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

        # The place of each destination register that came from another lane; None: it is in its own lane.
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


def phases(blocks: Blocks, slots: int) -> Iterator[Phase]:
    """Yield the phases worth trying; none if every twist asks one lane for two registers in the same round."""
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
                yield Phase(blocks, twist, packed, rounds, repeats)


def _packings(blocks: Blocks, distinct: Columns, slots: int) -> Iterator[Columns]:
    """Yield choices of V, the destination registers that travel in one word."""
    most = slots.bit_length() - 1
    still = [
        _combine(distinct, x) for x in f2.null_space(tuple(f2.multiply_vector(blocks.c, q) for q in distinct))
    ]
    if not most or not still:
        yield ()
        return
    still = list(f2.reduce(still))
    # taken: registers inside one word of the destination. given: inside one word of the source.
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


def _straightening_twist(blocks: Blocks) -> Columns | None:
    """K that makes D the identity, or None."""
    span = f2.Echelon(blocks.c)
    twist = [span.solve(column ^ (1 << lane)) for lane, column in enumerate(blocks.d)]
    found = tuple(column for column in twist if column is not None)
    return found if len(found) == len(twist) else None


def _least_twist(blocks: Blocks) -> Columns | None:
    """K of small rank with null(D) inside null(b + a K), or None; grown from zero one dimension at a time."""
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


def _twisted(blocks: Blocks, twist: Columns) -> tuple[Columns, Columns]:
    """(d + c K, b + a K); the first is D."""
    lanes = tuple(d ^ f2.multiply_vector(blocks.c, k) for d, k in zip(blocks.d, twist, strict=True))
    senders = tuple(b ^ f2.multiply_vector(blocks.a, k) for b, k in zip(blocks.b, twist, strict=True))
    return lanes, senders


def entangled(blocks: Blocks) -> str:
    """The reason why a conversion has no phase. Requires: it has none."""
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
        assert combination is not None  # the span was completed by all unit vectors
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
