"""Whether an access to shared memory goes by way of another layout, and by which."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.bound import least_cost
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.plan import Cost, Plan
from triton_linear.lowering.select import select
from triton_linear.lowering.targets import Target
from triton_linear.lowering.tiles import available
from triton_linear.passes.assignment.local import LocalAccess
from triton_linear.passes.detour.family import Places, places

WORTH = 0.85
WORTH_UNMEASURED = 0.75
"""The part of its clocks that an access may keep, to be worth a conversion: on GPUs whose costs were measured,
and on others."""
MOST_BOUNDED, MOST_PLANNED, MOST_ALIKE = 48, 10, 4
"""Layouts for which the least cost of their conversion is asked, those for which it is planned, and of these
those with the same least cost."""
_WORD = 4
"""Bytes of a register."""
_HALF_ROW = 8
"""Bytes of a row that eight lanes have, one each."""
INSIDE = frozenset({"noop", "registers", "shuffle"})
"""The kinds of plans that take no shared memory."""


@dataclass(frozen=True, slots=True)
class Price:
    """What an access takes: wavefronts of a warp, those of them and the conversion's work in clocks of a warp,
    and the clocks that are expected until all warps are through."""

    wavefronts: int
    clocks: float
    expected: float


@dataclass(frozen=True, slots=True)
class Detour:
    """An access in `layout` with a conversion between that and the layout that is wanted."""

    layout: LinearLayout
    plan: Plan
    before: Price
    after: Price

    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.after.wavefronts} wavefronts a warp instead of {self.before.wavefronts}, and "
            f"{self.plan.summary()}: {self.after.expected:.0f} clocks instead of {self.before.expected:.0f}"
        )


@dataclass(frozen=True, slots=True)
class Direct:
    """An access that stays as it is, and why; `is_least` if there is hardly less than it takes."""

    reason: str
    is_least: bool = False


@functools.lru_cache(maxsize=1024)
def detour(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, target: Target, in_words: bool = True
) -> Detour | Direct:
    """The cheapest detour of an access of a tensor that has the layout `wanted` in registers, or why there is
    none that is cheaper.

    `in_words`: whether what is loaded is used in words, as matrix instructions do. Else elements of less than a
    word that a detour brings in words have to be taken out of them, where narrow loads bring them one by one.

    Ensures: the detour's layout holds the same elements in each warp; its conversion takes no shared memory.
    """
    direct = _price_in(local, wanted, Cost(), target)
    least = _price(local.fewest_of(wanted, target), Cost(), wanted, target)
    limit = worth(target) * direct.expected
    if least.expected > limit:
        reason = f"{direct.wavefronts} wavefronts a warp, {least.wavefronts} are the fewest"
        return Direct(reason, is_least=True)
    if _bytes_are_transposed(local, wanted, target):
        return Direct("instructions for matrices of bytes, which are not foreseen", is_least=True)
    best: Detour | None = None
    planned: dict[float, int] = {}
    apart = 0.0 if in_words else _taking_out(local, wanted, target)
    for bound, found in _bounded(local, wanted, element, target, limit):
        if bound >= limit or sum(planned.values()) == MOST_PLANNED:
            break
        if planned.get(bound, 0) == MOST_ALIKE:
            continue
        planned[bound] = planned.get(bound, 0) + 1
        sides = (wanted, found) if local.is_store else (found, wanted)
        selection = select(*sides, element, target)
        if selection.plan is None or selection.plan.kind not in INSIDE:
            continue
        cost = dataclasses.replace(selection.cost, clocks=selection.cost.clocks + apart)
        price = _price_in(local, found, cost, target)
        if price.expected < limit:
            limit = price.expected
            best = Detour(found, selection.plan, direct, price)
    if best is None:
        wavefronts = f"{direct.wavefronts} wavefronts a warp"
        return Direct(f"{wavefronts}, and no layout saves more than its conversion takes")
    return best


def _taking_out(local: LocalAccess, wanted: LinearLayout, target: Target) -> float:
    """Clocks of a warp that take elements out of words, which the access as it is loads one by one. Seen with
    packed 4-bit weights that are unpacked to bf16: half of 32 wavefronts saved took 10 % more of a loop."""
    if local.is_store or local.element_bytes >= _WORD or local.bytes_at_once(wanted, _WORD) >= _WORD:
        return 0.0
    return (1 << len(dict(wanted.bases)["register"])) * target.costs.alu


def _bytes_are_transposed(local: LocalAccess, wanted: LinearLayout, target: Target) -> bool:
    """Whether Triton may take `ldmatrix` or `stmatrix` with `.trans` of `.b8`, which give the bytes of a row of
    16 to eight lanes and two registers (PTX ISA, ldmatrix and stmatrix; `tiles.TILES`)."""
    if target.vendor != "nvidia" or local.element_bytes > 1:
        return False
    names = {tile.name for tile in available(int(target.name.removeprefix("cuda:")))}
    kind = "stmatrix.m16n8" if local.is_store else "ldmatrix.m16n16"
    bases = dict(wanted.bases)
    registers, lanes = ([local.offset(basis) for basis in bases[name]] for name in ("register", "lane"))
    rows = [*lanes[:2], *(offset for offset in registers if offset != _HALF_ROW)]
    fits = (
        lanes[2:5] == [1, 2, 4]
        and _HALF_ROW in registers
        and not any(offset % (2 * _HALF_ROW) for offset in rows)
    )
    return fits and f"{kind}.x1.trans.b8" in names


def worth(target: Target) -> float:
    """The part of its clocks that an access may keep."""
    return WORTH if target.vendor == "nvidia" else WORTH_UNMEASURED


def _bounded(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, target: Target, limit: float
) -> list[tuple[float, LinearLayout]]:
    """Layouts whose access and least conversion take less than `limit`, the cheapest first."""
    tried = places(local, wanted, target)
    tried = [found for found in tried if found.exchanged or found.moved or found.registers]
    tried.sort(key=_promise)
    bounded: list[tuple[float, int, LinearLayout]] = []
    for number, found in enumerate(tried[:MOST_BOUNDED]):
        layout = found.layout(wanted)
        sides = (wanted, layout) if local.is_store else (layout, wanted)
        ways = least_cost(*sides, element, target).ways
        inside = [ways[kind] for kind in ("registers", "shuffle") if kind in ways]
        for way in inside:
            price = _price_in(local, layout, way, target)
            if price.expected < limit:
                bounded.append((price.expected, number, layout))
    bounded.sort(key=lambda entry: entry[:2])
    return [(bound, layout) for bound, _, layout in bounded]


def _promise(found: Places) -> tuple[float, int]:
    """Wavefronts, and words that go to other lanes."""
    exchanged = 1 - 0.5**found.exchanged if found.exchanged else 0.5 * bool(found.moved)
    return found.wavefronts * (1 + exchanged), found.moved


def _price_in(local: LocalAccess, layout: LinearLayout, conversion: Cost, target: Target) -> Price:
    return _price(local.wavefronts(layout, target), conversion, layout, target)


def _price(wavefronts: int, conversion: Cost, layout: LinearLayout, target: Target) -> Price:
    """What puts elements of less than a word together counts on no side (but see `_taking_out`)."""
    table = target.costs
    warps = layout.in_dim_size("warp") if layout.has_in_dim("warp") else 1
    clocks = wavefronts * table.wavefront + conversion.clocks
    latency = table.memory_wait + table.alone * warps * wavefronts * table.wavefront + conversion.latency
    busy = max(target.likely_warps, warps)
    return Price(wavefronts, clocks, Cost(clocks, latency).expected(busy))
