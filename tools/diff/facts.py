"""One compiled kernel in figures: by line of the source, and as a whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from triton_linear.dialect import triton_versions
from triton_linear.dialect.triton_versions import Release, release_of
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.report import NOOP as FOLDED
from triton_linear.report import TRITON
from triton_linear.tools.diff.assembly import Where, instructions
from triton_linear.tools.diff.figures import Resources, resources
from triton_linear.tools.diff.ir import (
    CTAS,
    LANES,
    NOOP,
    REGISTERS,
    WARPS,
    Layout,
    conversions,
    crossed,
    layouts,
    operations,
)
from triton_linear.tools.diff.lowered import SHUFFLE, WARP_SHARED, lowerings
from triton_linear.tools.diff.made import Made

_TARGET = re.compile(r'ttg\.target"? = "(?P<name>[^"]+)"')
_WARPS = re.compile(r'"ttg\.num-warps" = (?P<number>\d+)')
Lines = dict[Where, "LineFacts"]


@dataclass(frozen=True)
class ConversionFact:
    """A conversion: the farthest that it moves data, its tensor types, its lowering and how many loops are
    around it; empty and None where that is not known."""

    crosses: str
    source: str
    destination: str
    lowering: str = ""
    loops: int | None = None

    def by(self, lowering: str) -> ConversionFact:
        """The same with its lowering, which may show that data stay nearer: of copies the near ones do."""
        crosses = self.crosses
        if crosses != NOOP and lowering == REGISTERS:
            crosses = REGISTERS
        elif crosses in (WARPS, CTAS) and lowering in (SHUFFLE, WARP_SHARED):
            crosses = LANES
        return replace(self, lowering=lowering, crosses=crosses)


@dataclass
class LineFacts:
    """What a line of the source became."""

    layouts: list[Layout] = field(default_factory=list)
    conversions: list[ConversionFact] = field(default_factory=list)
    instructions: dict[str, Counter[int]] = field(default_factory=dict)
    """By kind: how many of each width in bits."""

    def crossed(self) -> Counter[str]:
        """How many conversions move data, by how far."""
        return Counter(one.crosses for one in self.conversions if one.crosses != NOOP)

    def lowered(self) -> Counter[str] | None:
        """How many conversions move data, by their lowering; None where one is not known."""
        found = Counter(one.lowering for one in self.conversions if one.crosses != NOOP)
        return None if "" in found else found


@dataclass(frozen=True)
class Facts:
    """A kernel in figures. `has_layouts`: there is TTGIR, so layouts and conversions are known."""

    name: str
    target: str
    num_warps: int | None
    lines: Mapping[Where, LineFacts]
    resources: Resources
    has_layouts: bool

    def conversions(self) -> int | None:
        """How many conversions move data; None where there is no TTGIR that would say."""
        return (
            None if not self.has_layouts else sum(sum(line.crossed().values()) for line in self.lines.values())
        )

    def instructions(self) -> dict[str, Counter[int]]:
        """Instructions of all lines."""
        total: dict[str, Counter[int]] = {}
        for line in self.lines.values():
            for kind, widths in line.instructions.items():
                total.setdefault(kind, Counter()).update(widths)
        return total


def target_of(made: Made) -> str:
    """The name of what a kernel was compiled for; empty where nothing says."""
    said = made.metadata.get("target")
    if isinstance(said, dict) and {"backend", "arch"} <= said.keys():
        return f"{said['backend']}:{said['arch']}"
    found = _TARGET.search(made.texts.get("ttgir", ""))
    return found["name"] if found else ""


def facts(made: Made, triton: str, where: Callable[[Where], Where], shared: int | None) -> Facts:
    """The figures of a kernel that `triton` compiled, with lines as `where` calls them; `shared` is what a CTA
    takes of shared memory where the kernel's metadata do not say it."""
    release = release_of(triton)
    name = target_of(made)
    warps = made.metadata.get("num_warps")
    if warps is None and (found := _WARPS.search(made.texts.get("ttgir", ""))):
        warps = int(found["number"])
    lines: Lines = {}

    def at(place: Where) -> LineFacts:
        return lines.setdefault(where(place), LineFacts())

    _read_ttgir(made, release, at)
    if triton and triton == triton_versions.found() and warps is not None:
        _ask_triton(lines, warps, name)
    for one in instructions(made.assembly):
        at(one.where).instructions.setdefault(one.kind, Counter())[one.bits] += 1
    used = resources(made.binary, made.assembly, made.metadata.get("shared", shared), warps, _known(name))
    return Facts(made.name, name, warps, lines, used, bool(made.layouts))


def _read_ttgir(made: Made, release: Release | None, at: Callable[[Where], LineFacts]) -> None:
    ops = list(operations(made.layouts))
    for place, found in layouts(ops, release).items():
        at(place).layouts += found
    if made.conversions is not None:
        for one in made.conversions:
            kind = NOOP if one.lowering == FOLDED else crossed(one.source, one.destination, release)
            at(one.place).conversions.append(ConversionFact(kind, one.source, one.destination).by(one.lowering))
        return
    for op in conversions(ops):
        source, destination = op.types
        kind = crossed(source, destination, release)
        at(op.where).conversions.append(ConversionFact(kind, source, destination, loops=op.loops))


def _ask_triton(lines: Lines, warps: int, target: str) -> None:
    """Say of the conversions that Triton lowers how it does so."""

    def is_asked(one: ConversionFact) -> bool:
        return one.crosses != NOOP and one.lowering in ("", TRITON)

    wanted = [(c.source, c.destination) for line in lines.values() for c in line.conversions if is_asked(c)]
    found = lowerings(wanted, warps, target)
    for line in lines.values():
        line.conversions = [
            one.by(found.get((one.source, one.destination), "")) if is_asked(one) else one
            for one in line.conversions
        ]


def _known(name: str) -> Target | None:
    try:
        return target_called(name)
    except ValueError:
        return None
