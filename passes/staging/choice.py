"""Decide whether to stage an access to shared memory: access it in another layout and convert in registers."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from typing import NamedTuple

from triton_linear.dialect.linear_layout import WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import Value
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Cost, Plan, Rejected
from triton_linear.lowering.planners.bound import least_cost
from triton_linear.lowering.planners.select import cost, select, shuffled
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.tiles import available
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.staging.family import Places, places

_WORD = 4
"""Bytes of a register."""
_ARITHMETIC = ("arith.", "math.", "tt.fp_to_fp", "ttg.fp4_to_fp")
_HALF_ROW = 8
"""Bytes of half a row of 16 bytes: eight lanes have one each."""
INSIDE = frozenset({"noop", "registers", "shuffle"})
"""The kinds of plans that use no shared memory."""


@dataclass(frozen=True, slots=True)
class AccessPrice:
    """The price of an access and its conversion.

    wavefronts: of the access, for one warp. clocks: of one warp, for the access and the conversion. expected:
    the modelled clocks until all resident warps are done.
    """

    wavefronts: int
    clocks: float
    expected: float


@dataclass(frozen=True, slots=True)
class Staging:
    """An access in `layout`, and `plan`, the conversion between `layout` and the wanted layout. before, after:
    the prices of the direct and of the staged access."""

    layout: LinearLayout
    plan: Plan
    before: AccessPrice
    after: AccessPrice

    def summary(self) -> str:
        """The staging in one line, for remarks."""
        return (
            f"{self.after.wavefronts} wavefronts a warp instead of {self.before.wavefronts}, and "
            f"{self.plan.summary()}: {self.after.expected:.0f} clocks instead of {self.before.expected:.0f}"
        )


@dataclass(frozen=True, slots=True)
class Direct:
    """An access that is not staged, and why. `is_least`: no staging could save much."""

    reason: str
    is_least: bool = False


def staging_for(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, situation: Situation, in_words: bool = True
) -> Staging | Direct:
    """The cheapest staging of an access whose tensor has the layout `wanted` in registers, or why none is
    cheaper than the direct access.

    `in_words`: True if loaded words are used as they are, as by matrix instructions. Otherwise a staged load of
    whole words has to unpack narrow elements, which direct narrow loads need not.

    Ensures: each warp holds the same elements in the staging's layout; its conversion uses no shared memory.
    """
    unpacking = 0.0 if in_words else _unpacking_clocks(local, wanted, situation.gpu)
    return _staging(local, wanted, element.bare, situation, unpacking)


@functools.lru_cache(maxsize=1024)
def _staging(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, situation: Situation, unpacking: float
) -> Staging | Direct:
    """`staging_for`; unpacking elements from words costs `unpacking` clocks."""
    target = situation.gpu
    direct, least = direct_price(local, wanted, situation), least_price(local, wanted, situation)
    limit = target.policy.staging_left * direct.expected
    if least.expected > limit:
        reason = f"{direct.wavefronts} wavefronts a warp, {least.wavefronts} are the fewest"
        return Direct(reason, is_least=True)
    if _bytes_are_transposed(local, wanted, target):
        return Direct("instructions for matrices of bytes, which are not foreseen", is_least=True)
    best: Staging | None = None
    planned: dict[float, int] = {}
    for bound, _, found, moves in _bounded_candidates(local, wanted, element, situation, limit):
        if bound >= limit or sum(planned.values()) == limits.STAGING_PLANNED:
            break
        if planned.get(bound, 0) == limits.STAGING_ALIKE:
            continue
        planned[bound] = planned.get(bound, 0) + 1
        sides = (wanted, found) if local.is_store else (found, wanted)
        if moves:
            # If shuffles are too dear, no other plan counts: the others use shared memory.
            shuffles = shuffled(*sides, element, target)
            if isinstance(shuffles, Rejected):
                continue
            taken = cost(shuffles, element, target, 1 << len(dict(wanted.bases).get(WARP, ())))
            if _price_in(local, found, _add_clocks(taken, unpacking), situation).expected >= limit:
                continue
        selection = select(*sides, element, situation)
        if selection.plan is None or selection.plan.kind not in INSIDE:
            continue
        price = _price_in(local, found, _add_clocks(selection.cost, unpacking), situation)
        if price.expected < limit:
            limit = price.expected
            best = Staging(found, selection.plan, direct, price)
    if best is None:
        wavefronts = f"{direct.wavefronts} wavefronts a warp"
        return Direct(f"{wavefronts}, and no layout saves more than its conversion takes")
    return best


def _add_clocks(cost: Cost, unpacking: float) -> Cost:
    """The cost with the clocks that unpack elements from words."""
    return dataclasses.replace(cost, clocks=cost.clocks + unpacking)


def _unpacking_clocks(local: LocalAccess, wanted: LinearLayout, target: Target) -> float:
    """Clocks of a warp to unpack elements from words, if the direct access loads elements one at a time.
    Measured with 4-bit weights that are unpacked to bf16: saving half of 32 wavefronts made a loop 10 %
    slower."""
    if local.is_store or local.element_bytes >= _WORD or local.bytes_at_once(wanted, _WORD) >= _WORD:
        return 0.0
    return (1 << len(dict(wanted.bases)["register"])) * target.costs.alu


def _bytes_are_transposed(local: LocalAccess, wanted: LinearLayout, target: Target) -> bool:
    """True if Triton may use `ldmatrix` or `stmatrix` with `.trans` of `.b8`, which distribute the bytes of a
    row of 16 to eight lanes and two registers (PTX ISA, ldmatrix and stmatrix; `tiles.TILES`)."""
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


class _BoundedCandidate(NamedTuple):
    """A layout and a lower bound of its price.

    expected: the least clocks of its access and conversion. moves: True if the conversion moves elements
    between lanes, so that it takes shuffles or shared memory.
    """

    expected: float
    number: int
    layout: LinearLayout
    moves: bool


@functools.lru_cache(maxsize=128)
def _bounded_candidates(
    local: LocalAccess, wanted: LinearLayout, element: ElementType, situation: Situation, limit: float
) -> tuple[_BoundedCandidate, ...]:
    """Layouts whose lower bound is below `limit` clocks, the cheapest first."""
    target = situation.gpu
    most = range(local.wavefronts(wanted, target) + 1)
    below = bisect.bisect_left(most, limit, key=lambda count: _price(count, Cost(), wanted, situation).expected)
    tried = places(local, wanted, target, below)
    tried = [found for found in tried if found.exchanged or found.moved or found.registers]
    tried.sort(key=_rank)
    bounded: list[_BoundedCandidate] = []
    for number, found in enumerate(tried[: limits.STAGING_BOUNDED]):
        layout = found.layout(wanted)
        sides = (wanted, layout) if local.is_store else (layout, wanted)
        bounds = least_cost(*sides, element, target).by_planner
        for kind in ("registers", "shuffle"):
            if kind in bounds:
                price = _price_in(local, layout, bounds[kind], situation)
                if price.expected < limit:
                    bounded.append(_BoundedCandidate(price.expected, number, layout, kind == "shuffle"))
    bounded.sort(key=lambda entry: entry[:2])
    return tuple(bounded)


def _rank(found: Places) -> tuple[float, int]:
    """The sort key of a candidate: wavefronts and moved words. Of m exchanges between lanes, all words but one
    in 2^m move."""
    return found.wavefronts * (2 - 1 / (1 << found.exchanged)), found.moved


def are_words(loaded: Value) -> bool:
    """Whether no arithmetic takes what is loaded element by element; dots and assembly take words."""
    return not any(use.owner.name.startswith(_ARITHMETIC) for use in loaded.uses)


def direct_price(local: LocalAccess, layout: LinearLayout, situation: Situation) -> AccessPrice:
    """The price of an access that is not staged."""
    return _price_in(local, layout, Cost(), situation)


def least_price(local: LocalAccess, layout: LinearLayout, situation: Situation) -> AccessPrice:
    """The price of an access to the elements that a warp holds in `layout` if each wavefront were full."""
    return _price(local.fewest_of(layout, situation.gpu), Cost(), layout, situation)


def _price_in(local: LocalAccess, layout: LinearLayout, conversion: Cost, situation: Situation) -> AccessPrice:
    return _price(local.wavefronts(layout, situation.gpu), conversion, layout, situation)


def _price(wavefronts: int, conversion: Cost, layout: LinearLayout, situation: Situation) -> AccessPrice:
    """The price of an access that takes `wavefronts` wavefronts. Packing of narrow elements is not counted,
    neither for direct nor for staged accesses (but see `_unpacking_clocks`)."""
    table = situation.gpu.costs
    warps = layout.in_dim_size("warp") if layout.has_in_dim("warp") else 1
    clocks = wavefronts * table.wavefront + conversion.clocks
    latency = table.memory_wait + table.alone * warps * wavefronts * table.wavefront + conversion.latency
    busy = situation.busy(warps)
    return AccessPrice(wavefronts, clocks, Cost(clocks, latency).expected(busy))
