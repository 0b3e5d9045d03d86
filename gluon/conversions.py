"""The cost of converting between two layouts, directly or through an intermediate layout."""

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
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True)
class ConversionCost(Explained):
    """The plan of a conversion and its cost.

    `clocks` and `latency` come from the cost model: clocks of a multiprocessor for one warp, and clocks until
    the result is ready if one CTA runs alone. The other figures are counted in the plan, for one warp.
    """

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
        """The cost of the plan that the planners selected."""
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
    """The plan and the cost of converting a tensor of `shape` from layout `a` to layout `b`.

    Raises ValueError for layouts that do not fit the shape or the target.
    """
    return ConversionCost.of(
        select_plan(linear_layout(a, shape), linear_layout(b, shape), dtype, target_of(target))
    )


def select_plan(a: LinearLayout, b: LinearLayout, dtype: str | ElementType, target: Target) -> Selection:
    """The planners' selection for the conversion from `a` to `b`. Raises ValueError if the target has none."""
    element = dtype if isinstance(dtype, ElementType) else element_of(dtype)
    selection = select(a, b, element, Situation.on(target))
    if selection.plan is None and [rejected.planner for rejected in selection.rejected] == ["any"]:
        raise ValueError(f"no conversion on {target.name}: {selection.rejected[0].reason}")
    return selection


@dataclass(frozen=True)
class Bridge(Explained):
    """The cheapest conversion from one layout to another: direct, or through the intermediate `layout`."""

    layout: Any | None
    linear: LinearLayout | None
    direct: ConversionCost
    first: ConversionCost | None
    second: ConversionCost | None

    @property
    def clocks(self) -> float:
        """Clocks of the whole conversion, from the cost model."""
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
    """The conversion from `a` to `b` with the fewest clocks, through at most one intermediate layout.

    The intermediate layouts that are tried take some bases of registers, lanes and warps from `a` and the
    others from `b`.

    Ensures: `linear` and `layout` are None if the direct conversion is the cheapest; `layout` is also None if
    Gluon has no object for the layout.
    """
    gpu, element = target_of(target), element_of(dtype)
    source, destination = linear_layout(a, shape), linear_layout(b, shape)
    direct = ConversionCost.of(select_plan(source, destination, element, gpu))
    best = Bridge(None, None, direct, None, None)
    for middle in _intermediate_layouts(source, destination):
        first = ConversionCost.of(select_plan(source, middle, element, gpu))
        if first.kind == "stock" or first.clocks >= best.clocks:
            continue
        second = ConversionCost.of(select_plan(middle, destination, element, gpu))
        if second.kind != "stock" and first.clocks + second.clocks < best.clocks:
            best = Bridge(_gluon_layout(middle), middle, direct, first, second)
    return best


def _gluon_layout(layout: LinearLayout) -> Any | None:
    try:
        return distributed_layout(layout)
    except ValueError:
        return None


def _intermediate_layouts(source: LinearLayout, destination: LinearLayout) -> Iterator[LinearLayout]:
    """Transform each of the two layouts into the other by swaps of two bases; yield the layout after each
    swap.
    """
    seen = {source, destination}
    for start, end in ((source, destination), (destination, source)):
        bases = {name: list(vectors) for name, vectors in start.bases}
        wanted = {name: list(vectors) for name, vectors in end.bases}
        for name in (REGISTER, "lane", WARP):
            for bit, vector in enumerate(wanted.get(name, ())):
                place = _place_of(vector, bases)
                if place is None or place == (name, bit) or bit >= len(bases[name]):
                    continue
                swapped = {key: list(vectors) for key, vectors in bases.items()}
                swapped[place[0]][place[1]], swapped[name][bit] = (
                    swapped[name][bit],
                    swapped[place[0]][place[1]],
                )
                bases = swapped
                layout = LinearLayout.from_bases(
                    list(swapped.items()), start.out_dim_names, [size for _, size in start.out_dims]
                )
                if layout not in seen:
                    seen.add(layout)
                    yield layout


def _place_of(vector: tuple[int, ...], bases: dict[str, list[tuple[int, ...]]]) -> tuple[str, int] | None:
    """The in-dim and the bit whose basis is `vector`; None if there is none, or `vector` is zero."""
    if not any(vector):
        return None
    for name, vectors in bases.items():
        if vector in vectors:
            return name, vectors.index(vector)
    return None
