"""The records of a report; `schema.json` describes their JSON form."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from triton_linear.dialect.locations import user_position
from triton_linear.passes.framework.plans import NOOP, STOCK
from triton_linear.tools.explain.anchors import Anchor
from triton_linear.tools.explain.verdict import KernelVerdict
from triton_linear.tools.support.words import Figures, count


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of the user's source; line 0 if the location has none, column 0 if it is the whole line."""

    file: str
    line: int
    column: int
    code: str = ""

    @classmethod
    def at(cls, file: str, line: int, column: int = 0) -> Place:
        """The place with the code there, if it can be read."""
        return cls(file, line, column, linecache.getline(file, line).strip() if line else "")

    @classmethod
    def of(cls, location: str) -> Place:
        """The user's place in a location."""
        return cls.at(*user_position(location))

    @classmethod
    def near(cls, location: str, *anchors: Anchor | None) -> Place:
        """The place of a conversion; if it has no location, the place of the first anchor that has one."""
        place = cls.of(location)
        for anchor in anchors:
            if not place.line and anchor is not None and anchor.line:
                place = cls.at(anchor.file, anchor.line, anchor.column)
        return place

    @property
    def whole_line(self) -> Place:
        """The line, without the column."""
        return replace(self, column=0)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "an unknown place"


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """A conversion.

    types: those of the tensor before and after. clocks, latency: from the cost model, clocks of a
    multiprocessor for one warp, and clocks until the result is ready if a CTA runs alone. figures: of its code,
    whoever emitted it; None if it could not be run, for the reason in `problem`.
    """

    place: Place
    loop_depth: int
    source: str
    destination: str
    types: tuple[str, str]
    source_words: str
    destination_words: str
    from_anchor: Anchor | None
    to_anchor: Anchor | None
    kind: str
    lowering: str
    rejected: tuple[str, ...]
    clocks: float
    latency: float
    scratch_bytes: int
    figures: Figures | None
    problem: str
    advice: str

    @property
    def way(self) -> str:
        """The kind of its lowering; of Triton's own, by what the interpreter counted."""
        figures = self.figures
        if self.kind != STOCK or figures is None:
            return self.kind
        if figures.wavefronts:
            return "cta-shared" if figures.barriers else "warp-shared"
        return "shuffle" if figures.shuffles else "registers" if figures.alu else NOOP

    @property
    def moves(self) -> bool:
        """Whether it moves data."""
        return self.way != NOOP

    def __str__(self) -> str:
        cost = f": {self.figures or self.problem}" if self.figures is not None or self.problem else ""
        loops = f", in {count(self.loop_depth, 'loop')}" if self.loop_depth else ""
        return f"{self.source} -> {self.destination.partition(' ')[2]}, {self.way}{loops}{cost}"

    @property
    def weight(self) -> tuple[int, float]:
        """The sort key: loop depth, then cost."""
        return self.loop_depth, self.clocks


@dataclass(frozen=True, slots=True)
class AccessFigures:
    """The modelled cost of an access to shared memory, of all warps of a CTA in one iteration of its loops.

    width: the bytes of a thread that lie in a row; matrix instructions move more at once.
    """

    wavefronts: int
    minimum_wavefronts: int
    width: int


@dataclass(frozen=True, slots=True)
class AccessReport:
    """A store to shared memory, a load from it or a copy to it.

    detail: why there are no figures.
    """

    place: Place
    loop_depth: int
    operation: str
    registers: str
    registers_words: str
    memory: str
    memory_words: str
    figures: AccessFigures | None
    detail: str

    @property
    def weight(self) -> tuple[int, int]:
        """The sort key: loop depth, then wavefronts."""
        return self.loop_depth, self.figures.wavefronts if self.figures else 0


@dataclass(frozen=True, slots=True)
class ReductionReport:
    """A reduction, a scan or a sort.

    spread: the number of coordinates of the axis that each in-dim of the layout reaches. steps: the number of
    reductions of a sort, 0 for other reports; the `operation` of a sort is the function that the user calls.
    """

    place: Place
    loop_depth: int
    operation: str
    axis: int
    source: str
    source_words: str
    spread: Mapping[str, int]
    steps: int = 0


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The bytes of shared memory of a kernel's CTA. stock: those of stock Triton, None if not known."""

    kernel: str
    bytes: int
    stock: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of a kernel on one grid; None if a value is not known.

    stock_microseconds: the median of a launch with stock Triton. stock_over_ours: how many times
    faster it is with this package. problems: by mode, why a value is not known.
    """

    device: str
    grid: tuple[int, ...]
    launches: int
    stock_microseconds: float | None
    stock_over_ours: float | None
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """The report about a module, for one target.

    stock: the conversions that stock Triton has, None unless requested. measured: None unless requested, and
    empty if no launch of the kernel was observed.
    """

    file: str
    target: str
    num_warps: int
    kernels: tuple[str, ...]
    conversions: tuple[ConversionReport, ...]
    folded: int
    avoided: int
    made: int
    accesses: tuple[AccessReport, ...]
    reductions: tuple[ReductionReport, ...]
    shared_memory: tuple[SharedMemory, ...]
    assignment: tuple[str, ...]
    stock: tuple[ConversionReport, ...] | None = None
    measured: tuple[Measured, ...] | None = None
    verdict: KernelVerdict | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values; `schema.json` describes them."""
        return asdict(self)
