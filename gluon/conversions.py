"""What converting between two layouts costs, and whether a stop on the way makes it cheaper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from triton_linear.dialect.gluon import distributed_layout, linear_layout
from triton_linear.dialect.linear_layout import REGISTER, WARP, LinearLayout
from triton_linear.dialect.notebook import Explained
from triton_linear.dialect.records import dataclass
from triton_linear.gluon.units import element_of, target_of
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Selection
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True)
class ConversionCost(Explained):
    """How a conversion is lowered and what it costs. Modelled: `clocks` of a multiprocessor for one warp, and
    the `latency` that a CTA alone waits; planned: the other figures, of one warp."""

    kind: str
    lowering: str
    clocks: float
    latency: float
    shuffles: int
    wavefronts: int
    barriers: int
    scratch_bytes: int
    rejected: tuple[str, ...]

    @classmethod
    def of(cls, selection: Selection) -> ConversionCost:
        """What the planners chose."""
        plan, cost = selection.plan, selection.cost
        return cls(
            "stock" if plan is None else plan.kind,
            "left to Triton" if plan is None else plan.summary(),
            cost.clocks,
            cost.latency,
            cost.shuffles,
            cost.wavefronts,
            cost.barriers,
            cost.scratch_bytes,
            tuple(map(str, selection.rejected)),
        )

    def __str__(self) -> str:
        lines = [f"{self.lowering}: {self.clocks:.1f} clocks per warp, latency {self.latency:.1f}"]
        return "\n".join([*lines, *(f"  not {reason}" for reason in self.rejected)])


def conversion_cost(
    a: Any, b: Any, shape: Sequence[int], dtype: str, target: str = "cuda:90"
) -> ConversionCost:
    """How this package converts a tensor of `shape` from layout `a` to layout `b`, and at what cost.

    Raises ValueError for layouts that do not fit the shape or the target.
    """
    return ConversionCost.of(
        _selected(linear_layout(a, shape), linear_layout(b, shape), dtype, target_of(target))
    )


def _selected(a: LinearLayout, b: LinearLayout, dtype: str | ElementType, target: Target) -> Selection:
    element = dtype if isinstance(dtype, ElementType) else element_of(dtype)
    selection = select(a, b, element, target)
    if selection.plan is None and [rejected.planner for rejected in selection.rejected] == ["any"]:
        raise ValueError(f"no conversion on {target.name}: {selection.rejected[0].reason}")
    return selection


@dataclass(frozen=True)
class Bridge(Explained):
    """The best way from one layout to another: directly, or over `layout`."""

    layout: Any | None
    linear: LinearLayout | None
    direct: ConversionCost
    first: ConversionCost | None
    second: ConversionCost | None

    @property
    def clocks(self) -> float:
        """Modelled clocks of the way."""
        if self.first is None or self.second is None:
            return self.direct.clocks
        return self.first.clocks + self.second.clocks

    def __str__(self) -> str:
        if self.first is None or self.second is None:
            return f"directly: {self.direct}"
        return (
            f"over {self.layout}: {self.clocks:g} clocks instead of {self.direct.clocks:g}\n"
            f"  first {self.first.lowering}\n  then {self.second.lowering}"
        )


def best_bridge(a: Any, b: Any, shape: Sequence[int], dtype: str, target: str = "cuda:90") -> Bridge:
    """The way from `a` to `b` of least clocks, with at most one stop.

    Tried are stops that have some of one side's registers, lanes and warps and the rest of the other side's:
    what is between two layouts that differ in several respects.

    Ensures: `linear` and `layout` are None where no stop makes it cheaper; `layout` is also where Gluon has no
    object for it.
    """
    gpu, element = target_of(target), element_of(dtype)
    source, destination = linear_layout(a, shape), linear_layout(b, shape)
    direct = ConversionCost.of(_selected(source, destination, element, gpu))
    best = Bridge(None, None, direct, None, None)
    for stop in _stops(source, destination):
        first = ConversionCost.of(_selected(source, stop, element, gpu))
        if first.kind == "stock" or first.clocks >= best.clocks:
            continue
        second = ConversionCost.of(_selected(stop, destination, element, gpu))
        if second.kind != "stock" and first.clocks + second.clocks < best.clocks:
            best = Bridge(_gluon(stop), stop, direct, first, second)
    return best


def _gluon(layout: LinearLayout) -> Any | None:
    try:
        return distributed_layout(layout)
    except ValueError:
        return None


def _stops(source: LinearLayout, destination: LinearLayout) -> Iterator[LinearLayout]:
    """Layouts between: one bit after the other goes to the place that it has on the other side."""
    seen = {source, destination}
    for start, end in ((source, destination), (destination, source)):
        bases = {name: list(vectors) for name, vectors in start.bases}
        wanted = {name: list(vectors) for name, vectors in end.bases}
        for name in (REGISTER, "lane", WARP):
            for bit, vector in enumerate(wanted.get(name, ())):
                place = _where(bases, vector)
                if place is None or place == (name, bit) or bit >= len(bases[name]):
                    continue
                moved = {key: list(vectors) for key, vectors in bases.items()}
                moved[place[0]][place[1]], moved[name][bit] = moved[name][bit], moved[place[0]][place[1]]
                bases = moved
                stop = LinearLayout.from_bases(
                    list(moved.items()), start.out_dim_names, [size for _, size in start.out_dims]
                )
                if stop not in seen:
                    seen.add(stop)
                    yield stop


def _where(bases: dict[str, list[tuple[int, ...]]], vector: tuple[int, ...]) -> tuple[str, int] | None:
    if not any(vector):
        return None
    for name, vectors in bases.items():
        if vector in vectors:
            return name, vectors.index(vector)
    return None
