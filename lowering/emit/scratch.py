"""The live ranges of scratch, and the scratch that is split among warps.

Triton gives two buffers that are never live together the same bytes, and puts a barrier of the CTA between
their users. Longer live ranges keep the bytes apart and save these barriers:

- The scratch of a CTA's exchange stays live after it: to the end of its block, or until the next exchange of
  that block. Two exchanges in a loop then have two pieces of scratch, and the barrier inside each is enough: a
  thread that stores to a piece again has passed the other's barrier since the piece was read. This only moves a
  `ttg.local_dealloc`. Triton's analysis compares the bytes of buffers, and puts barriers between those that do
  share bytes.
- The scratch of exchanges inside warps that are in loops is one buffer for each size, live from the beginning
  to the end of the function, so that no other buffer shares its bytes. Each of n warps has one nth of it, the
  same in every exchange. No warp accesses the part of another, so that barriers of the warp are enough: one
  inside the exchange, and one before its first store if other lanes may still be loading in an exchange before.
  Triton's analysis does not see these accesses.

Live ranges are extended only if the shared memory of all live buffers stays within `Target.shared_budget`, and
not in modules with calls. Outside loops barriers are few, and the first-level cache needs large scratch more;
there scratch stays live only until the next exchange is done, and only if one of the two is small
(`alternate`). Buffers of the warps are not used in functions or partitions of several blocks.

The regions of warp specialisation run at the same time, and share no bytes (`in_regions`). The default region
has the function's buffers of the warps. Each partition has its own, from its beginning to its end; before and
behind it their bytes are others', so they are marked there for Triton's analysis.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Block, Operation, Type
from triton_linear.dialect.partitions import PARTITIONS, WARP_SPECIALIZE, captured
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.target.targets import Target

_WITH_OWN_SCRATCH = frozenset({"ttg.convert_layout", "tt.reduce", "tt.scan", "tt.gather", "tt.histogram"})
"""Operations that Triton gives scratch while they run."""
_WHOLE_VIEWS = frozenset({"ttg.memdesc_index", "ttg.memdesc_trans", "ttg.memdesc_reshape"})
"""Operations whose result is a whole buffer, or a whole row of one."""
_WITHOUT_GAPS = frozenset({"swizzled_shared", "amd_rotating_shared", "nvmma_shared"})
"""Encodings whose rows are contiguous bytes."""
_PADDED = "padded_shared"
_ENCODED = re.compile(r"memdesc<[^,]*, #ttg\.(\w+)")
_PADDING = re.compile(r"(\d+):\+(\d+)")
_SHAPED = re.compile(r"(?:memdesc|tensor)<((?:\d+x)+)([a-zA-Z]+\d*|!)")


@dataclass(frozen=True, slots=True)
class ScratchUse:
    """An operation that needs scratch, and its place in the module.

    Operations are numbered in the order of the text. start: the number of the operation. end: the first number
    behind it and the operations inside it. block_end: the number of the last operation of its block. nesting:
    the regions around it, with that of the function. warp: true if its scratch should be freed at once. split:
    true if each warp accesses its own part of the scratch only.
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
        """True if it may be in a loop."""
        return self.nesting > 1


@dataclass(frozen=True, slots=True)
class Home:
    """The scratch of an exchange: a buffer of its own that is freed before operation `freed`, or, if `lent`, a
    buffer of the warps.

    waits: lanes may still be loading from that buffer, so that the exchange begins with a barrier of the warp.
    """

    freed: int
    lent: bool = False
    waits: bool = False


def shortest(uses: Sequence[ScratchUse]) -> tuple[Home, ...]:
    """Buffers that are freed directly behind their use."""
    return tuple(Home(use.end) for use in uses)


def arrange(uses: Sequence[ScratchUse], others: int, budget: int, pieces: int) -> tuple[tuple[Home, ...], int]:
    """The homes of all uses, with the live ranges extended that `budget` bytes allow, and the budget.

    others: bytes of the budget that other buffers take. pieces: if a CTA has more exchanges, either all their
    scratch lives to the end of its block or none is extended.

    Requires: the uses are in the order of the module.
    Ensures: the budget returned is `budget`, or the least that the uses need if no other buffer needs any.
    """
    homes = list(shortest(uses))
    if not others:
        budget = max(budget, _peak(uses, homes))

    def fits(homes: Sequence[Home]) -> bool:
        return others + _peak(uses, homes) <= budget

    for size in sorted({use.bytes for use in uses if use.split}):
        lent = _lent(uses, homes, size)
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


def _lent(uses: Sequence[ScratchUse], homes: Sequence[Home], size: int) -> list[Home]:
    """The homes, with a buffer of the warps for the uses of `size` bytes that split it."""
    borrowers = [i for i, use in enumerate(uses) if use.split and use.bytes == size]
    lent = list(homes)
    for i in borrowers:
        lent[i] = Home(uses[i].end, lent=True, waits=i > borrowers[0] or uses[i].may_repeat)
    return lent


def alternate(uses: Sequence[ScratchUse], homes: Sequence[Home], small: int, room: int) -> tuple[Home, ...]:
    """The homes, with the scratch of a CTA live until the next exchange of its block is done if one of the two
    is small. Where that takes more than `small` bytes, or more than there are, both have to be small.

    Two pieces of scratch then serve any number of exchanges, and no two that follow each other share bytes.
    small: the bytes that are little. room: the most bytes of scratch that may be live at once.

    Requires: the uses are in the order of the module.
    """
    blocks: dict[int, list[int]] = {}
    for i, use in enumerate(uses):
        if not use.warp:
            blocks.setdefault(use.block_end, []).append(i)
    most = min(room, _peak(uses, homes) + small)
    for least_or_most in (min, max):
        longer = list(homes)
        for members in blocks.values():
            for i, after in itertools.pairwise(members):
                if least_or_most(uses[i].bytes, uses[after].bytes) <= small:
                    longer[i] = Home(max(homes[i].freed, uses[after].end))
        if _peak(uses, longer) <= most:
            return tuple(longer)
    return tuple(homes)


def arranged(
    uses: Sequence[ScratchUse], others: int, budget: int, pieces: int, small: int
) -> tuple[tuple[Home, ...], int]:
    """The homes of all uses, and the budget: those of `arrange` in loops, and of `alternate`.

    Outside loops a barrier costs less than much memory: what is shared, the first-level cache lacks. A barrier
    of a cluster costs more.
    """
    extended, budget = arrange(uses, others, budget, pieces)
    homes = [home if use.may_repeat else Home(use.end) for use, home in zip(uses, extended, strict=True)]
    return alternate(uses, homes, small, budget - others), budget


def in_regions(
    groups: Sequence[Sequence[ScratchUse]], others: int, budget: int, pieces: int, small: int
) -> dict[int, Home]:
    """The homes of uses in regions that run at the same time, by the operations' numbers: those of `arranged`
    in one region after the other.

    groups: the uses of each region, in the order of the module. others: bytes that other buffers take. Others
    are as for these functions.
    """
    peaks = [_peak(uses, shortest(uses)) for uses in groups]
    found: dict[int, Home] = {}
    for region, uses in enumerate(groups):
        rest = others + sum(peaks) - peaks[region]
        # Nothing is extended beyond the budget, though the region may need more than that.
        homes, _ = arranged(uses, max(1, rest), budget, pieces, small)
        peaks[region] = _peak(uses, homes)
        found |= {use.start: home for use, home in zip(uses, homes, strict=True)}
    return found


def least(uses: Sequence[ScratchUse], others: int) -> int:
    """The most bytes that are live at once if all scratch is freed directly behind its use."""
    return others + _peak(uses, shortest(uses))


def _peak(uses: Sequence[ScratchUse], homes: Sequence[Home]) -> int:
    """The most bytes of scratch that are live at once."""
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
    """The numbers of the first operation of a module's only function, or of a partition, and of the one that
    ends it."""

    begin: int
    end: int


class NumberedModule:
    """The operations of a module, numbered in the order of the text."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.ops = ops
        self.names = [op.name for op in ops]
        self._lasts: dict[Block, int] = {}

    def use(self, number: int, plan: SharedPlan, target: Target, num_warps: int, framed: bool) -> ScratchUse:
        """The scratch use of operation `number`, which `plan` lowers. `framed`: its function has a `Frame`, or
        its partition an end, so that buffers of the warps are possible."""
        op = self.ops[number]
        warp = plan.scope == "warp"
        split = warp and framed and keeps_to_own_part(plan, target, num_warps)
        last = self._last_of(op, number)
        return ScratchUse(number, number + 1, last, nesting_of(op), plan.scratch_bytes, warp, split)

    def _last_of(self, op: Operation, number: int) -> int:
        """The number of the last operation in the block of operation `number`, which is `op`."""
        block = op.block
        if block not in self._lasts:  # each block is walked through once
            last = block.operations[len(block.operations) - 1]
            self._lasts[block] = next(n for n in range(number, len(self.ops)) if self.ops[n] == last)
        return self._lasts[block]

    def frame(self) -> Frame | None:
        """The frame of the module's only function; None if there are several functions, blocks or returns."""
        functions, returns = (
            [n for n, name in enumerate(self.names) if name == f"tt.{kind}"] for kind in ("func", "return")
        )
        if len(functions) != 1 or len(returns) != 1:
            return None
        region = self.ops[functions[0]].regions[0]
        if len(region.blocks) != 1 or nesting_of(self.ops[returns[0]]) != 1:
            return None
        return Frame(functions[0] + 1, returns[0])

    def buffer_bytes(self) -> int:
        """The bytes of all buffers of the module, if no two share bytes."""
        return sum(
            _bytes(str(op.results[0].type))
            for op, name in zip(self.ops, self.names, strict=True)
            if name == "ttg.local_alloc"
        )

    def bytes_across_regions(self, ctas: int) -> int:
        """A lower bound of what a CTA takes: the bytes of the buffers that the partitions of one warp
        specialisation are handed, which are live at once. 0 without one, and in a cluster of several `ctas`,
        where a buffer has a part in each."""
        most = 0
        if ctas > 1:
            return most
        for op, name in zip(self.ops, self.names, strict=True):
            if name == PARTITIONS:
                makers = {value.owner.operation for value in captured(op) if not isinstance(value.owner, Block)}
                buffers = [str(maker.results[0].type) for maker in makers if maker.name == "ttg.local_alloc"]
                most = max(most, sum(map(_bytes, buffers)))
        return most

    def has_no_view_between(self, step: int) -> bool:
        """True if every buffer and view begins at a multiple of `step` bytes, and every gap in it is a multiple
        of `step`: every view then has a byte at a multiple. `step` is a power of two. False if it is not
        known.

        Triton's buffers are aligned to `step` unless their attribute says otherwise; so is each row of a buffer
        if the bytes of a row are a multiple of `step`.
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
                size = _bytes(str(row))
                if size % step or size & (size - 1) or _encoding(row) not in _WITHOUT_GAPS:
                    return False
        return True

    def momentary_uses(self, num_warps: int) -> list[ScratchUse]:
        """The operations that Triton gives scratch, with an upper bound of its bytes.

        A reduction writes its results once for each warp; the others write no more than their operands.
        """
        uses = []
        for number, name in enumerate(self.names):
            if name not in _WITH_OWN_SCRATCH:
                continue
            op = self.ops[number]
            size = sum(_bytes(str(operand.type)) for operand in op.operands)
            end = number + 1
            if name == "tt.reduce":
                size = min(size, num_warps * max(8, sum(_bytes(str(result.type)) for result in op.results)))
            if len(op.regions):
                end += sum(len(block.operations) for region in op.regions for block in region.blocks)
            uses.append(ScratchUse(number, end, end, 0, size, warp=True, split=False))
        return uses


def nesting_of(op: Operation) -> int:
    """The number of regions around an operation, with that of its function; those of warp specialisation, which
    are run once, do not count."""
    found, at = 0, op.parent
    while at is not None and at.name != "builtin.module":
        found, at = found + (at.name not in (WARP_SPECIALIZE, PARTITIONS)), at.parent
    return found


@functools.lru_cache(maxsize=4096)
def _bytes(type_: str) -> int:
    """Bytes of a tensor or a buffer, 0 for other types; a pointer has 8, an i1 has one."""
    found = _SHAPED.search(type_)
    if found is None:
        return 0
    shape, element = found.groups()
    bits = int(digits[0]) if (digits := re.search(r"\d+", element)) else 64
    return math.prod(map(int, shape.split("x")[:-1])) * max(1, bits // 8)


def _encoding(buffer: Type) -> str:
    """The name of a buffer's encoding; "" if it is not one of Triton's own."""
    found = _ENCODED.search(str(buffer))
    return "" if found is None else found[1]


def _has_wide_gaps(buffer: Type, step: int) -> bool:
    """True if every gap between a buffer's first and last byte is a multiple of `step` bytes; False if it is
    not known."""
    name = _encoding(buffer)
    if name != _PADDED:
        return name in _WITHOUT_GAPS
    found = _SHAPED.search(str(buffer))
    digits = re.search(r"\d+", found[2]) if found is not None else None
    bits = int(digits[0]) if digits else 0
    counts = [int(count) for pair in _PADDING.findall(str(buffer)) for count in pair]
    return bool(bits and counts) and all(count * bits % (8 * step) == 0 for count in counts)


def keeps_to_own_part(plan: SharedPlan, target: Target, num_warps: int) -> bool:
    """True if warp w accesses only part w of `num_warps` equal parts of the plan's scratch."""
    part, lane_bits = plan.scratch_bytes // num_warps, target.lanes.bit_length() - 1
    for side in (plan.store, plan.load):
        lanes, warps, access_bytes = side.columns[:lane_bits], side.columns[lane_bits:], side.access_bytes
        offsets = [access.offset for round_ in side.rounds for access in round_]
        if any(offset >= part or offset % access_bytes for offset in (*lanes, *offsets)):
            return False
        if any(column - column % part != part << bit for bit, column in enumerate(warps)):
            return False
        if any(column % access_bytes for column in warps):
            return False
    return part & (part - 1) == 0
