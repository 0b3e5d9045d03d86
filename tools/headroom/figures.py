"""The results of `triton-linear headroom`, from the records of its children, and their presentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear.report import FREE as LEFT_OUT
from triton_linear.report import NOOP, TRITON
from triton_linear.tools.support.modes import FREE, OURS, STOCK

NOISE = 0.005
"""If free conversions save a smaller part of a kernel's time, no share is computed."""


@dataclass(frozen=True)
class Converted:
    """A conversion of the stock kernel.

    ours: its lowering by this package. left_out: whether it is free in mode `free`. detail: why it is not.
    headroom: stock / free if only this conversion is free.
    """

    location: str
    source: str
    destination: str
    ours: str
    left_out: bool
    detail: str
    headroom: float | None = None


@dataclass
class TimedKernel:
    """A kernel on one grid; None if a value is not known.

    seen: the number of its conversions. speedup: stock / ours. headroom: stock / free. problems: by mode, why
    there is no ratio. module: the digest of its TTGIR.
    """

    key: str
    name: str
    grid: tuple[int, ...]
    warps: int
    seen: int
    launches: int = 0
    microseconds: float | None = None
    speedup: float | None = None
    headroom: float | None = None
    conversions: tuple[Converted, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)
    module: str = ""

    @property
    def total(self) -> float:
        """Microseconds of all launches in stock Triton."""
        return self.launches * (self.microseconds or 0.0)

    @property
    def to_save(self) -> float:
        """Microseconds that free conversions would save, over all launches."""
        return self.total * (1 - 1 / (self.headroom or 1.0))

    @property
    def saved(self) -> float:
        """Microseconds that this package saves, over all launches."""
        return self.total * (1 - 1 / (self.speedup or 1.0))

    @property
    def share(self) -> float | None:
        """(stock - ours) / (stock - free); None if the cost of conversions is below noise or not known."""
        if self.headroom is None or self.speedup is None or 1 - 1 / self.headroom < NOISE:
            return None
        return (1 - 1 / self.speedup) / (1 - 1 / self.headroom)


def kernels_of(records: Iterable[Mapping[str, Any]]) -> list[TimedKernel]:
    """The kernels in records, sorted by the cost of their conversions in the program, in descending order.

    Launches are counted by the first child that reached its end. For a kernel without conversions both ratios
    are one.
    """
    kernels: dict[str, TimedKernel] = {}
    ratios: dict[tuple[str, str], float] = {}
    rows: dict[tuple[str, str], list[list[str]]] = {}
    counted = False
    for record in records:
        if "launches" in record:
            for key, count in record["launches"].items():
                if key in kernels and not counted:
                    kernels[key].launches = count
            counted = True
            continue
        key = record["kernel"]
        if "name" in record and key not in kernels:
            grid = tuple(record["grid"])
            kernels[key] = TimedKernel(key, record["name"], grid, record["warps"], record["seen"])
            kernels[key].module = record.get("module", "")
        if "mode" not in record:
            continue
        kernel, mode = kernels[key], record["mode"]
        if "ratio" in record:
            ratios[key, mode] = record["ratio"]
            if kernel.microseconds is None:
                kernel.microseconds = record["microseconds"][STOCK]
        elif "conversions" in record:
            rows[key, mode] = record["conversions"]
        elif "problem" in record:
            kernel.problems.setdefault(mode, record["problem"])
    for key, kernel in kernels.items():
        if kernel.seen == 0 and kernel.microseconds is not None:
            kernel.speedup = kernel.headroom = 1.0
        else:
            kernel.speedup, kernel.headroom = ratios.get((key, OURS)), ratios.get((key, FREE))
        kernel.conversions = _conversions(rows.get((key, FREE), []), rows.get((key, OURS)), key, ratios)
        if not counted:
            kernel.launches = 1
    return sorted(kernels.values(), key=lambda kernel: (-kernel.to_save, -kernel.total))


def _conversions(
    free: Sequence[Sequence[str]],
    ours: Sequence[Sequence[str]] | None,
    key: str,
    ratios: Mapping[tuple[str, str], float],
) -> tuple[Converted, ...]:
    """The conversions of the stock kernel, matched with those of mode `ours` by place and layouts."""
    remaining: dict[tuple[str, ...], list[str]] = {}
    for location, source, destination, lowering, _ in ours or ():
        remaining.setdefault((location, source, destination), []).append(lowering)
    conversions = []
    for number, (location, source, destination, lowering, detail) in enumerate(free):
        same = remaining.get((location, source, destination))
        lowered_by_ours = same.pop(0) if same else "" if ours is None else "gone"
        alone = ratios.get((key, f"{FREE}:{number}"))
        left_out = lowering == LEFT_OUT
        reason = "" if left_out else detail
        conversions.append(Converted(location, source, destination, lowered_by_ours, left_out, reason, alone))
    return tuple(conversions)


@dataclass(frozen=True)
class Sum:
    """Sums over kernels, in microseconds of stock Triton; `known` is the time of those with both ratios."""

    total: float
    known: float
    to_save: float
    saved: float

    @staticmethod
    def of(kernels: Iterable[TimedKernel]) -> Sum:
        """The sums over some kernels."""
        everything = list(kernels)
        known = [k for k in everything if k.headroom is not None and k.speedup is not None]
        return Sum(
            sum(k.total for k in everything),
            sum(k.total for k in known),
            sum(k.to_save for k in known),
            sum(k.saved for k in known),
        )


def as_json(kernels: Sequence[TimedKernel], device: str, command: Sequence[str]) -> dict[str, Any]:
    """All results as JSON values."""
    total = Sum.of(kernels)
    return {
        "device": device,
        "command": list(command),
        "microseconds": {
            "stock": total.total,
            "of_kernels_with_all_figures": total.known,
            "saved_if_conversions_were_free": total.to_save,
            "saved_by_ours": total.saved,
        },
        "kernels": [
            {
                "kernel": k.name,
                "grid": list(k.grid),
                "num_warps": k.warps,
                "launches": k.launches,
                "stock_microseconds": k.microseconds,
                "stock_over_ours": k.speedup,
                "stock_over_free": k.headroom,
                "share_taken": k.share,
                "conversions_seen": k.seen,
                "conversions": [vars(c) for c in k.conversions],
                "problems": k.problems,
            }
            for k in kernels
        ],
    }


def table_of(kernels: Sequence[TimedKernel], device: str, each: bool) -> Table:
    """The table of the results; `each` adds a line for every conversion."""
    table = Table(title=device, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("kernel, grid", overflow="fold")
    for name in ("launches", "stock µs", "stock / ours", "stock / free", "share taken"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("conversions", overflow="fold")
    for kernel in kernels:
        title = Text.assemble((kernel.name, "bold"), f" {'x'.join(map(str, kernel.grid))}")
        table.add_row(
            title,
            str(kernel.launches),
            _number(kernel.microseconds, 1),
            *_ratios(kernel),
            "" if kernel.share is None else f"{kernel.share:.0%}",
            summary_of_conversions(kernel),
        )
        for mode, problem in kernel.problems.items():
            if ":" not in mode:
                table.add_row(Text(f"  {mode}: {problem}", "dim"))
        for number, one in enumerate(kernel.conversions if each else ()):
            failed = kernel.problems.get(f"{FREE}:{number}")
            free = _number(one.headroom, 3) if one.left_out else "kept"
            why = f"no figure: {failed}" if failed else one.detail
            layouts = f"  {Path(one.location).name} {_layouts(one)}"
            lowering = Text(f"{one.ours}{': ' if one.ours and why else ''}{why}", "dim")
            table.add_row(Text(layouts, "dim"), "", "", "", free, "", lowering)
    return table


def _ratios(kernel: TimedKernel) -> tuple[str, str]:
    if kernel.seen == 0:
        return "", ""
    return _number(kernel.speedup, 3), _number(kernel.headroom, 3)


def summary_of_conversions(kernel: TimedKernel) -> str:
    """The number of a kernel's conversions for each lowering by this package, and how many cannot be free."""
    if kernel.seen == 0:
        return "none"
    if not kernel.conversions:
        return f"{kernel.seen}"
    names = {NOOP: "no-op", TRITON: "left", "": "unknown"}
    kinds = Counter(names.get(one.ours, one.ours) for one in kernel.conversions)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    kept = sum(not one.left_out and one.ours != NOOP for one in kernel.conversions)
    return f"{text}; {kept} not free" if kept else text


def _layouts(one: Converted) -> str:
    from triton_linear.tools.verify.words import short_encoding, short_type

    return f"{short_type(one.source)} → {short_encoding(one.destination)}"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def sentence(kernels: Sequence[TimedKernel]) -> str:
    """The summary of all kernels, as a sentence."""
    total = Sum.of(kernels)
    launches = _count(sum(kernel.launches for kernel in kernels), "launch", "launches")
    text = f"{_count(len(kernels), 'kernel')}, {launches}, {total.total / 1e3:.3f} ms in stock Triton"
    if not total.known:
        return f"{text}; nothing is known of what conversions cost"
    if unknown := sum(k.headroom is None or k.speedup is None for k in kernels):
        without = f"{_count(unknown, 'kernel')} without all figures"
        text += f" ({without}, {1 - total.known / total.total:.0%} of the time)"
    part = total.to_save / total.known
    text += f": without its layout conversions it would be {part:.1%} less, and ours takes off"
    text += f" {total.saved / total.known:.1%}"
    if part >= NOISE:
        text += f", {total.saved / total.to_save:.0%} of what there is to take"
    return text


def _count(number: int, what: str, several: str = "") -> str:
    return f"{number} {what}" if number == 1 else f"{number} {several or what + 's'}"
