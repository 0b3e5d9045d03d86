"""The results of `triton-linear tune`: decisions from what its children measured, and their presentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear.decisions import Circumstances
from triton_linear.tools.measuring import choose
from triton_linear.tools.measuring.choose import EVEN, Interval
from triton_linear.tools.measuring.records import CONTEST, Launched
from triton_linear.variants import OURS, STOCK


@dataclass(frozen=True)
class TunedKernel:
    """A kernel, the grids on which it was measured, and the chosen variant.

    ratio: how many times faster the variant is than stock Triton, over the time of all launches. ours: how
    many times faster the plugin is without a decision; None if it was not measured. exact: whether the
    variant's results are bit for bit stock Triton's.
    """

    circumstances: Circumstances
    name: str
    launches: tuple[Launched, ...]
    variant: str
    ratio: Interval
    ours: Interval | None
    exact: bool

    @property
    def microseconds(self) -> float:
        """The time of all launches in stock Triton."""
        return sum(launch.microseconds for launch in self.launches)


def tuned(launches: Iterable[Launched]) -> list[TunedKernel]:
    """The kernels whose variants were compared, with their decisions, sorted by time in descending order."""
    groups: dict[Circumstances, list[Launched]] = {}
    for launch in launches:
        if launch.comparison is not None:
            groups.setdefault(launch.comparison.circumstances, []).append(launch)
    kernels = [_tuned(circumstances, group) for circumstances, group in groups.items()]
    return sorted(kernels, key=lambda kernel: -kernel.microseconds)


def _tuned(circumstances: Circumstances, launches: Sequence[Launched]) -> TunedKernel:
    ratios = {name: _combined(launches, name) for name in (STOCK, *(one.fastest for one in launches), OURS)}
    faster = {one.fastest: ratio for one in launches if (ratio := ratios[one.fastest]) and ratio.low > 1}
    chosen = max(faster, key=lambda name: faster[name].ratio, default=STOCK)
    exact = all(one.comparison is not None and chosen in one.comparison.exact for one in launches)
    ratio = faster.get(chosen, EVEN)
    return TunedKernel(circumstances, launches[0].name, tuple(launches), chosen, ratio, ratios[OURS], exact)


def _combined(launches: Sequence[Launched], name: str) -> Interval | None:
    """The ratio of a variant over all launches; None if it was not measured in all of them."""
    parts = [(launch.microseconds, launch.ratio(name)) for launch in launches]
    known = [(weight, ratio) for weight, ratio in parts if ratio is not None]
    return choose.combined(known) if len(known) == len(parts) else None


def table_of(kernels: Sequence[TunedKernel], launches: Sequence[Launched], device: str) -> Table:
    """The table of the results; launches that were not measured come last, with the reason."""
    table = Table(title=device, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("kernel", overflow="fold")
    for name in ("launches", "stock ms", "stock / ours", "taken", "stock / taken", "95 of 100", "results"):
        table.add_column(name, justify="left" if name in ("taken", "results") else "right", no_wrap=True)
    for kernel in kernels:
        table.add_row(
            Text(kernel.name, "bold"),
            str(sum(launch.launches for launch in kernel.launches)),
            f"{kernel.microseconds / 1e3:.3f}",
            "–" if kernel.ours is None else f"{kernel.ours.ratio:.3f}",
            kernel.variant,
            f"{kernel.ratio.ratio:.3f}",
            f"{kernel.ratio.low:.3f} to {kernel.ratio.high:.3f}",
            "same bits" if kernel.exact else "other rounding",
        )
        for launch in kernel.launches:
            for name, problem in launch.problems.items():
                table.add_row(Text(f"  {name}: {problem}", "dim"))
    for launch in launches:
        if launch.comparison is None:
            reason = launch.problems.get(CONTEST) or next(iter(launch.problems.values()), "not measured")
            grid = "x".join(map(str, launch.grid))
            table.add_row(Text(f"{launch.name} {grid}: {reason}", "dim"), str(launch.launches))
    return table


def sentence(kernels: Sequence[TunedKernel]) -> str:
    """The summary of all kernels, as a sentence."""
    total = sum(kernel.microseconds for kernel in kernels)
    if not total:
        return "no kernel has anything to choose"
    after = sum(kernel.microseconds / kernel.ratio.ratio for kernel in kernels)
    plain = sum(kernel.microseconds / (kernel.ours or EVEN).ratio for kernel in kernels)
    taken = sum(kernel.variant not in (STOCK, OURS) for kernel in kernels)
    stock = sum(kernel.variant == STOCK for kernel in kernels)
    return (
        f"{len(kernels)} kernels, {total / 1e3:.3f} ms in stock Triton: {1 - plain / total:.1%} less with the "
        f"plugin, {1 - after / total:.1%} less with these decisions ({taken} for another variant, {stock} for "
        f"stock Triton)"
    )
