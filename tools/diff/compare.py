"""Compare two sides, kernel by kernel: what differs, and whether B is worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_linear.tools.diff.assembly import WIDE, Where
from triton_linear.tools.diff.compiled import CompiledKernel, CompiledSide
from triton_linear.tools.diff.divergence import Divergence, divergence, layout_divergence
from triton_linear.tools.diff.facts import Facts, LineFacts, facts, target_of
from triton_linear.tools.diff.figures import TimedLoop
from triton_linear.tools.diff.ir import operations
from triton_linear.tools.diff.lines import aligned
from triton_linear.tools.diff.shared_memory import ledgers
from triton_linear.tools.explain.records import Ledger

HIGHER, LOWER = "higher", "lower"
WORSE: Mapping[str, str] = {
    "registers": HIGHER,
    "scalar registers": HIGHER,
    "stack": HIGHER,
    "spilled": HIGHER,
    "shared": HIGHER,
    "occupancy": LOWER,
    "conversions": HIGHER,
}
"""For each figure of a whole kernel, whether a higher or a lower value is worse."""


@dataclass(frozen=True)
class Figure:
    """A figure of both sides; None if it is not known."""

    name: str
    a: int | None
    b: int | None

    @property
    def worse(self) -> int | None:
        """By how much B is worse, negative if it is better; None if a value is not known."""
        if self.a is None or self.b is None:
            return None
        return self.a - self.b if WORSE[self.name] == LOWER else self.b - self.a


@dataclass(frozen=True)
class Line:
    """A source line on both sides.

    layouts, conversions: whether they differ. instructions: the kinds whose counts or widths differ.
    narrower: the kinds of accesses that are narrower in B.
    """

    where: Where
    a: LineFacts
    b: LineFacts
    layouts: bool
    conversions: bool
    instructions: tuple[str, ...]
    narrower: tuple[str, ...]

    @property
    def differs(self) -> tuple[str, ...]:
        """The names of what differs."""
        return (*self.instructions, *["conversions"] * self.conversions, *["layouts"] * self.layouts)

    @property
    def weight(self) -> tuple[bool, ...]:
        """The sort key of lines; the highest comes first."""
        more = self.b.crossed().total() > self.a.crossed().total()
        return bool(self.narrower), more, self.conversions, bool(self.instructions)


@dataclass(frozen=True)
class Pair:
    """A kernel of both sides. `shared_memory` is None for a side whose use of shared memory is not known."""

    kernels: tuple[CompiledKernel, CompiledKernel]
    facts: tuple[Facts, Facts]
    divergence: Divergence | None
    layout_divergence: Divergence | None
    figures: tuple[Figure, ...]
    loops: tuple[tuple[TimedLoop | None, TimedLoop | None], ...]
    every_line: tuple[Line, ...]
    narrower: tuple[str, ...]
    shared_memory: tuple[Ledger | None, Ledger | None]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.facts[0].name

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that differ."""
        return tuple(line for line in self.every_line if line.differs)

    def figure(self, name: str) -> Figure:
        """A figure of the whole kernel."""
        return next(one for one in self.figures if one.name == name)


@dataclass(frozen=True)
class Comparison:
    """Both sides, the kernels that both have, and the names of those that only one side has."""

    sides: tuple[CompiledSide, CompiledSide]
    pairs: tuple[Pair, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]


def compare(a: CompiledSide, b: CompiledSide) -> Comparison:
    """Compare kernels of the same name: preferably those of equal TTIR, else in the order of compilation."""
    pairs: list[tuple[CompiledKernel, CompiledKernel]] = []
    unpaired = list(b.kernels)
    only_in_a = []
    for kernel in a.kernels:
        same = [other for other in unpaired if other.name == kernel.name]
        if not same and len(a.kernels) == len(b.kernels) == 1:
            same = unpaired  # one each: the kernel was renamed
        if not same:
            only_in_a.append(kernel.name)
            continue
        best = next((other for other in same if other.texts.get("ttir") == kernel.texts.get("ttir")), same[0])
        unpaired.remove(best)
        pairs.append((kernel, best))
    tritons = a.triton, b.triton
    compared = tuple(_pair(pair, tritons) for pair in pairs)
    return Comparison((a, b), compared, (tuple(only_in_a), tuple(kernel.name for kernel in unpaired)))


def _pair(kernels: tuple[CompiledKernel, CompiledKernel], tritons: tuple[str, str]) -> Pair:
    places = aligned(*(files_of(kernel) for kernel in kernels))
    memory = ledgers(kernels, (target_of(kernels[0]), target_of(kernels[1])))
    shared = [one.peak if one is not None else None for one in memory]
    both_facts = (
        facts(kernels[0], tritons[0], places[0], shared[0]),
        facts(kernels[1], tritons[1], places[1], shared[1]),
    )
    a, b = both_facts
    lines = tuple(sorted(_lines(a, b), key=lambda line: line.weight, reverse=True))
    both = a.lines.keys() & b.lines.keys()
    whole = () if both - {("", 0)} else narrower(a.instructions(), b.instructions())
    return Pair(
        kernels,
        both_facts,
        divergence(*kernels),
        layout_divergence(*kernels, tritons),
        tuple(_figures(a, b)),
        _loops(a, b),
        lines,
        tuple(dict.fromkeys([*(kind for line in lines for kind in line.narrower), *whole])),
        memory,
    )


def files_of(kernel: CompiledKernel) -> set[str]:
    """The source files of a kernel's operations."""
    return {op.where[0] for op in operations(kernel.texts.get("ttgir", "")) if op.where[1]}


def _figures(a: Facts, b: Facts) -> Iterator[Figure]:
    sides = a.resources, b.resources
    for name, attribute in (
        ("registers", "registers"),
        ("scalar registers", "scalar_registers"),
        ("spilled", "spilled"),
        ("stack", "stack"),
        ("shared", "shared"),
        ("occupancy", "ctas"),
    ):
        values = [getattr(side, attribute) for side in sides]
        if values != [None, None] or name not in ("scalar registers", "spilled"):
            yield Figure(name, *values)
    yield Figure("conversions", a.conversions(), b.conversions())


def _loops(a: Facts, b: Facts) -> tuple[tuple[TimedLoop | None, TimedLoop | None], ...]:
    """Pairs of loops: in order if both sides have the same number, else the loop with the most clocks of
    each; none if the loops of one side are not known.
    """
    first, second = a.resources.loops, b.resources.loops
    if first is None or second is None:
        return ()
    if len(first) == len(second):
        return tuple(zip(first, second, strict=True))
    longest = [max(side, key=lambda loop: loop.clocks, default=None) for side in (first, second)]
    return ((longest[0], longest[1]),)


def _lines(a: Facts, b: Facts) -> Iterator[Line]:
    known = a.has_layouts and b.has_layouts
    for where in sorted(a.lines.keys() | b.lines.keys()):
        first, second = (side.lines.get(where, LineFacts()) for side in (a, b))
        layouts = {one.key for one in first.layouts} != {one.key for one in second.layouts}
        lowered = [side.lowered() for side in (first, second)]
        converted = first.crossed() != second.crossed() or (None not in lowered and lowered[0] != lowered[1])
        kinds = tuple(
            kind
            for kind in dict.fromkeys((*first.instructions, *second.instructions))
            if first.instructions.get(kind) != second.instructions.get(kind)
        )
        narrow = narrower(first.instructions, second.instructions)
        yield Line(where, first, second, known and layouts, known and converted, kinds, narrow)


def narrower(a: Mapping[str, Counter[int]], b: Mapping[str, Counter[int]]) -> tuple[str, ...]:
    """The kinds of accesses that both sides have and whose mean width is smaller in B.

    >>> narrower({"global loads": Counter({128: 2})}, {"global loads": Counter({32: 8})})
    ('global loads',)
    """
    return tuple(kind for kind in WIDE if a.get(kind) and b.get(kind) and _mean(b[kind]) < _mean(a[kind]))


def _mean(widths: Counter[int]) -> float:
    return sum(bits * count for bits, count in widths.items()) / max(1, widths.total())
