"""The figures of a compiled kernel: for each source line, and for the whole kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from triton_linear.dialect import triton_versions
from triton_linear.dialect.triton_versions import Release, release_of
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_by_name
from triton_linear.report import NOOP as FOLDED
from triton_linear.report import TRITON
from triton_linear.tools.diff.assembly import Where, instructions
from triton_linear.tools.diff.compiled import CompiledKernel
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

_TARGET = re.compile(r'ttg\.target"? = "(?P<name>[^"]+)"')
_WARPS = re.compile(r'"ttg\.num-warps" = (?P<number>\d+)')
Lines = dict[Where, "LineFacts"]


@dataclass(frozen=True)
class ConversionFact:
    """A conversion.

    crosses: how far it moves data (`ir.crossed`). source, destination: tensor types. lowering: empty if not
    known. loops: the number of loops around it, None if not known.
    """

    crosses: str
    source: str
    destination: str
    lowering: str = ""
    loops: int | None = None

    def with_lowering(self, lowering: str) -> ConversionFact:
        """Set the lowering. It can show that data crosses less than the layouts say, since a nearer copy is
        used.
        """
        crosses = self.crosses
        if crosses != NOOP and lowering == REGISTERS:
            crosses = REGISTERS
        elif crosses in (WARPS, CTAS) and lowering in (SHUFFLE, WARP_SHARED):
            crosses = LANES
        return replace(self, lowering=lowering, crosses=crosses)


@dataclass
class LineFacts:
    """The layouts, conversions and instructions of a source line."""

    layouts: list[Layout] = field(default_factory=list)
    conversions: list[ConversionFact] = field(default_factory=list)
    instructions: dict[str, Counter[int]] = field(default_factory=dict)
    """For each kind, the number of instructions of each width in bits."""

    def crossed(self) -> Counter[str]:
        """The number of conversions that move data, by how far they move it."""
        return Counter(one.crosses for one in self.conversions if one.crosses != NOOP)

    def lowered(self) -> Counter[str] | None:
        """The number of conversions that move data, by their lowering; None if a lowering is not known."""
        counts = Counter(one.lowering for one in self.conversions if one.crosses != NOOP)
        return None if "" in counts else counts


@dataclass(frozen=True)
class Facts:
    """The figures of a kernel. `has_layouts`: there is TTGIR, so layouts and conversions are known."""

    name: str
    target: str
    num_warps: int | None
    lines: Mapping[Where, LineFacts]
    resources: Resources
    has_layouts: bool

    def conversions(self) -> int | None:
        """The number of conversions that move data; None without TTGIR."""
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


def target_of(kernel: CompiledKernel) -> str:
    """The name of the target that a kernel was compiled for; empty if it is not known."""
    target = kernel.metadata.get("target")
    if isinstance(target, dict) and {"backend", "arch"} <= target.keys():
        return f"{target['backend']}:{target['arch']}"
    match = _TARGET.search(kernel.texts.get("ttgir", ""))
    return match["name"] if match else ""


def facts(kernel: CompiledKernel, triton: str, where: Callable[[Where], Where], shared: int | None) -> Facts:
    """The figures of a kernel that the version `triton` compiled.

    `where` maps a line to the line under which it is listed. `shared` is the number of bytes of shared memory
    per CTA, used if the kernel's metadata has none.
    """
    release = release_of(triton)
    name = target_of(kernel)
    warps = kernel.metadata.get("num_warps")
    if warps is None and (match := _WARPS.search(kernel.texts.get("ttgir", ""))):
        warps = int(match["number"])
    lines: Lines = {}

    def at(place: Where) -> LineFacts:
        return lines.setdefault(where(place), LineFacts())

    _read_ttgir(kernel, release, at)
    if triton and triton == triton_versions.found() and warps is not None:
        _add_stock_lowerings(lines, warps, name)
    for one in instructions(kernel.assembly):
        at(one.where).instructions.setdefault(one.kind, Counter())[one.bits] += 1
    used = resources(kernel.binary, kernel.assembly, kernel.metadata.get("shared", shared), warps, _known(name))
    return Facts(kernel.name, name, warps, lines, used, bool(kernel.layouts))


def _read_ttgir(kernel: CompiledKernel, release: Release | None, at: Callable[[Where], LineFacts]) -> None:
    ops = list(operations(kernel.layouts))
    for place, in_line in layouts(ops, release).items():
        at(place).layouts += in_line
    if kernel.conversions is not None:
        for one in kernel.conversions:
            kind = NOOP if one.lowering == FOLDED else crossed(one.source, one.destination, release)
            fact = ConversionFact(kind, one.source, one.destination)
            at(one.place).conversions.append(fact.with_lowering(one.lowering))
        return
    for op in conversions(ops):
        source, destination = op.types
        kind = crossed(source, destination, release)
        at(op.where).conversions.append(ConversionFact(kind, source, destination, loops=op.loops))


def _add_stock_lowerings(lines: Lines, warps: int, target: str) -> None:
    """Add the lowering of each conversion that stock Triton lowers."""

    def is_stock(one: ConversionFact) -> bool:
        return one.crosses != NOOP and one.lowering in ("", TRITON)

    types = [(c.source, c.destination) for line in lines.values() for c in line.conversions if is_stock(c)]
    kinds = lowerings(types, warps, target)
    for line in lines.values():
        line.conversions = [
            one.with_lowering(kinds.get((one.source, one.destination), "")) if is_stock(one) else one
            for one in line.conversions
        ]


def _known(name: str) -> Target | None:
    try:
        return target_by_name(name)
    except ValueError:
        return None
