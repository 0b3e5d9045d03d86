"""The ways of finishing a reduction that is taken apart, and which of them costs least. Pure.

Partial results may be gathered in any layout that reduces to one that is asked for: the reduction's own, or
that of a conversion of its result, which then is none; or in one with fewer results a thread, which are
converted after. The operands of a reduction of several may travel together, as one tensor with as many elements
more, so that they share the barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.reductions import costs
from triton_linear.passes.reductions.costs import Combined
from triton_linear.passes.reductions.split import Split, gathered, spread


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reduction is to give: the elements of its results, and for each result the layouts that it is
    wanted in, the reduction's own first if anybody takes that. `weight`: clocks of combining two; `commutes`:
    whether that gives the same bits whichever comes first."""

    elements: tuple[ElementType, ...]
    wanted: tuple[tuple[LinearLayout, ...], ...]
    own: LinearLayout
    weight: float
    commutes: bool = True

    @property
    def combined(self) -> Combined:
        """Its operands as `costs` count them."""
        return Combined(tuple(element.bits for element in self.elements), self.weight)


@dataclass(frozen=True, slots=True)
class Way:
    """One way: the layout of the results, that of the partial results that reduce to it, and which operands
    travel together, as numbers of operands, a power of two of them in each pack. `agree`: lanes that should
    have copies of what they combined take that of one of them, before it is converted and after the first
    `lanes` dimensions, those in lanes, were reduced."""

    result: LinearLayout
    gathered: LinearLayout
    packs: tuple[tuple[int, ...], ...]
    agree: bool = False
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The way of least cost, its clocks, and those of what Triton does, conversions of results included."""

    way: Way
    after: Cost
    before: Cost


@lru_cache(maxsize=1024)
def choose(layout: LinearLayout, found: Split, asked: Asked, situation: Situation, warps: int) -> Choice | str:
    """The way of least cost for CTAs of so many warps, or why there is none.

    Ensures: `before` is Triton's reduction with a conversion by our planner for each layout that is not `own`.
    """
    what, stock, target = asked.combined, asked.own, situation.gpu

    def price(part: Part) -> Cost | None:
        if isinstance(part, Cost):
            return part
        return costs.of_conversion(part.source, part.result, part.element, situation, part.room)

    def least(part: Part) -> Cost:
        if isinstance(part, Cost):
            return part
        return costs.least_of_conversion(part.source, part.result, part.element, target)

    in_triton = costs.as_triton(layout, found.axis, what, situation, warps)
    before = costs.total([in_triton, *map(price, _conversions(stock, asked))])
    if before is None:
        return "a conversion of its result has no plan"
    busy = situation.busy(warps)
    room = None
    if target.policy.spares_shared_memory:  # partial results take no more than they do as Triton's
        room = costs.scratch_as_triton(layout, found.axis, what.widths, situation.release)
    bounded = []
    for number, way in enumerate(_ways(found, asked)):
        parts = _parts(way, found, asked, target, room)
        bounded.append((costs.plus(*map(least, parts)).expected(busy), number, way, parts))
    bounded.sort(key=lambda entry: entry[:2])
    best: tuple[float, int, Choice] | None = None
    for bound, number, way, parts in bounded:
        if best is not None and (bound, number) > best[:2]:
            break  # and its conversions are not planned
        after = costs.total([price(part) for part in parts])
        if after is not None and (best is None or (after.expected(busy), number) < best[:2]):
            best = after.expected(busy), number, Choice(way, after, before)
    if best is not None:
        return best[2]
    within = "" if room is None else f" in the {room} bytes of shared memory that Triton's reduction takes"
    return f"no conversion of the partial results has a plan{within}"


def _ways(found: Split, asked: Asked) -> Iterator[Way]:
    """Ways with the results in the layouts that they are asked for in, or spread."""
    results = (layout for wanted in asked.wanted for layout in wanted)
    for result in dict.fromkeys([asked.own, *results, *spread(asked.own)]):
        for partials, lanes in gathered(result, found, lanes_first=not asked.commutes):
            for packs in _packings(asked.elements):
                yield Way(result, partials, packs, not asked.commutes, lanes)


def _packings(elements: Sequence[ElementType]) -> list[tuple[tuple[int, ...], ...]]:
    """Each operand alone; those of a width together."""
    alone = tuple((index,) for index in range(len(elements)))
    widths: dict[tuple[int, bool], list[int]] = {}
    for index, element in enumerate(elements):
        widths.setdefault((element.bits, packs(element)), []).append(index)
    together: list[tuple[int, ...]] = []
    for (_, fit), indices in widths.items():
        if fit:
            room = 1 << (len(indices) - 1).bit_length()
            together.append((*indices, *indices[-1:] * (room - len(indices))))
        else:
            together += [(index,) for index in indices]
    return [alone] if tuple(together) == alone else [alone, tuple(together)]


def packs(element: ElementType) -> bool:
    """Whether elements of this type can travel as integers."""
    return element.bits >= 8 and "ptr" not in element.name


def joined(layout: LinearLayout, count: int) -> LinearLayout:
    """The layout of `count` tensors in one, a power of two."""
    for _ in range(count.bit_length() - 1):
        layout = transfer.join(layout)
    return layout


def packed_element(pack: Sequence[int], elements: Sequence[ElementType]) -> ElementType:
    """What the elements of a pack travel as."""
    kinds = {elements[index].name for index in pack}
    first = elements[pack[0]]
    return first if len(kinds) == 1 else element_type(f"i{first.bits}")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion that a way has, and the bytes of scratch that it may take; None: as many as it does."""

    source: LinearLayout
    result: LinearLayout
    element: ElementType
    room: int | None = None


Part = Cost | Conversion
"""What a way consists of: what costs so much, and conversions."""


def _parts(way: Way, found: Split, asked: Asked, target: Target, room: int | None) -> list[Part]:
    """Reducing within warps, the conversions, reducing what they bring, and converting the results."""
    what = asked.combined
    parts: list[Part] = []
    layout = found.whole
    for axis in reversed(range(found.axis + found.crossing, found.axis + len(found.sizes))):
        parts.append(costs.inside_warps(layout, axis, what, target))
        layout = transfer.reduce(layout, axis)
    if way.agree and found.copies:
        parts.append(costs.agreeing(layout, what, target))
    for pack in way.packs:
        sides = joined(layout, len(pack)), joined(way.gathered, len(pack))
        parts.append(Conversion(*sides, packed_element(pack, asked.elements), room))
    layout = way.gathered
    for number in range(found.crossing):
        parts.append(costs.inside_warps(layout, found.axis, what, target))
        layout = transfer.reduce(layout, found.axis)
        if way.agree and number + 1 == way.lanes:
            parts.append(costs.agreeing(layout, what, target))
    return [*parts, *_conversions(way.result, asked)]


def _conversions(given: LinearLayout, asked: Asked) -> Iterator[Conversion]:
    """Those of results from the layout that they have to those that they are wanted in."""
    for element, wanted in zip(asked.elements, asked.wanted, strict=True):
        for layout in wanted:
            if not transfer.same_but_for_register_copies(given, layout):
                yield Conversion(given, layout, element)


def without_copies(layout: LinearLayout) -> LinearLayout:
    """The layout without registers that hold copies."""
    return layout.remove_zero_bases(REGISTER) if layout.has_in_dim(REGISTER) else layout
