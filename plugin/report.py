"""What the plugin did with the conversions of one kernel, and how long it took.

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
    """A feature is left to stock Triton: this package does not support it with the installed release."""


class ReportWarning(UserWarning):
    """A report or a dump could not be delivered. The kernel is compiled all the same."""


class Outcome(Enum):
    """What the plugin did with a kernel."""

    NOTHING_TO_DO = "nothing to do"
    """The kernel has no conversion, reduction or access to shared memory that might change. Stock
    Triton compiled it, and no pass ran."""
    CONVERTED = "converted"
    """The passes changed the kernel, and the changed kernel was compiled."""
    LEFT = "left to Triton"
    """The kernel runs no code of ours, for the reasons in the report. Stock Triton compiled it."""
    REWRITTEN = "rewritten by user passes"
    """Only user passes changed the kernel, and stock Triton compiled their result."""
    FAILED = "failed"
    """The plugin failed. Stock Triton compiled the unchanged kernel or, if strict, the compile raised."""


NOOP = "noop"
TRITON = "triton"


@dataclass(frozen=True, slots=True)
class ReportedConversion:
    """One conversion: its source location, layouts, lowering, and a detail of that lowering.

    `lowering` is the kind of the plan ("registers", "shuffle", "warp-shared", "cta-shared"), and `detail` is
    the plan's one-line summary. It is "triton" if no plan was found; `detail` is then the reason. It is "noop"
    if nothing moves. Two kinds of conversions are not in the kernel that Triton made: `partials` ones combine
    partial results of a reduction that was split; `made` ones come from chosen layouts.
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
        """True if the conversion is in the kernel that Triton made."""
        return not (self.made or self.partials)

    @property
    def ours(self) -> bool:
        """Whether the kernel runs code that this package emitted for it."""
        return self.lowering not in (NOOP, TRITON)


@dataclass(frozen=True, slots=True)
class Report:
    """One compile: what became of the kernel's conversions, and the seconds of each phase.

    `seen` counts the conversions before any pass. Of these, `ours` run code of this package, `noop` move
    nothing, `folded` were removed, `avoided` are not needed with the chosen layouts, and `kept` are
    lowered by Triton; the five add up to `seen`. `made` conversions come on top.
    `conversions` lists those of the compiled kernel. `seconds` of a phase exclude the phases inside it.
    `variant` is the variant chosen by measuring, if any (`triton_linear.variants`). `key` identifies the kernel
    among decisions; it is empty if no decisions were looked up. `passes` are the user passes that changed the
    kernel.
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
    avoided: int = 0
    variant: str = ""
    key: str = ""
    passes: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[ReportedConversion, ...]:
        """Remaining conversions that were in the kernel that Triton made."""
        return tuple(conversion for conversion in self.conversions if conversion.own)

    @property
    def made(self) -> tuple[ReportedConversion, ...]:
        """Conversions that were not in the kernel that Triton made: of chosen layouts and split reductions."""
        return tuple(conversion for conversion in self.conversions if not conversion.own)

    @property
    def ours(self) -> int:
        """The kernel's conversions that run code of this package."""
        return sum(conversion.ours for conversion in self.own)

    @property
    def emitted(self) -> int:
        """Conversions that run code of this package, `made` ones included."""
        return sum(conversion.ours for conversion in self.conversions)

    @property
    def noop(self) -> int:
        """The kernel's conversions that move nothing."""
        return _count(self.own, NOOP)

    @property
    def folded(self) -> int:
        """The kernel's conversions that the passes removed without changing layouts."""
        converted = self.outcome is Outcome.CONVERTED
        return self.seen - self.avoided - len(self.own) if converted else 0

    @property
    def kept(self) -> int:
        """The kernel's conversions that Triton lowers, whether `conversions` lists them or not."""
        return self.seen - self.ours - self.noop - self.folded - self.avoided

    @property
    def left(self) -> tuple[ReportedConversion, ...]:
        """Conversions that Triton lowers, each with the reason, `made` ones included."""
        return tuple(conversion for conversion in self.conversions if conversion.lowering == TRITON)

    def __str__(self) -> str:
        counts = f"{self.seen} conversion{'' if self.seen == 1 else 's'}"
        if self.seen:
            counts += f": {self.ours} ours, {self.noop} no-op, {self.folded} folded, {self.avoided} avoided"
            counts += f", {self.kept} left"
        if made := self.made:
            ours, noop, left = sum(c.ours for c in made), _count(made, NOOP), _count(made, TRITON)
            counts += f"; {len(made)} more that our passes made: {ours} ours, {noop} no-op, {left} left"
        lines = [f"{self.kernel} for {self.target}: {self.outcome.value}; {counts}"]
        if self.variant:
            lines.append(f"  decided by measuring: {self.variant}")
        if self.passes:
            lines.append(f"  changed by user passes: {', '.join(self.passes)}")
        lines += _once(f"  {_line(conversion)}" for conversion in self.conversions)
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
    """The line of a printed report about a conversion."""
    whose = "of partial results, " if conversion.partials else "made, " if conversion.made else ""
    lowering = "left to Triton" if conversion.lowering == TRITON else conversion.lowering
    detail = conversion.detail.removeprefix(f"{lowering}: ")
    return f"{conversion.location}: {whose}{lowering}{f': {detail}' if detail else ''}"


def _once(lines: Iterable[str]) -> list[str]:
    """Each distinct line once, followed by its count if that is above 1.

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
_outcomes: Counter[str] = Counter()


def last_report() -> Report | None:
    """The report of the latest finished compile of this process, in any thread; None before the first."""
    return _last


def outcomes() -> dict[str, int]:
    """How many finished compiles of this process had which outcome."""
    return dict(_outcomes)


def publish(report: Report) -> None:
    """Make `report` the result of `last_report()`, and count its outcome."""
    global _last  # noqa: PLW0603
    _last = report
    _outcomes[report.outcome.value] += 1
