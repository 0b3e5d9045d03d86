"""Two sides, kernel by kernel: what differs, and which way it is worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_linear.tools.diff.assembly import WIDE, Where
from triton_linear.tools.diff.began import Began, began, layouts_began
from triton_linear.tools.diff.facts import Facts, LineFacts, facts, target_of
from triton_linear.tools.diff.figures import TimedLoop
from triton_linear.tools.diff.held import Held, held
from triton_linear.tools.diff.ir import operations
from triton_linear.tools.diff.lines import aligned
from triton_linear.tools.diff.made import Compiled, Made

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
"""Figures of a whole kernel, by name, and which way each is worse."""


@dataclass(frozen=True)
class Figure:
    """One figure of both sides; None where it is not known."""

    name: str
    a: int | None
    b: int | None

    @property
    def worse(self) -> int | None:
        """By how much B is worse, below zero where it is better; None where it cannot be told."""
        if self.a is None or self.b is None:
            return None
        return self.a - self.b if WORSE[self.name] == LOWER else self.b - self.a


@dataclass(frozen=True)
class Line:
    """A line of the source on both sides, and what of it differs: layouts, conversions, instructions by kind.
    `narrower` are the kinds of accesses of which B moves less at once."""

    where: Where
    a: LineFacts
    b: LineFacts
    layouts: bool
    conversions: bool
    instructions: tuple[str, ...]
    narrower: tuple[str, ...]

    @property
    def differs(self) -> tuple[str, ...]:
        """What differs."""
        return (*self.instructions, *["conversions"] * self.conversions, *["layouts"] * self.layouts)

    @property
    def weight(self) -> tuple[bool, ...]:
        """What lines are sorted by, the highest first."""
        more = self.b.crossed().total() > self.a.crossed().total()
        return bool(self.narrower), more, self.conversions, bool(self.instructions)


@dataclass(frozen=True)
class Pair:
    """One kernel of both sides. `held`: who holds shared memory, None where that is not known."""

    made: tuple[Made, Made]
    facts: tuple[Facts, Facts]
    began: Began | None
    layouts_began: Began | None
    figures: tuple[Figure, ...]
    loops: tuple[tuple[TimedLoop | None, TimedLoop | None], ...]
    every_line: tuple[Line, ...]
    narrower: tuple[str, ...]
    held: tuple[Held | None, Held | None]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.facts[0].name

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that became something else."""
        return tuple(line for line in self.every_line if line.differs)

    def figure(self, name: str) -> Figure:
        """A figure of the whole kernel."""
        return next(one for one in self.figures if one.name == name)


@dataclass(frozen=True)
class Comparison:
    """Both sides: the kernels of both, and those that only one has."""

    sides: tuple[Compiled, Compiled]
    pairs: tuple[Pair, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]


def compare(a: Compiled, b: Compiled) -> Comparison:
    """Compare the kernels of the same name, those of equal TTIR first, then in the order they were compiled."""
    pairs: list[tuple[Made, Made]] = []
    left = list(b.kernels)
    alone = []
    for made in a.kernels:
        same = [other for other in left if other.name == made.name]
        if not same and len(a.kernels) == len(b.kernels) == 1:
            same = left  # one each: a kernel that was renamed
        if not same:
            alone.append(made.name)
            continue
        best = next((other for other in same if other.texts.get("ttir") == made.texts.get("ttir")), same[0])
        left.remove(best)
        pairs.append((made, best))
    tritons = a.triton, b.triton
    compared = tuple(_pair(pair, tritons) for pair in pairs)
    return Comparison((a, b), compared, (tuple(alone), tuple(made.name for made in left)))


def _pair(made: tuple[Made, Made], tritons: tuple[str, str]) -> Pair:
    places = aligned(*(files_of(one) for one in made))
    holders = held(made, (target_of(made[0]), target_of(made[1])))
    shared = [one.bytes if one is not None else None for one in holders]
    found = (
        facts(made[0], tritons[0], places[0], shared[0]),
        facts(made[1], tritons[1], places[1], shared[1]),
    )
    a, b = found
    lines = tuple(sorted(_lines(a, b), key=lambda line: line.weight, reverse=True))
    both = a.lines.keys() & b.lines.keys()
    whole = () if both - {("", 0)} else narrower(a.instructions(), b.instructions())
    return Pair(
        made,
        found,
        began(*made),
        layouts_began(*made, tritons),
        tuple(_figures(a, b)),
        _loops(a, b),
        lines,
        tuple(dict.fromkeys([*(kind for line in lines for kind in line.narrower), *whole])),
        holders,
    )


def files_of(made: Made) -> set[str]:
    """The files that the operations of a kernel are from."""
    return {op.where[0] for op in operations(made.texts.get("ttgir", "")) if op.where[1]}


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
    """The loops of both, one by one where there are as many, else those of most clocks; none where those of one
    are not known."""
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
        moved = first.crossed() != second.crossed() or (None not in lowered and lowered[0] != lowered[1])
        kinds = tuple(
            kind
            for kind in dict.fromkeys((*first.instructions, *second.instructions))
            if first.instructions.get(kind) != second.instructions.get(kind)
        )
        less = narrower(first.instructions, second.instructions)
        yield Line(where, first, second, known and layouts, known and moved, kinds, less)


def narrower(a: Mapping[str, Counter[int]], b: Mapping[str, Counter[int]]) -> tuple[str, ...]:
    """The kinds of accesses, of those that both have, of which B moves less at once on average.

    >>> narrower({"global loads": Counter({128: 2})}, {"global loads": Counter({32: 8})})
    ('global loads',)
    """
    return tuple(kind for kind in WIDE if a.get(kind) and b.get(kind) and _mean(b[kind]) < _mean(a[kind]))


def _mean(widths: Counter[int]) -> float:
    return sum(bits * count for bits, count in widths.items()) / max(1, widths.total())
