"""What happened to the conversions of one kernel, and where the time went.

Every compile that passes through the plugin makes one `Report`. It reaches the `on_report` callback of the
setting that was in force, the list that `enabled()` yields, and `last_report()`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from enum import Enum

from triton_linear.dialect.records import dataclass


class FallbackWarning(UserWarning):
    """A kernel was compiled by stock Triton because the plugin failed on it."""


class LimitWarning(UserWarning):
    """A part of what this package does is left to stock Triton: how to do it with this release is not known."""


class ReportWarning(UserWarning):
    """A report did not reach its function or file, or a dump its folder; kernels are compiled."""


class Outcome(Enum):
    """How a kernel left the plugin."""

    NOTHING_TO_DO = "nothing to do"
    """It has no conversion, no gather, no reduction and no access to shared memory that might change: stock
    Triton compiled it, nothing else ran."""
    CONVERTED = "converted"
    """Its conversions went through the passes, and what they made of it was compiled."""
    LEFT = "left to Triton"
    """No conversion of it needs code of ours, for the reasons the report gives; stock Triton compiled it."""
    REWRITTEN = "rewritten by user passes"
    """There is no code of ours in it; stock Triton compiled what user passes made of it."""
    FAILED = "failed"
    """The plugin failed: stock Triton compiled the untouched kernel or, if strict, nobody did."""


NOOP = "noop"
FOLDED = "folded"
TRITON = "triton"
FREE = "free"


@dataclass(frozen=True, slots=True)
class ReportedConversion:
    """One conversion: its source location, layouts, lowering, and what there is to say about that choice.

    `lowering` is the kind of the plan ("registers", "shuffle", "warp-shared", "cta-shared", "cluster-shared",
    "padded"), or "noop", or "triton" where no plan was found; then `detail` is the reason. Where there is a
    plan, `detail` is its one-line summary. "free" is one that was left out to see what the kernel takes
    without: its result is garbage. `partials`: it is none of the kernel's, but brings partial results of a
    reduction together, which was taken apart. `made`: it is none of the kernel's either, but came with
    layouts that were chosen, or where an access goes by way of another layout.
    """

    location: str
    source: str
    destination: str
    lowering: str
    detail: str = ""
    partials: bool = False
    made: bool = False

    @property
    def own(self) -> bool:
        """Whether it is one of the kernel's, as Triton made that."""
        return not (self.made or self.partials)

    @property
    def ours(self) -> bool:
        """Whether the kernel runs code that this package emitted for it."""
        return self.lowering not in (NOOP, TRITON, FREE)


@dataclass(frozen=True, slots=True)
class ReportedGather:
    """One gather: its source location, the types of its source and index, and its lowering.

    `lowering` is "gather" where the kernel runs code that this package emitted for it, `detail` then sums that
    up; "triton" where it is left to Triton, for the reason in `detail`.
    """

    location: str
    source: str
    index: str
    lowering: str
    detail: str = ""

    @property
    def ours(self) -> bool:
        """Whether the kernel runs code that this package emitted for it."""
        return self.lowering != TRITON


@dataclass(frozen=True, slots=True)
class Report:
    """One compile: `seen` conversions were in the kernel, `seconds` are exclusive per phase.

    `seen` counts operations before any pass. Of these, `ours` run code of this package, `noop` move nothing,
    `folded` were removed, `avoided` are not needed with the layouts that were chosen, and `kept` are lowered by
    Triton; they add up, and `made` are beside them. `conversions` has those that are in the kernel at last.
    `staged` counts accesses to shared memory that go by way of another layout: each brings a conversion.
    `variant` is the one that was decided on by measuring, if one was (`triton_linear.variants`). `key` tells
    the kernel among those that were decided about; empty where nobody asked. `passes` are the user passes
    that changed the kernel.
    """

    kernel: str
    target: str
    outcome: Outcome
    seen: int = 0
    conversions: tuple[ReportedConversion, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    traceback: str | None = None
    gathers: tuple[ReportedGather, ...] = ()
    staged: int = 0
    avoided: int = 0
    variant: str = ""
    key: str = ""
    passes: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[ReportedConversion, ...]:
        """Conversions of the kernel as Triton made it that are still there."""
        return tuple(conversion for conversion in self.conversions if conversion.own)

    @property
    def made(self) -> tuple[ReportedConversion, ...]:
        """Conversions that were not in the kernel: layouts that were chosen, accesses that go by way of another
        layout and reductions that were taken apart have brought them."""
        return tuple(conversion for conversion in self.conversions if not conversion.own)

    @property
    def ours(self) -> int:
        """The kernel's conversions that run code of this package."""
        return sum(conversion.ours for conversion in self.own)

    @property
    def emitted(self) -> int:
        """Conversions that run code of this package, those that were made included."""
        return sum(conversion.ours for conversion in self.conversions)

    @property
    def noop(self) -> int:
        """The kernel's conversions that move nothing."""
        return _count(self.own, NOOP)

    @property
    def free(self) -> int:
        """Conversions that were left out, for measuring; if there are any, the kernel's results are garbage."""
        return _count(self.own, FREE)

    @property
    def folded(self) -> int:
        """The kernel's conversions that the passes removed where layouts stayed."""
        converted = self.outcome is Outcome.CONVERTED
        return self.seen - self.avoided - len(self.own) if converted else 0

    @property
    def kept(self) -> int:
        """The kernel's conversions that Triton lowers, whether they are listed with a reason or not."""
        return self.seen - self.ours - self.noop - self.free - self.folded - self.avoided

    @property
    def left(self) -> tuple[ReportedConversion, ...]:
        """Conversions that Triton lowers, each with the reason; those that were made are among them."""
        return tuple(conversion for conversion in self.conversions if conversion.lowering == TRITON)

    @property
    def overhead(self) -> float:
        """Seconds that stock Triton alone would not have spent."""
        return sum(seconds for phase, seconds in self.seconds.items() if phase != "stock")

    def __str__(self) -> str:
        counts = f"{self.seen} conversion{'' if self.seen == 1 else 's'}"
        if self.seen:
            counts += f": {self.ours} ours, {self.noop} no-op, {self.folded} folded, {self.avoided} avoided"
            counts += f", {self.kept} left"
            counts += f", {self.free} FREE: the results are garbage" if self.free else ""
        if made := self.made:
            ours, noop, left = sum(c.ours for c in made), _count(made, NOOP), _count(made, TRITON)
            counts += f"; {len(made)} more that our passes made: {ours} ours, {noop} no-op, {left} left"
        if self.gathers:
            counts += f"; {len(self.gathers)} gather{'' if len(self.gathers) == 1 else 's'}"
            counts += f": {sum(gather.ours for gather in self.gathers)} ours"
        if self.staged:
            counts += f"; {self.staged} access{'' if self.staged == 1 else 'es'} by way of another layout"
        lines = [f"{self.kernel} for {self.target}: {self.outcome.value}; {counts}"]
        if self.variant:
            lines.append(f"  decided by measuring: {self.variant}")
        if self.passes:
            lines.append(f"  changed by user passes: {', '.join(self.passes)}")
        lines += _once(f"  {_line(conversion)}" for conversion in self.conversions)
        lines += _once(
            f"  {gather.location}: gather: {'' if gather.ours else 'left to Triton: '}"
            f"{gather.detail.removeprefix('gather: ')}"
            for gather in self.gathers
        )
        lines += [f"  remark: {remark}" for remark in dict.fromkeys(self.remarks)]
        if self.error is not None:
            lines.append(f"  error: {self.error}")
        if self.seconds:
            times = ", ".join(f"{phase} {1e3 * seconds:.1f}" for phase, seconds in self.seconds.items())
            lines.append(f"  ms: {times}")
        return "\n".join(lines)


def _count(conversions: Iterable[ReportedConversion], lowering: str) -> int:
    return sum(conversion.lowering == lowering for conversion in conversions)


def _line(conversion: ReportedConversion) -> str:
    """What is said of a conversion."""
    whose = "of partial results, " if conversion.partials else "made, " if conversion.made else ""
    lowering = "left to Triton" if conversion.lowering == TRITON else conversion.lowering
    detail = conversion.detail.removeprefix(f"{lowering}: ")
    return f"{conversion.location}: {whose}{lowering}{f': {detail}' if detail else ''}"


def _once(lines: Iterable[str]) -> list[str]:
    """Each line once, with the number of times where it is several.

    >>> _once(["a", "b", "a"])
    ['a, 2 times', 'b']
    """
    return [f"{line}, {times} times" if times > 1 else line for line, times in Counter(lines).items()]


class PhaseClock:
    """Seconds spent per named phase; a phase inside another is not counted twice.

    >>> clock = PhaseClock()
    >>> with clock.phase("outer"):
    ...     with clock.phase("inner"):
    ...         pass
    >>> list(clock.seconds)
    ['outer', 'inner']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block, less that of phases inside it, under `name`."""
        self.seconds.setdefault(name, 0.0)
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] += elapsed - self._inner.pop()
            if self._inner:
                self._inner[-1] += elapsed


_last: Report | None = None


def last_report() -> Report | None:
    """The report of the compile that finished last in this process, in any thread; None before the first."""
    return _last


def publish(report: Report) -> None:
    """Make `report` the one that `last_report()` gives."""
    global _last  # noqa: PLW0603
    _last = report
