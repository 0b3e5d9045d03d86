"""What the passes make of a module, kept for the next process that compiles it (`kept`).

What the passes make follows from the module's text, the target and the options, so text leads to text. A choice
of layouts that its time limit stopped is as right, and may be another one the next time. Two modules
that differ in nothing but places in source files and the kernel's name have one entry: what stands for those is
put in again. Every plan in what is kept was proved by the compile that wrote it; what that has not come to, as
scratch that shares its bytes, is not in the entry, and the passes run.

Neither the passes nor MLIR are imported where an entry is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from triton_linear.dialect import triton_versions
from triton_linear.dialect.locations import user_line
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.kept import store
from triton_linear.passes.options import PipelineOptions
from triton_linear.report import TRITON, ReportedConversion, ReportedGather
from triton_linear.setting import mlir_provider

if TYPE_CHECKING:
    from triton_linear.passes.framework.plans import DecidedConversion, DecidedGather
    from triton_linear.pipeline import Attempt, Prepared

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(?P<place>:\d+:\d+(?: to (?:\d+)?:\d+)?)?')
"""A string; with `place`, it names a file, and this is a place there. Others are read whole, for they may look
like the end of one."""
_MARK = "\x02"
"""Stands around the number of a place; no printed module has it, for MLIR escapes it in strings."""
_NAME = f"{_MARK}name{_MARK}"


class Version(Protocol):
    """A text for Triton to compile, and how much shared memory it may need (`pipeline.Attempt`)."""

    @property
    def text(self) -> str: ...
    @property
    def room(self) -> int: ...
    @property
    def scratch(self) -> str: ...
    @property
    def apart(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class TriedVersion:
    """One version, and what became of conversions and gathers in it; `version` is None for the stock kernel."""

    version: Version | None
    conversions: tuple[ReportedConversion, ...]
    gathers: tuple[ReportedGather, ...]


@dataclass(frozen=True, slots=True)
class PassResults:
    """What the passes made of a module.

    differs: whether anything is other than in the stock kernel. staged, avoided, awaited: as `Rewritten` has
    them. made: versions in the order in which they are tried, as far as they are known.
    """

    differs: bool
    staged: int
    avoided: int
    awaited: bool
    made: tuple[TriedVersion, ...]

    @classmethod
    def of(cls, prepared: Prepared, made: Sequence[TriedVersion] = ()) -> PassResults:
        """What the passes have made of a module, of whose versions some were tried."""
        found = prepared.rewritten
        return cls(prepared.differs, found.staged, found.avoided, found.awaited, tuple(made))


class Unfinished(Exception):
    """More versions of a kernel are needed than are kept."""


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version that is kept."""

    text: str
    room: int
    scratch: str
    apart: bool


@dataclass(frozen=True)
class Known:
    """The entry of a module: where it is, and how what is kept in it becomes this module's again.

    places: those of the module, in the order in which they are first there. kernel: its name.
    """

    name: str
    places: tuple[str, ...]
    kernel: str
    numbers: dict[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, text: str, kernel: str, target: str, options: PipelineOptions) -> Known:
        """The entry of a module, given in generic form with its locations.

        target: what plans are for, with its thresholds, as `targets.target` reads it.
        """
        numbers: dict[str, int] = {}

        def number(found: re.Match[str]) -> str:
            if found["place"] is None:
                return found[0]
            return f"{_MARK}{numbers.setdefault(found[0], len(numbers))}{_MARK}"

        general = _STRING.sub(number, text)
        general = general.replace(_named(kernel), _named(_NAME))
        release = f"{triton_versions.found()} {triton_versions.installed_release()!r}"
        name = store.digest(general, target, repr(options), source_digest(), mlir_provider(), release)
        return cls(name, tuple(numbers), kernel, numbers)

    def read(self) -> PassResults | None:
        """What is kept; None where nothing is."""
        entry = store.read(self.name)
        if entry is None:
            return None
        try:
            made = tuple(map(self._made, entry["made"]))
            return PassResults(entry["differs"], entry["staged"], entry["avoided"], entry["awaited"], made)
        except (KeyError, TypeError, ValueError, IndexError):
            return None

    def write(self, outcome: PassResults) -> None:
        """Keep what the passes made of the module."""
        store.write(
            self.name,
            {
                "differs": outcome.differs,
                "staged": outcome.staged,
                "avoided": outcome.avoided,
                "awaited": outcome.awaited,
                "made": [self._kept(made) for made in outcome.made],
            },
        )

    def _kept(self, made: TriedVersion) -> dict[str, Any]:
        version = made.version
        return {
            "version": None
            if version is None
            else [self._general(version.text), version.room, version.scratch, version.apart],
            "conversions": [self._row(found) for found in made.conversions],
            "gathers": [self._row(found) for found in made.gathers],
        }

    def _row(self, found: ReportedConversion | ReportedGather) -> tuple[Any, ...]:
        return astuple(replace(found, location=self._general(found.location)))

    def _made(self, kept: dict[str, Any]) -> TriedVersion:
        version = None
        if kept["version"] is not None:
            text, *rest = kept["version"]
            version = KnownVersion(self._particular(text), *rest)
        conversions = (ReportedConversion(self._particular(row[0]), *row[1:]) for row in kept["conversions"])
        gathers = (ReportedGather(self._particular(row[0]), *row[1:]) for row in kept["gathers"])
        return TriedVersion(version, tuple(conversions), tuple(gathers))

    def _general(self, text: str) -> str:
        """A text about the module, with numbers for its places."""

        def number(found: re.Match[str]) -> str:
            place = self.numbers.get(found[0]) if found["place"] else None
            return found[0] if place is None else f"{_MARK}{place}{_MARK}"

        return _STRING.sub(number, text).replace(_named(self.kernel), _named(_NAME))

    def _particular(self, text: str) -> str:
        """The text with the places of this module."""
        pieces = text.replace(_named(_NAME), _named(self.kernel)).split(_MARK)
        pieces[1::2] = [self.places[int(piece)] for piece in pieces[1::2]]
        return "".join(pieces)


def _named(kernel: str) -> str:
    """How a module in generic form says a function's name."""
    return f'sym_name = "{kernel}"'


def versions(prepared: Prepared, tried: list[TriedVersion]) -> Iterator[TriedVersion]:
    """The versions of a module after the passes, in the order in which they are tried; `tried` gets each that
    is asked for. The last is the stock kernel."""

    def made(version: Attempt | None) -> TriedVersion:
        conversions = tuple(map(_conversion, prepared.conversions(version)))
        tried.append(TriedVersion(version, conversions, tuple(map(_gather, prepared.gathers(version)))))
        return tried[-1]

    if prepared.differs:
        yield from map(made, prepared.attempts())
    yield made(None)


def told(made: TriedVersion) -> tuple[tuple[ReportedConversion, ...], tuple[ReportedGather, ...]]:
    """What a report says of conversions and gathers: of each location, the user's line."""
    conversions = (replace(found, location=user_line(found.location)) for found in made.conversions)
    gathers = (replace(found, location=user_line(found.location)) for found in made.gathers)
    return tuple(conversions), tuple(gathers)


def _conversion(found: DecidedConversion) -> ReportedConversion:
    lowering = TRITON if found.kind == "stock" else found.kind
    return ReportedConversion(
        found.location,
        found.source,
        found.destination,
        lowering,
        found.detail,
        found.partials,
        found.made,
    )


def _gather(found: DecidedGather) -> ReportedGather:
    lowering = TRITON if found.kind == "stock" else found.kind
    return ReportedGather(found.location, found.source, found.index, lowering, found.detail)
