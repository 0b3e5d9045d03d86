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
from collections.abc import Sequence
from dataclasses import dataclass

from triton_linear.lowering.gather_plan import GatherSharedPlan
from triton_linear.lowering.plan import SharedPlan
from triton_linear.lowering.targets import Target

_BUFFER = re.compile(r'^ *%\S+ = "ttg\.local_alloc"[^\n]*-> (!ttg\.memdesc<[^\n]*)$', re.MULTILINE)
_MOMENTARY = re.compile(
    r'^(?P<margin> *)%\S+ = "(?P<name>ttg\.convert_layout|tt\.(?:reduce|scan|gather|histogram))"'
    r"[^\n]*?(?:\(\{\n(?:.*\n)*?(?P=margin)\}\))? : \((?P<operands>[^\n]*)\) -> (?P<results>[^\n]*)\n",
    re.MULTILINE,
)
_SHAPED = re.compile(r"(?:memdesc|tensor)<((?:\d+x)+)([a-zA-Z]+\d*|!)")
_BODY = 4
"""Columns by which generic form indents the body of a function; what is deeper may be in a loop."""
_PIECES = 64
"""Exchanges in a kernel beyond which only the simplest arrangement is tried."""


@dataclass(frozen=True, slots=True)
class Use:
    """An operation that needs scratch, and where it stands in the text of the module.

    It is from `start` to `end`, where the next line begins; its block's last operation begins at
    `block_end`, `depth` columns from the margin. `warp`: its scratch is best freed at once. `split`: each warp
    keeps to its own part of the scratch.
    """

    start: int
    end: int
    block_end: int
    depth: int
    bytes: int
    warp: bool
    split: bool

    @property
    def may_repeat(self) -> bool:
        """Whether it may be in a loop."""
        return self.depth > _BODY


@dataclass(frozen=True, slots=True)
class Home:
    """Where an exchange has its scratch: a buffer of its own that is freed at a place, or one of the warps'.

    `waits`: an exchange before may still be loading from that, so it begins with a barrier of the warp.
    """

    freed: int
    lent: bool = False
    waits: bool = False


def shortest(uses: Sequence[Use]) -> tuple[Home, ...]:
    """Scratch that lives no longer than its use."""
    return tuple(Home(use.end) for use in uses)


def arrange(uses: Sequence[Use], others: int, budget: int) -> tuple[tuple[Home, ...], int]:
    """Let scratch live as long as is good within `budget` bytes, of which `others` are not for these uses; and
    the bytes that are taken at most, the budget or what the uses need at least where nothing else needs any.

    Requires: the uses are in the order of the text.
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
            lent[i] = Home(uses[i].end, lent=True, waits=i > borrowers[0] or uses[i].depth > _BODY)
        if fits(lent):
            homes = lent
    lasting = [i for i, use in enumerate(uses) if not use.warp]
    longest = homes.copy()
    for i in lasting:
        longest[i] = Home(uses[i].block_end)
    if fits(longest) or len(lasting) > _PIECES:
        return tuple(longest if fits(longest) else homes), budget
    for block in sorted({(-uses[i].depth, uses[i].block_end) for i in lasting}):
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


def least(uses: Sequence[Use], others: int) -> int:
    """Bytes that are reserved at once where no scratch outlives its use."""
    return others + _peak(uses, shortest(uses))


def _peak(uses: Sequence[Use], homes: Sequence[Home]) -> int:
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


def use_of(
    text: str,
    start: int,
    end: int,
    plan: SharedPlan | GatherSharedPlan,
    target: Target,
    num_warps: int,
    framed: bool,
) -> Use:
    """The use of a plan whose call is the line from `start` to `end` of a module in generic form.

    `framed`: there is a place for buffers of the warps.
    """
    line = text[start:end]
    depth = len(line) - len(line.lstrip(" "))
    closing = re.compile(rf"^ {{0,{max(0, depth - 1)}}}\S", re.MULTILINE).search(text, end)
    last = text.rfind("\n", 0, closing.start() - 1) + 1 if closing else end
    in_line = last >= end and re.match(rf" {{{depth}}}\S", text[last : last + depth + 1])
    warp = plan.scope == "warp"
    split = warp and framed and keeps_to_own_part(plan, target, num_warps)
    return Use(start, end, last if in_line else end, depth, plan.scratch_bytes, warp, split)


def frame(text: str) -> tuple[int, int] | None:
    """Where the body of the module's only function begins and where the line of its return does.

    None where there are several functions, blocks or returns.
    """
    returns = [found.start() for found in re.finditer(r'^ *"tt\.return"\(', text, re.MULTILINE)]
    blocks = re.findall(r"^  \^bb", text, re.MULTILINE)
    functions = [found.start() for found in re.finditer(r'^  "tt\.func"\(', text, re.MULTILINE)]
    if len(returns) != 1 or len(functions) != 1 or len(blocks) > 1:
        return None
    first = re.compile(r"^    \S", re.MULTILINE).search(text, functions[0])
    if first is None or not text.startswith('    "tt.return"', returns[0]):
        return None
    return first.start(), returns[0]


def buffer_bytes(text: str) -> int:
    """What the buffers of a module take if no two share bytes."""
    return sum(map(_bytes, _BUFFER.findall(text)))


def momentary_uses(text: str, num_warps: int) -> list[Use]:
    """The operations of a module that have scratch of Triton's, with what they take at most.

    A reduction writes its results once for each warp, the others no more than they are given.
    """
    uses = []
    for found in _MOMENTARY.finditer(text):
        size = _bytes(found["operands"])
        if found["name"] == "tt.reduce":
            size = min(size, num_warps * max(8, _bytes(found["results"])))
        uses.append(Use(found.start(), found.end(), found.end(), 0, size, warp=True, split=False))
    return uses


def _bytes(types: str) -> int:
    """Bytes of the tensors and buffers among some types; a pointer has 8, an i1 has one."""
    total = 0
    for shape, element in _SHAPED.findall(types):
        bits = int(found[0]) if (found := re.search(r"\d+", element)) else 64
        total += math.prod(map(int, shape.split("x")[:-1])) * max(1, bits // 8)
    return total


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
