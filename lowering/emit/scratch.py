"""How long scratch lives, and what of it belongs to the warps.

Triton gives two buffers that are never alive together the same bytes, and puts a barrier of the CTA between
their users. Where there is room, longer lives keep the bytes apart and save those barriers:

- The scratch of a CTA's exchange stays reserved beyond it: to the end of its block, else to behind the next
  exchange of that block. So two exchanges in a loop have two pieces of scratch, and the barrier inside each is
  all they need: who stores to a piece again has passed the other's barrier since it was read. This only moves a
  `ttg.local_dealloc`. Triton's analysis goes by the bytes that it finds, and puts barriers where they do meet.
- The scratch of exchanges inside warps is one buffer for each size, alive from the beginning to the end of the
  function, so nobody else has its bytes. Of n warps each has the nth part that its number says, in every
  exchange, so no warp touches what another does, and barriers of the warp are enough: one inside the exchange,
  and one before its first store where other lanes may still be loading from an exchange before. Triton's
  analysis is told nothing of it.

There is room while the shared memory of all that is alive at once stays within `Target.shared_budget`. Nothing
of this is done outside loops, where barriers are few and the first-level cache needs the memory more, nor in
modules with calls or warp specialisation; nor the second in functions of several blocks.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Block, Operation, Type
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.emit.turns import Turn, order_of, stretch_of, turns
from triton_linear.lowering.plan.gathers import GatherSharedPlan
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.target.targets import Target

_MOMENTARY = frozenset({"ttg.convert_layout", "tt.reduce", "tt.scan", "tt.gather", "tt.histogram"})
"""Operations that have scratch of Triton's while they run."""
_WHOLE_VIEWS = frozenset({"ttg.memdesc_index", "ttg.memdesc_trans", "ttg.memdesc_reshape"})
"""Operations that give all of a buffer, or of one of its rows."""
_WITHOUT_GAPS = frozenset({"swizzled_shared", "amd_rotating_shared", "nvmma_shared"})
"""Encodings whose rows have all bytes from their first to their last."""
_PADDED = "padded_shared"
_ENCODED = re.compile(r"memdesc<[^,]*, #ttg\.(\w+)")
_PADDING = re.compile(r"(\d+):\+(\d+)")
_SHAPED = re.compile(r"(?:memdesc|tensor)<((?:\d+x)+)([a-zA-Z]+\d*|!)")


@dataclass(frozen=True, slots=True)
class ScratchUse:
    """An operation that needs scratch, and where it stands in the module.

    Places are numbers of operations in the order in which they are written: it is number `start`, number `end`
    comes behind it and all that is inside it, and its block's last operation is number `block_end`. `nesting`
    counts the regions around it, that of the function included. `warp`: its scratch is best freed at once.
    `split`: each warp keeps to its own part of the scratch.
    """

    start: int
    end: int
    block_end: int
    nesting: int
    bytes: int
    warp: bool
    split: bool

    @property
    def may_repeat(self) -> bool:
        """Whether it may be in a loop."""
        return self.nesting > 1


@dataclass(frozen=True, slots=True)
class Home:
    """Where an exchange has its scratch: a buffer of its own that is freed at a place, or one of the warps'.

    `waits`: an exchange before may still be loading from that, so it begins with a barrier of the warp.
    """

    freed: int
    lent: bool = False
    waits: bool = False


def shortest(uses: Sequence[ScratchUse]) -> tuple[Home, ...]:
    """Scratch that lives no longer than its use."""
    return tuple(Home(use.end) for use in uses)


def arrange(uses: Sequence[ScratchUse], others: int, budget: int, pieces: int) -> tuple[tuple[Home, ...], int]:
    """Let scratch live as long as is good within `budget` bytes, of which `others` are not for these uses; and
    the bytes that are taken at most, the budget or what the uses need at least where nothing else needs any.
    Of more than `pieces` exchanges of a CTA, all scratch lives to the end of its block or none does.

    Requires: the uses are in the order of the module.
    """
    homes = list(shortest(uses))
    if not others:
        budget = max(budget, _peak(uses, homes))

    def fits(homes: Sequence[Home]) -> bool:
        return others + _peak(uses, homes) <= budget

    for size in sorted({use.bytes for use in uses if use.split}):
        borrowers = [i for i, use in enumerate(uses) if use.split and use.bytes == size]
        lent = homes.copy()
        for i in borrowers:
            lent[i] = Home(uses[i].end, lent=True, waits=i > borrowers[0] or uses[i].may_repeat)
        if fits(lent):
            homes = lent
    lasting = [i for i, use in enumerate(uses) if not use.warp]
    longest = homes.copy()
    for i in lasting:
        longest[i] = Home(uses[i].block_end)
    if fits(longest) or len(lasting) > pieces:
        return tuple(longest if fits(longest) else homes), budget
    for block in sorted({(-uses[i].nesting, uses[i].block_end) for i in lasting}):
        members = [i for i in lasting if uses[i].block_end == block[1]]
        behind_next = {i: uses[after].end for i, after in itertools.pairwise(members)}
        to_the_end = dict.fromkeys(members, block[1])
        for places in (to_the_end, behind_next, *({i: place} for i, place in behind_next.items())):
            longer = homes.copy()
            for i, place in places.items():
                longer[i] = Home(max(homes[i].freed, place))
            if fits(longer):
                homes = longer
    return tuple(homes), budget


def pieces(uses: Mapping[int, ScratchUse], taking: Mapping[int, Turn]) -> dict[int, int]:
    """The bytes of each piece of scratch that exchanges of a cluster take turns with."""
    sizes: dict[int, int] = {}
    for number, turn in taking.items():
        sizes[turn.piece] = max(sizes.get(turn.piece, 0), uses[number].bytes)
    return sizes


def affordable(
    uses: Mapping[int, ScratchUse],
    taking: Mapping[int, Turn],
    everybody: Sequence[ScratchUse],
    others: int,
    budget: int,
) -> tuple[Mapping[int, Turn], int]:
    """The turns that there is room for within `budget` bytes, or within those that all take anyhow: those
    given, else with one piece for all; and the bytes. None where that saves nothing.

    One piece saves barriers of the CTA in loops: Triton sees none that orders its users, as it does not know
    those of a cluster.
    """
    if taking:
        most = max(budget, least(everybody, others))
        for option in (taking, {number: Turn(0, True) for number in taking}):
            rest = [use for use in everybody if use.start not in option]
            # One outside loops that does without has that at the end of the function instead.
            without = sum(not turn.closes for turn in option.values())
            saves = without > 1 or any(uses[number].may_repeat for number in option)
            if saves and least(rest, others + sum(pieces(uses, option).values())) <= most:
                return option, most
    return {}, budget


def least(uses: Sequence[ScratchUse], others: int) -> int:
    """Bytes that are reserved at once where no scratch outlives its use."""
    return others + _peak(uses, shortest(uses))


def _peak(uses: Sequence[ScratchUse], homes: Sequence[Home]) -> int:
    """Most bytes of scratch that are reserved at once."""
    events, buffers = [], set()
    for use, home in zip(uses, homes, strict=True):
        if home.lent:
            buffers.add(use.bytes)
        else:
            events += [(use.start, use.bytes), (home.freed, -use.bytes)]
    alive = most = 0
    for _, change in sorted(events):
        alive += change
        most = max(most, alive)
    return most + sum(buffers)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the body of a module's only function begins and where it returns, as numbers of operations."""

    begin: int
    end: int


class NumberedModule:
    """The operations of a module in the order in which they are written, each known by its number."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.ops = ops
        self.names = [op.name for op in ops]
        self._lasts: dict[Block, int] = {}

    def use(
        self,
        number: int,
        plan: SharedPlan | GatherSharedPlan,
        target: Target,
        num_warps: int,
        framed: bool,
    ) -> ScratchUse:
        """The use of a plan that operation `number` stands for; `framed`: there is a place for buffers of the
        warps."""
        op = self.ops[number]
        warp = plan.scope == "warp"
        split = warp and framed and keeps_to_own_part(plan, target, num_warps)
        last = self._last_of(op, number)
        return ScratchUse(number, number + 1, last, nesting_of(op), plan.scratch_bytes, warp, split)

    def _last_of(self, op: Operation, number: int) -> int:
        """The number of the last operation of the block that operation `number` is in."""
        block = op.block
        if block not in self._lasts:  # each block is walked through once
            last = block.operations[len(block.operations) - 1]
            self._lasts[block] = next(n for n in range(number, len(self.ops)) if self.ops[n] == last)
        return self._lasts[block]

    def frame(self) -> Frame | None:
        """The body of the module's only function; None where there are several functions, blocks or returns."""
        functions, returns = (
            [n for n, name in enumerate(self.names) if name == f"tt.{kind}"] for kind in ("func", "return")
        )
        if len(functions) != 1 or len(returns) != 1:
            return None
        region = self.ops[functions[0]].regions[0]
        if len(region.blocks) != 1 or nesting_of(self.ops[returns[0]]) != 1:
            return None
        return Frame(functions[0] + 1, returns[0])

    def turns(self, frame: Frame, exchanges: Collection[int]) -> dict[int, Turn]:
        """How these exchanges of a cluster could take turns with scratch of their own."""
        return turns(order_of(stretch_of(self.ops[frame.begin].block, frame.begin, exchanges), exchanges))

    def buffer_bytes(self) -> int:
        """What the buffers of the module take if no two share bytes."""
        return sum(
            _bytes(op.results[0].type)
            for op, name in zip(self.ops, self.names, strict=True)
            if name == "ttg.local_alloc"
        )

    def has_no_view_between(self, step: int) -> bool:
        """Whether all that is accessed of any buffer has bytes at multiples of `step`, a power of two; where it
        is not known, it counts as not.

        A buffer of Triton's begins at one, unless it says otherwise. So does a row of a multiple of that.
        """
        for op, name in zip(self.ops, self.names, strict=True):
            if name == "ttg.local_alloc":
                if "alignment" in op.attributes and op.attributes["alignment"].value % step:
                    return False
                if not _has_wide_gaps(op.results[0].type, step):
                    return False
            elif name.startswith("ttg.memdesc_") and name not in _WHOLE_VIEWS:
                return False
            elif name == "ttg.memdesc_index":
                row = op.results[0].type
                size = _bytes(row)
                if size % step or size & (size - 1) or _encoding(row) not in _WITHOUT_GAPS:
                    return False
        return True

    def momentary_uses(self, num_warps: int) -> list[ScratchUse]:
        """The operations that have scratch of Triton's, with what they take at most.

        A reduction writes its results once for each warp, the others no more than they are given.
        """
        uses = []
        for number, name in enumerate(self.names):
            if name not in _MOMENTARY:
                continue
            op = self.ops[number]
            size = sum(_bytes(operand.type) for operand in op.operands)
            end = number + 1
            if name == "tt.reduce":
                size = min(size, num_warps * max(8, sum(_bytes(result.type) for result in op.results)))
            if len(op.regions):
                end += sum(len(block.operations) for region in op.regions for block in region.blocks)
            uses.append(ScratchUse(number, end, end, 0, size, warp=True, split=False))
        return uses


def nesting_of(op: Operation) -> int:
    """The regions around an operation, that of its function included."""
    found, at = 0, op.parent
    while at is not None and at.name != "builtin.module":
        found, at = found + 1, at.parent
    return found


def _bytes(type_: Type) -> int:
    """Bytes of a tensor or a buffer, none of anything else; a pointer has 8, an i1 has one."""
    found = _SHAPED.search(str(type_))
    if found is None:
        return 0
    shape, element = found.groups()
    bits = int(digits[0]) if (digits := re.search(r"\d+", element)) else 64
    return math.prod(map(int, shape.split("x")[:-1])) * max(1, bits // 8)


def _encoding(buffer: Type) -> str:
    """The name of a buffer's encoding; "" where it is not one of Triton's own."""
    found = _ENCODED.search(str(buffer))
    return "" if found is None else found[1]


def _has_wide_gaps(buffer: Type, step: int) -> bool:
    """Whether what a buffer leaves out between its first and its last byte are whole pieces of `step` bytes;
    where that is not known, it counts as not."""
    name = _encoding(buffer)
    if name != _PADDED:
        return name in _WITHOUT_GAPS
    found = _SHAPED.search(str(buffer))
    digits = re.search(r"\d+", found[2]) if found is not None else None
    bits = int(digits[0]) if digits else 0
    counts = [int(count) for pair in _PADDING.findall(str(buffer)) for count in pair]
    return bool(bits and counts) and all(count * bits % (8 * step) == 0 for count in counts)


def keeps_to_own_part(plan: SharedPlan | GatherSharedPlan, target: Target, num_warps: int) -> bool:
    """Whether warp w touches nothing but the wth of `num_warps` equal parts of the plan's scratch."""
    part = plan.scratch_bytes // num_warps
    lane_bits = target.lanes.bit_length() - 1
    for columns, offsets, access_bytes in _sides(plan):
        lanes, warps = columns[:lane_bits], columns[lane_bits:]
        if any(offset >= part or offset % access_bytes for offset in (*lanes, *offsets)):
            return False
        if any(column - column % part != part << bit for bit, column in enumerate(warps)):
            return False
        if any(column % access_bytes for column in warps):
            return False
    return part & (part - 1) == 0


def _sides(plan: SharedPlan | GatherSharedPlan) -> list[tuple[tuple[int, ...], list[int], int]]:
    """Of stores and loads what thread numbers add, what else does, and the bytes that one moves."""
    memory = (plan.store, plan.load) if isinstance(plan, SharedPlan) else (plan.store,)
    sides = [
        (side.columns, [access.offset for round_ in side.rounds for access in round_], side.access_bytes)
        for side in memory
    ]
    if isinstance(plan, GatherSharedPlan):
        places = [fetch.offset for round_ in plan.fetches for fetch in round_]
        sides.append((plan.address_by_thread, [*places, *plan.address_by_index], plan.element_bytes))
    return sides
