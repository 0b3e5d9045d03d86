"""Whether an access to shared memory goes by way of another layout, and by which."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from typing import NamedTuple

from triton_linear.dialect.linear_layout import WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Cost, Plan, Rejected
from triton_linear.lowering.planners.bound import least_cost
from triton_linear.lowering.planners.select import cost, select, shuffled
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.tiles import available
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.staging.family import Places, places

_WORD = 4
"""Bytes of a register."""
_HALF_ROW = 8
"""Bytes of a row that eight lanes have, one each."""
INSIDE = frozenset({"noop", "registers", "shuffle"})
"""The kinds of plans that take no shared memory."""


@dataclass(frozen=True, slots=True)
class AccessPrice:
    """What an access takes: wavefronts of a warp, those of them and the conversion's work in clocks of a warp,
    and the clocks that are expected until all warps are through."""

    wavefronts: int
    clocks: float
    expected: float


@dataclass(frozen=True, slots=True)
class Staging:
    """An access in `layout` with a conversion between that and the layout that is wanted."""

    layout: LinearLayout
    plan: Plan
    before: AccessPrice
    after: AccessPrice

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


def staging_for(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, target: Target, in_words: bool = True
) -> Staging | Direct:
    """The cheapest staging of an access of a tensor that has the layout `wanted` in registers, or why there is
    none that is cheaper.

    `in_words`: whether what is loaded is used in words, as matrix instructions do. Else elements of less than a
    word that a staged access brings in words have to be taken out of them, where narrow loads bring them one by
    one.

    Ensures: that layout holds the same elements in each warp; its conversion takes no shared memory.
    """
    apart = 0.0 if in_words else _taking_out(local, wanted, target)
    return _staging(local, wanted, element.bare, target, apart)


@functools.lru_cache(maxsize=1024)
def _staging(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, target: Target, apart: float
) -> Staging | Direct:
    """`staging_for`, where taking elements out of words costs `apart` clocks."""
    direct = _price_in(local, wanted, Cost(), target)
    least = _price(local.fewest_of(wanted, target), Cost(), wanted, target)
    policy = target.policy
    limit = policy.staging_left * direct.expected
    if least.expected > limit:
        reason = f"{direct.wavefronts} wavefronts a warp, {least.wavefronts} are the fewest"
        return Direct(reason, is_least=True)
    if _bytes_are_transposed(local, wanted, target):
        return Direct("instructions for matrices of bytes, which are not foreseen", is_least=True)
    best: Staging | None = None
    planned: dict[float, int] = {}
    for bound, _, found, moves in _bounded(local, wanted, element, target, limit):
        if bound >= limit or sum(planned.values()) == policy.staging_planned:
            break
        if planned.get(bound, 0) == policy.staging_alike:
            continue
        planned[bound] = planned.get(bound, 0) + 1
        sides = (wanted, found) if local.is_store else (found, wanted)
        if moves:
            # Where shuffles take too long, it is no matter what else there is: that takes shared memory.
            shuffles = shuffled(*sides, element, target)
            if isinstance(shuffles, Rejected):
                continue
            taken = cost(shuffles, element, target, 1 << len(dict(wanted.bases).get(WARP, ())))
            if _price_in(local, found, _with(taken, apart), target).expected >= limit:
                continue
        selection = select(*sides, element, target)
        if selection.plan is None or selection.plan.kind not in INSIDE:
            continue
        price = _price_in(local, found, _with(selection.cost, apart), target)
        if price.expected < limit:
            limit = price.expected
            best = Staging(found, selection.plan, direct, price)
    if best is None:
        wavefronts = f"{direct.wavefronts} wavefronts a warp"
        return Direct(f"{wavefronts}, and no layout saves more than its conversion takes")
    return best


def _with(cost: Cost, apart: float) -> Cost:
    """A cost, and clocks that take elements out of words."""
    return dataclasses.replace(cost, clocks=cost.clocks + apart)


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


class _Bounded(NamedTuple):
    """A layout whose access and least conversion take so many clocks; `moves`: the conversion renames more than
    registers, so that it takes shuffles, or shared memory."""

    expected: float
    number: int
    layout: LinearLayout
    moves: bool


@functools.lru_cache(maxsize=128)
def _bounded(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, target: Target, limit: float
) -> tuple[_Bounded, ...]:
    """Layouts whose access and least conversion take less than `limit`, the cheapest first."""
    most = range(local.wavefronts(wanted, target) + 1)
    below = bisect.bisect_left(most, limit, key=lambda count: _price(count, Cost(), wanted, target).expected)
    tried = places(local, wanted, target, below)
    tried = [found for found in tried if found.exchanged or found.moved or found.registers]
    policy = target.policy
    tried.sort(key=_promise)
    bounded: list[_Bounded] = []
    for number, found in enumerate(tried[: policy.staging_bounded]):
        layout = found.layout(wanted)
        sides = (wanted, layout) if local.is_store else (layout, wanted)
        ways = least_cost(*sides, element, target).by_planner
        for kind in ("registers", "shuffle"):
            if kind in ways:
                price = _price_in(local, layout, ways[kind], target)
                if price.expected < limit:
                    bounded.append(_Bounded(price.expected, number, layout, kind == "shuffle"))
    bounded.sort(key=lambda entry: entry[:2])
    return tuple(bounded)


def _promise(found: Places) -> tuple[float, int]:
    """Wavefronts, and words that go to other lanes: of m exchanges all but one in 2^m."""
    return found.wavefronts * (2 - 1 / (1 << found.exchanged)), found.moved


def _price_in(local: LocalAccess, layout: LinearLayout, conversion: Cost, target: Target) -> AccessPrice:
    return _price(local.wavefronts(layout, target), conversion, layout, target)


def _price(wavefronts: int, conversion: Cost, layout: LinearLayout, target: Target) -> AccessPrice:
    """What puts elements of less than a word together counts on no side (but see `_taking_out`)."""
    table = target.costs
    warps = layout.in_dim_size("warp") if layout.has_in_dim("warp") else 1
    clocks = wavefronts * table.wavefront + conversion.clocks
    latency = table.memory_wait + table.alone * warps * wavefronts * table.wavefront + conversion.latency
    busy = max(target.likely_warps, warps)
    return AccessPrice(wavefronts, clocks, Cost(clocks, latency).expected(busy))
