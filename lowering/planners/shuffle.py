"""Conversions inside a warp, by shuffles.

A phase (`phase`) does all m exchanges of a lane bit with a register bit at once, by (1 - 2^-m) R shuffles of R
words and about 2 m R selects. A single exchange takes R / 2 shuffles and 3 R / 2 selects. So each exchange gets
a phase of its own, except the last ones: the last phase does one exchange, or two if lanes are permuted
besides. Some GPUs have instructions that exchange a lane bit with the bit that numbers two words; these
exchanges may come first. If the register bit is inside words, it is first exchanged with one that numbers
words, by a permute for each word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Rejected, ShufflePlan, Work
from triton_linear.lowering.plan.words import TooLong, WordBuilder
from triton_linear.lowering.planners.conversion import Conversion, Hardware, Reach, between
from triton_linear.lowering.planners.phase import Blocks, entangled, phases
from triton_linear.lowering.target.lanes import native_exchanges
from triton_linear.lowering.target.targets import Target

PLANNER = "shuffle"


def plan_shuffle(conv: Conversion, element: ElementType, target: Target) -> ShufflePlan | Rejected:
    """The cheapest plan by shuffles for a conversion inside a warp, or the reason why there is none.

    Requires: both layouts have the target's lanes.
    Ensures: no shared memory; a word carries as many elements as fit into 32 bits, if both layouts allow.
    """
    if conv.reach > Reach.WARP:
        return Rejected(PLANNER, conv.witness(Reach.WARP))
    best = _planned(_State.of(conv.src, element.per_word), conv.dst)
    if best is None:
        return Rejected(PLANNER, entangled(Blocks.of(conv)))
    if bits := native_exchanges(target.lane_instructions):
        state = _after_native_exchanges(_State.of(conv.src, element.per_word), conv.dst, bits)
        native = None if state is None else _planned(state, conv.dst)
        if native is not None:
            best = min(best, native, key=lambda plan: clocks_of_shuffles(plan, element, target))
    return best


def _planned(state: _State, wanted: Hardware) -> ShufflePlan | None:
    """The plan that does exchanges one by one while that is cheaper, and the rest in one phase."""
    while not _is_best_at_once(state.held, wanted):
        swap = _next_swap(state.held, wanted, state.builder.slots)
        after = None if swap is None else state.advance(swap.following(state.held))
        if after is None:
            break
        state = after
    return state.finish(wanted)


def _after_native_exchanges(state: _State, wanted: Hardware, bits: Collection[int]) -> _State | None:
    """The state after all exchanges of the lane bits `bits`, each by its own instructions; None if there are
    none."""
    source = state.held
    while True:
        swap = _next_swap(state.held, wanted, state.builder.slots, bits)
        after = None if swap is None else state.trade(swap, wanted)
        if after is None:
            return None if state.held == source else state
        state = after


def work_of_shuffles(plan: ShufflePlan, element: ElementType, target: Target) -> Work:
    """The instructions of one warp."""
    parts = 2 if element.bits == 64 else 1
    moving, shuffles = plan.moving(target)
    return Work(shuffles * parts, (plan.picks + moving) * parts, waits=plan.phases)


def clocks_of_shuffles(plan: ShufflePlan, element: ElementType, target: Target) -> float:
    """Clocks of one warp among enough others."""
    return work_of_shuffles(plan, element, target).clocks(target.costs)


@dataclass(frozen=True, slots=True)
class _State:
    """A program so far, and the layout `held` of its last `words`: register r is slot r mod s of word r div
    s."""

    builder: WordBuilder
    words: tuple[int, ...]
    held: Hardware
    phases: int

    @staticmethod
    def of(source: Hardware, slots: int) -> _State:
        """The state of the source registers, without steps."""
        count = max(1, (1 << len(source.register)) // slots)
        return _State(WordBuilder(slots, count), tuple(range(count)), source, 0)

    def advance(self, following: Hardware) -> _State | None:
        """The state that holds the layout `following`, after one more phase; None if it has no phase."""
        found = self._best(Blocks.of(between(self.held, following)))
        return None if found is None else _State(*found, following, self.phases + 1)

    def trade(self, swap: _Swap, wanted: Hardware) -> _State | None:
        """The state after an exchange by the GPU's exchange instructions; None if no register bit can do it."""
        builder, held, words = self.builder.copy(), self.held, list(self.words)
        inside = builder.slots.bit_length() - 1
        bits = [bit for bit in _bits(swap.combination) if bit >= inside]
        bit, combination = swap.bit, swap.combination
        if not bits:
            # The register bit is inside words. It changes places with one that numbers words, if possible one
            # that is inside words in the wanted layout.
            final = f2.Echelon(wanted.register[:inside])
            outside = range(inside, len(held.register))
            other = min(outside, key=lambda b: (held.register[b] not in final, b), default=None)
            if other is None:
                return None
            units = list(f2.identity(len(held.register)))
            units[bit], units[other] = units[other], combination
            register = tuple(f2.multiply_vector(held.register, unit) for unit in units)
            words = [
                builder.choose_places((), (tuple((words[r // builder.slots], r % builder.slots) for r in row),))
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
                    other_word = builder.choose_places((), (row,))
                made[first], made[second] = builder.trade(words[first], other_word, swap.lane)
        following = _Swap(swap.lane, bit, combination).following(held)
        return _State(builder, tuple(made), following, self.phases)

    def finish(self, wanted: Hardware) -> ShufflePlan | None:
        """The plan that ends with the layout `wanted`; None if the rest has no phase."""
        found = self._best(Blocks.of(between(self.held, wanted)))
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

    def _best(self, blocks: Blocks) -> tuple[WordBuilder, tuple[int, ...]] | None:
        """The program and words after the phase for `blocks` that takes the fewest steps."""
        best: tuple[WordBuilder, tuple[int, ...]] | None = None
        for phase in phases(blocks, self.builder.slots):
            builder = self.builder.copy(limit=None if best is None else len(best[0].steps))
            try:
                words = phase.write(builder, self.words)
            except TooLong:
                continue
            if best is None or len(builder.steps) < len(best[0].steps):
                best = builder, words
        return best


def _is_best_at_once(held: Hardware, wanted: Hardware) -> bool:
    """True if one exchange is left, or two and lanes are permuted as well: the same shuffles then do both."""
    conv = between(held, wanted)
    exchanges = f2.rank(origin.lane for origin in conv.register)
    moved = sum(ours != theirs for ours, theirs in zip(held.lane, wanted.lane, strict=True))
    return exchanges <= 1 or (exchanges == 2 and moved > exchanges)


@dataclass(frozen=True, slots=True)
class _Swap:
    """An exchange of the lane bit `lane` with a register bit.

    The lane bit gets the sum of the register bits in the mask `combination`; `bit`, one of these, gets the
    column of the lane bit.
    """

    lane: int
    bit: int
    combination: int

    def following(self, held: Hardware) -> Hardware:
        """The layout after the exchange."""
        lane, bit = self.lane, self.bit
        column = f2.multiply_vector(held.register, self.combination)
        register = (*held.register[:bit], held.lane[lane], *held.register[bit + 1 :])
        return replace(held, register=register, lane=(*held.lane[:lane], column, *held.lane[lane + 1 :]))


def _next_swap(
    held: Hardware, wanted: Hardware, slots: int, lanes: Collection[int] | None = None
) -> _Swap | None:
    """An exchange that brings the final column of a lane bit (one of `lanes`, if given) from registers."""
    columns = (*held.register, *held.lane)
    if f2.rank(columns) < len(columns):
        return None  # copies: the column that a lane gives up has no unique register bit to go to
    span, final = f2.Echelon(held.register), f2.Echelon(wanted.register)
    inside_words = f2.Echelon(wanted.register[: slots.bit_length() - 1])
    for lane, column in enumerate(wanted.lane):
        differs = column != held.lane[lane] and (lanes is None or lane in lanes)
        combination = span.solve(column) if differs else None
        if not combination:
            continue
        given = held.lane[lane]
        # Give up a register bit that does not stay, and that is inside words if the lane's column will be.
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
