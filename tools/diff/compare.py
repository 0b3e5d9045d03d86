"""Compare two sides, kernel by kernel: what differs, and whether B is worse."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from triton_linear.tools.diff.compiled import CompiledKernel, LineFacts, same_code
from triton_linear.tools.explain.records import ConversionReport, Place
from triton_linear.tools.explain.verdict import Figure, KernelVerdict, expected, with_split_reductions

COUNTS = ("wavefronts", "shuffles", "barriers", "alu")
"""What is counted for the conversions of a kernel."""


@dataclass(frozen=True)
class Line:
    """A source line on both sides.

    layouts, conversions: whether they differ, or what is counted for them. narrower: the accesses for which
    fewer bytes lie in a row in B.
    """

    place: Place
    a: LineFacts
    b: LineFacts
    layouts: bool
    conversions: bool
    narrower: tuple[str, ...]

    @property
    def differs(self) -> tuple[str, ...]:
        """The names of what differs."""
        return (*["conversions"] * self.conversions, *["layouts"] * self.layouts)

    @property
    def weight(self) -> tuple[bool, bool, bool, int]:
        """The sort key of lines; the highest comes first."""
        more = len(moving(self.b)) > len(moving(self.a))
        a, b = (sum(one.figures.wavefronts for one in moving(side) if one.figures) for side in (self.a, self.b))
        return bool(self.narrower), more, self.conversions, abs(b - a)


_DECIDING = ("spilled", "stack", "occupancy", *(f"{name} of conversions" for name in COUNTS))


@dataclass(frozen=True)
class Pair:
    """A kernel of both sides."""

    a: CompiledKernel
    b: CompiledKernel
    same_code: bool
    figures: tuple[Figure, ...]
    every_line: tuple[Line, ...]
    narrower: tuple[str, ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that differ."""
        return tuple(line for line in self.every_line if line.differs)

    def figure(self, name: str) -> Figure:
        """A figure of the whole kernel."""
        return next(one for one in self.figures if one.name == name)

    @property
    def verdict(self) -> KernelVerdict:
        """What is expected of B. Registers and shared memory count by the CTAs that they leave room for."""
        figures = (one for one in self.figures if one.name in _DECIDING)
        found = expected(list(figures))
        return with_split_reductions(found, a=self.a.split, b=self.b.split)


@dataclass(frozen=True)
class Comparison:
    """The kernels that both sides have, and the names of those that only one side has."""

    pairs: tuple[Pair, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]


def compare(a: Sequence[CompiledKernel], b: Sequence[CompiledKernel]) -> Comparison:
    """Compare kernels of the same name: preferably those of equal TTIR, else in the order of compilation."""
    pairs: list[Pair] = []
    unpaired = list(b)
    only_in_a = []
    for kernel in a:
        same = [other for other in unpaired if other.name == kernel.name]
        if not same and len(a) == len(b) == 1:
            same = unpaired  # one each: the kernel was renamed
        if not same:
            only_in_a.append(kernel.name)
            continue
        best = next((other for other in same if other.given == kernel.given), same[0])
        unpaired.remove(best)
        pairs.append(_pair(kernel, best))
    return Comparison(tuple(pairs), (tuple(only_in_a), tuple(kernel.name for kernel in unpaired)))


def _pair(a: CompiledKernel, b: CompiledKernel) -> Pair:
    lines = tuple(sorted(_lines(a, b), key=lambda line: line.weight, reverse=True))
    narrow = dict.fromkeys(kind for line in lines for kind in line.narrower)
    return Pair(a, b, same_code(a, b), tuple(_figures(a, b)), lines, tuple(narrow))


def _figures(a: CompiledKernel, b: CompiledKernel) -> Iterator[Figure]:
    for name in ("registers", "scalar registers", "spilled", "stack", "shared", "occupancy"):
        values = [getattr(side.resources, name.replace(" ", "_")) for side in (a, b)]
        if values != [None, None] or name not in ("scalar registers", "spilled"):
            yield Figure(name, *values)
    yield Figure("conversions", len(_moving(a)), len(_moving(b)))
    for name in COUNTS:
        yield Figure(f"{name} of conversions", _sum(a, name), _sum(b, name))


def _moving(kernel: CompiledKernel) -> list[ConversionReport]:
    """The conversions of a kernel that move data."""
    return [one for line in kernel.lines.values() for one in moving(line)]


def _sum(kernel: CompiledKernel, name: str) -> int | None:
    """What was counted for the conversions of a kernel; None if it is not known of all."""
    found = [one.figures for one in _moving(kernel)]
    return None if None in found else sum(getattr(figures, name) for figures in found)


def moving(line: LineFacts) -> list[ConversionReport]:
    """The conversions of a line that move data."""
    return [one for one in line.conversions if one.moves]


def _lines(a: CompiledKernel, b: CompiledKernel) -> Iterator[Line]:
    place = aligned(*({where.file for where in side.lines if where.line} for side in (a, b)))
    others = {place(where): facts for where, facts in b.lines.items()}
    for where in sorted(a.lines.keys() | others.keys()):
        first, second = (side.get(where, LineFacts()) for side in (a.lines, others))
        yield Line(
            where,
            first,
            second,
            {one.key for one in first.layouts} != {one.key for one in second.layouts},
            _moves(first) != _moves(second),
            narrower(first, second),
        )


def _moves(line: LineFacts) -> Counter[tuple[object, ...]]:
    return Counter(
        (one.source_words, one.destination_words, one.way, one.loop_depth, one.figures) for one in moving(line)
    )


def aligned(first: set[str], second: set[str]) -> Callable[[Place], Place]:
    """A function that maps lines of the second side to those of the first, if each has one file of its own: a
    file that was edited or copied. Lines are matched by their text: wherever they are if it occurs once in each
    file, else by a diff. Those without a match keep their place."""
    own = sorted(first - second), sorted(second - first)
    if [len(files) for files in own] != [1, 1]:
        return lambda where: where
    (before,), (after,) = own
    old, new = ([line.strip() for line in linecache.getlines(name)] for name in (before, after))
    once = _once(old)
    table = {number: once[text] for text, number in _once(new).items() if text in once}
    matched = set(table.values())
    for tag, a, a_end, b, b_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and a_end - a == b_end - b):
            for line, other in zip(range(b + 1, b_end + 1), range(a + 1, a_end + 1), strict=True):
                if line not in table and other not in matched:
                    table[line] = other

    def place(where: Place) -> Place:
        return Place.at(before, table[where.line]) if where.file == after and where.line in table else where

    return place


def _once(lines: Sequence[str]) -> dict[str, int]:
    """The numbers of the lines whose text occurs once."""
    times = Counter(lines)
    return {text: number for number, text in enumerate(lines, 1) if times[text] == 1}


ACCESSES = ("tt.load", "tt.store", "tt.descriptor_load", "tt.descriptor_store")


def narrower(a: LineFacts, b: LineFacts) -> tuple[str, ...]:
    """The accesses that both sides have, and for which fewer bytes lie in a row in a thread of B."""
    least: list[dict[str, int]] = [{}, {}]
    for found, line in zip(least, (a, b), strict=True):
        for one in line.layouts:
            if one.operation in ACCESSES:
                found[one.operation] = min(one.run, found.get(one.operation, one.run))
    return tuple(name for name, run in least[1].items() if run < least[0].get(name, 0))


CONDITIONS = ("registers", "spills", "shared", "occupancy", "width", "conversions", "code")
"""What conditions of `diff --fail-on` compare: `registers > 8`."""
KNOWN = f"'registers > 8'; what is compared is {', '.join(CONDITIONS)}"


def worse(name: str, pair: Pair) -> tuple[float | None, str]:
    """By how much B is worse, None if it is not known, and what is."""
    match name:
        case "width":
            return len(pair.narrower), f"narrower in B: {', '.join(pair.narrower)}"
        case "code":
            return int(not pair.same_code), "the code differs"
        case "spills":
            known = [one for one in pair.figures if one.name in ("spilled", "stack")]
            worst = max(known, key=lambda one: one.worse or 0)
            if any(one.worse is None for one in known):
                return None, "spills are"
            return worst.worse, f"{worst.name} {worst.a} in A, {worst.b} in B"
        case _:
            figure = pair.figure(name)
            if figure.worse is None:
                return None, f"{name} is"
            return figure.worse, f"{name} {figure.a} in A, {figure.b} in B"
