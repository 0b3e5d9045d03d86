"""What reductions cost, as Triton lowers them and taken apart: clocks of the pipes that one warp takes, and the
latency, clocks that a CTA alone waits.

`passes.assignment` prices a reduction by the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, Release
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Cost, meets_warps
from triton_linear.lowering.planners.bound import least_cost
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target

_VECTOR = 16
"""Bytes that a thread stores with one instruction."""
_LEAST_ROUND = 256
"""Bytes of scratch of a round of Triton's at least, by what 3.8 and 3.9 allocate."""


def plus(*parts: Cost) -> Cost:
    """The clocks and the latency of all parts."""
    return Cost(sum(part.clocks for part in parts), sum(part.latency for part in parts))


@dataclass(frozen=True, slots=True)
class Combined:
    """What is reduced at once: the widths of the operands, and the clocks of combining two of each."""

    widths: tuple[int, ...]
    weight: float

    @property
    def words(self) -> int:
        """32-bit words of one element of each operand."""
        return sum(max(1, width // 32) for width in self.widths)


def inside_warps(layout: LinearLayout, axis: int, what: Combined, target: Target) -> Cost:
    """Reducing along what each warp has of an axis: within threads, then by shuffles."""
    table = target.costs
    bases = dict(layout.bases)
    along = {name: sum(1 for basis in vectors if basis[axis]) for name, vectors in bases.items()}
    held = len(bases[REGISTER])
    left = 1 << (held - along[REGISTER])
    clocks = ((1 << held) - left) * what.weight
    clocks += left * along[LANE] * (what.words * table.shuffle + what.weight)
    return Cost(clocks, along[LANE] * table.shuffle_wait)


def as_triton(layout: LinearLayout, axis: int, what: Combined, situation: Situation, warps: int) -> Cost:
    """A reduction as Triton lowers it: between warps each leaves its results in shared memory, each thread
    takes its share of them, combines it by shuffles with those of its neighbours and leaves it there again, and
    all load the results; two barriers. So Triton 3.0, 3.6 and 3.7 do, by their PTX.

    From 3.8 on partial results are converted so that lanes have those of the other warps, reduced by shuffles,
    and converted again where lanes have no copies in whose place these could be. A conversion goes in rounds of
    as much scratch as there is (`scratch_as_triton`), with a barrier before and behind each.
    """
    target, release = situation.gpu, situation.release
    found = inside_warps(layout, axis, what, target)
    bases = dict(layout.bases)
    crossing = _crossing(layout, axis)
    if not crossing:
        return found
    table = target.costs
    left = 1 << sum(1 for basis in bases[REGISTER] if not basis[axis])
    places = _places(layout, axis)
    if release in REDUCTIONS_CONVERT:
        copies = sum(1 for basis in bases[LANE] if basis[axis] or not any(basis))
        conversions = 1 if crossing <= copies else 2
        own = _crossing(layout, axis, (WARP,))
        rounds = 0
        for width in what.widths:
            rounds += (places << own) * _bytes(width) // scratch_as_triton(layout, axis, (width,), release)
        barriers = conversions * 2 * rounds - 1
        clocks = conversions * 2 * left * what.words * table.wavefront + barriers * table.cta_barrier
        clocks += left * crossing * (what.words * table.shuffle + what.weight)
        wait = ((barriers + 1) * table.barrier_wait + table.meeting) * warps
        wait += 2 * conversions * table.memory_wait + crossing * table.shuffle_wait
        return plus(found, Cost(clocks, wait))
    share = max(1, (places << crossing) // (target.lanes << len(bases[WARP])))
    clocks = 2 * (left + share) * what.words * table.wavefront + 2 * table.cta_barrier
    clocks += share * crossing * (what.words * table.shuffle + what.weight)
    wait = (3 * table.barrier_wait + table.meeting) * warps
    wait += 4 * table.memory_wait + crossing * table.shuffle_wait
    return plus(found, Cost(clocks, wait))


def apart(layout: LinearLayout, axis: int, what: Combined, target: Target, warps: int) -> Cost:
    """A reduction taken apart, about: `ways.choose` plans it, which takes milliseconds. The warps' bits are in
    lanes that have copies, as far as there are any, the others in registers; lanes share the stores."""
    found = inside_warps(layout, axis, what, target)
    bases = dict(layout.bases)
    crossing = _crossing(layout, axis)
    if not crossing:
        return found
    table = target.costs
    lanes = sum(1 for basis in bases[LANE] if basis[axis] or not any(basis))
    shuffled = min(lanes, crossing)
    left = 1 << sum(1 for basis in bases[REGISTER] if not basis[axis] and any(basis))
    loads = left << (crossing - shuffled)
    clocks = (max(1, left >> lanes) + loads) * what.words * table.wavefront + table.cta_barrier
    clocks += (loads - left) * what.weight + left * shuffled * (what.words * table.shuffle + what.weight)
    wait = (2 * table.barrier_wait + table.meeting) * warps + 2 * table.memory_wait
    return plus(found, Cost(clocks, wait + shuffled * table.shuffle_wait))


def agreeing(layout: LinearLayout, what: Combined, target: Target) -> Cost:
    """Taking each register from one lane of those that hold copies: a shuffle for each word."""
    registers = 1 << sum(map(any, dict(layout.bases)[REGISTER]))
    return Cost(registers * what.words * target.costs.shuffle, target.costs.shuffle_wait)


def scratch_as_triton(layout: LinearLayout, axis: int, widths: Sequence[int], release: Release) -> int:
    """Bytes of shared memory that Triton's lowering of a reduction takes: where several warps or CTAs lie along
    the axis, each warp has a partial result for every place of the other dimensions, of each operand.

    From 3.8 on each operand has as much as the threads that hold different results store with one instruction,
    or 256 bytes.
    """
    bases = dict(layout.bases)
    if not _crossing(layout, axis):
        return 0
    places = _places(layout, axis)
    partials = [(places << _crossing(layout, axis, (WARP,))) * _bytes(width) for width in widths]
    if release not in REDUCTIONS_CONVERT:
        return sum(partials)
    lanes = sum(1 for basis in bases[LANE] if any(basis) and not basis[axis])
    warps = sum(1 for basis in bases[WARP] if any(basis))
    return sum(min(size, max(_VECTOR << (lanes + warps), _LEAST_ROUND)) for size in partials)


def _crossing(layout: LinearLayout, axis: int, names: Sequence[str] = (WARP, BLOCK)) -> int:
    """Bits of the coordinate along the axis that lie in warps or CTAs."""
    bases = dict(layout.bases)
    return sum(1 for name in names for basis in bases.get(name, ()) if basis[axis])


def _places(layout: LinearLayout, axis: int) -> int:
    """Places of the other dimensions that a CTA has."""
    elsewhere = sum(1 for basis in dict(layout.bases).get(BLOCK, ()) if any(basis) and not basis[axis])
    return prod(size for place, (_, size) in enumerate(layout.out_dims) if place != axis) >> elsewhere


def _bytes(width: int) -> int:
    return -(-width // 8)


def of_conversion(
    source: LinearLayout,
    result: LinearLayout,
    element: ElementType,
    situation: Situation,
    room: int | None = None,
) -> Cost | None:
    """A conversion by the plan that is selected for it; None where it is left to Triton, or takes more than
    `room` bytes of scratch."""
    selection = select(source, result, element, situation)
    if selection.plan is None or (room is not None and selection.plan.scratch_bytes > room):
        return None
    meets = meets_warps(selection.plan)
    return plus(selection.cost, _meeting(source, situation.gpu)) if meets else selection.cost


def least_of_conversion(
    source: LinearLayout, result: LinearLayout, element: ElementType, target: Target
) -> Cost:
    """Clocks that no plan of a conversion is below, neither those of the pipes nor those to wait."""
    by_planner = least_cost(source, result, element, target).by_planner
    clocks, latency = (min(getattr(way, name) for way in by_planner.values()) for name in ("clocks", "latency"))
    found = Cost(clocks, latency)
    return plus(found, _meeting(source, target)) if by_planner.keys() == {"cta-shared"} else found


def _meeting(source: LinearLayout, target: Target) -> Cost:
    """As for a reduction: the barrier inside, and one before whoever takes the scratch next."""
    wait = 2 * target.costs.barrier_wait + target.costs.meeting
    return Cost(0.0, wait * source.in_dim_size(WARP))


def total(parts: Sequence[Cost | None]) -> Cost | None:
    """The sum, or None where a part has no price."""
    known = [part for part in parts if part is not None]
    return plus(*known) if len(known) == len(parts) else None
