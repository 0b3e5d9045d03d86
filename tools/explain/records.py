"""What is said of a module, as data; `schema.json` describes it."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from triton_linear.dialect.locations import user_position
from triton_linear.tools.explain.anchors import Anchor


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's source, as far as the location tells; line 0 where it does not."""

    file: str
    line: int
    column: int
    code: str = ""

    @classmethod
    def of(cls, location: str) -> Place:
        file, line, column = user_position(location)
        return cls(file, line, column, linecache.getline(file, line).strip() if line else "")

    @classmethod
    def near(cls, location: str, *anchors: Anchor | None) -> Place:
        """The place of a conversion; where Triton gives it none, that of the first anchor which has one."""
        place = cls.of(location)
        for anchor in anchors:
            if not place.line and anchor is not None and anchor.line:
                code = linecache.getline(anchor.file, anchor.line).strip()
                place = cls(anchor.file, anchor.line, anchor.column, code)
        return place

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "an unknown place"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the code of a conversion does in one CTA, or in all CTAs of the cluster where it crosses them: as
    counted by the interpreter, which ran it."""

    wavefronts: int
    minimum_wavefronts: int
    shuffles: int
    alu: int
    barriers: int
    warp_barriers: int
    cluster_barriers: int
    bytes: int
    wrong: int
    races: int


@dataclass(frozen=True, slots=True)
class StockReport:
    """What stock Triton emits for a conversion: a status of `verify --lowering=stock`, and the figures or why
    there are none."""

    status: str
    detail: str
    figures: Figures | None


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """One conversion. Modelled are `clocks`, a multiprocessor's for one warp, and `latency`, which a CTA alone
    waits. `stock` is None where nobody asked for it."""

    place: Place
    loop_depth: int
    source: str
    destination: str
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
    stock: StockReport | None
    advice: str

    @property
    def weight(self) -> tuple[int, float]:
        """What reports are sorted by: loops around it, then its cost."""
        return self.loop_depth, self.clocks


@dataclass(frozen=True, slots=True)
class AccessFigures:
    """What an access to shared memory takes in one CTA and one iteration of the loops around it, as counted by
    the interpreter, which ran it alone. `widths` are the bytes that a lane moves at once."""

    wavefronts: int
    minimum_wavefronts: int
    bytes: int
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AccessReport:
    """One store to shared memory, load from it or copy to it; `buffer` is where the buffer is made. `staging`
    says what it saves to go by way of the layout that is reported, empty where that is the kernel's own.
    `detail` says why there are no figures."""

    place: Place
    loop_depth: int
    operation: str
    registers: str
    registers_words: str
    memory: str
    memory_words: str
    buffer: Place
    staging: str
    figures: AccessFigures | None
    detail: str

    @property
    def weight(self) -> tuple[int, int]:
        """What reports are sorted by: loops around it, then wavefronts."""
        return self.loop_depth, self.figures.wavefronts if self.figures else 0


@dataclass(frozen=True, slots=True)
class ReductionFigures:
    """What a reduction or a scan takes in one CTA and one iteration of the loops around it, as counted by the
    interpreter, which ran it alone. Shuffles and barriers are instructions of one warp."""

    shuffles: int
    wavefronts: int
    minimum_wavefronts: int
    barriers: int
    bytes: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class ReductionReport:
    """One reduction or scan; `spread` says how many coordinates of the axis each in-dim of the layout reaches.
    `figures` are of what Triton makes of it, `apart` of the same as `linear-split-reductions` takes it apart,
    None where it does not. `detail` says why there are no figures. A sort, whose `operation` is what the user
    calls, is one report: `steps` are its reductions, 0 for other reports, and the figures are those of all."""

    place: Place
    loop_depth: int
    operation: str
    axis: int
    source: str
    source_words: str
    spread: Mapping[str, int]
    figures: ReductionFigures | None
    detail: str
    apart: ReductionFigures | None = None
    steps: int = 0

    @property
    def weight(self) -> tuple[int, int]:
        """What reports are sorted by: loops around it, then shuffles and wavefronts."""
        figures = self.figures
        return self.loop_depth, figures.shuffles + figures.wavefronts if figures else 0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds shared memory: `bytes` from `offset` on, None where that is not known, from the operation that
    is number `first` in the kernel, at `place`, to number `last`, at `until`, which is a `last_operation`."""

    kind: str
    operation: str
    what: str
    bytes: int | None
    offset: int | None
    place: Place
    until: Place
    first: int
    last: int
    last_operation: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Shared memory of one kernel. `peak` is what a CTA takes, `live` the most that is held at once, at
    `live_at`; `stock_peak` is what the kernel takes without this package, None where nobody asked or knows."""

    kernel: str
    peak: int
    live: int
    live_at: Place
    stock_peak: int | None
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """One kernel on one grid, as `triton-linear headroom` times it: the median of a launch by stock Triton, how
    many times faster ours is and how many times faster it is if conversions are free, and the part of the
    difference that ours takes; None where it is not known. `problems` say why, by mode, or what is not free."""

    device: str
    grid: tuple[int, ...]
    launches: int
    stock_microseconds: float | None
    stock_over_ours: float | None
    stock_over_free: float | None
    share_taken: float | None
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """A module, for one target. `measured` is None where nobody asked for it, and empty where no launch of the
    kernel was seen."""

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
    shared_memory: tuple[Ledger, ...]
    assignment: tuple[str, ...]
    gathers: tuple[str, ...]
    tensor_memory: tuple[str, ...] = ()
    measured: tuple[Measured, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """The same as data; `schema.json` describes it."""
        return asdict(self)
