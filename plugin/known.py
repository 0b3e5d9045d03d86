"""Keep the results of the passes for a module on disk, for the next process that compiles it (`kept`).

The results depend on the module's text, the target and the options, which make the key. (A search for layouts
that its time limit stopped may end differently the next time; both results are correct.) Modules that differ
only in source locations and the kernel's name share an entry: it has placeholders for these, which `read` fills
in. Every plan in an entry was proved by the compile that wrote it. An entry has only the versions that this
compile tried; if another one is needed, such as one whose scratch shares bytes, the passes run.

If an entry is found, neither the passes nor MLIR are imported.
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
"""A string. If `place` matches, the string is a file name, and `place` a location in that file. Other strings
are matched too, since their content may look like a location."""
_MARK = "\x02"
"""Encloses the number of a location. No printed module contains it, since MLIR escapes it in strings."""
_NAME = f"{_MARK}name{_MARK}"


class Version(Protocol):
    """A version of a kernel: its text, and the shared memory that it may need (`pipeline.Attempt`)."""

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
    """A version with its conversions and gathers; `version` is None for the stock kernel."""

    version: Version | None
    conversions: tuple[ReportedConversion, ...]
    gathers: tuple[ReportedGather, ...]


@dataclass(frozen=True, slots=True)
class PassResults:
    """The results of the passes for a module.

    differs: the kernel differs from the stock kernel. staged, avoided, awaited: as in `Rewritten`.
    made: the known versions, in the order in which they are tried.
    """

    differs: bool
    staged: int
    avoided: int
    awaited: bool
    made: tuple[TriedVersion, ...]

    @classmethod
    def of(cls, prepared: Prepared, made: Sequence[TriedVersion] = ()) -> PassResults:
        """The results for a module after the passes, with the versions tried so far."""
        found = prepared.rewritten
        facts = found.staged, found.avoided, found.awaited
        return cls(prepared.differs, *facts, tuple(made))


class Unfinished(Exception):
    """No version that is kept fits in shared memory."""


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version from an entry."""

    text: str
    room: int
    scratch: str
    apart: bool


@dataclass(frozen=True)
class Known:
    """The entry of a module: its name in the store, and the module's values for the placeholders in it.

    places: the source locations of the module, in the order of their first use. kernel: the kernel's name.
    numbers: the index of each location in `places`.
    """

    name: str
    places: tuple[str, ...]
    kernel: str
    numbers: dict[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, text: str, kernel: str, target: str, options: PipelineOptions) -> Known:
        """The entry of a module.

        text: the module in generic form with its locations. target: the target of the plans with changed
        thresholds, a name that `targets.target` reads.
        """
        numbers: dict[str, int] = {}

        def number(found: re.Match[str]) -> str:
            if found["place"] is None:
                return found[0]
            return f"{_MARK}{numbers.setdefault(found[0], len(numbers))}{_MARK}"

        general = _STRING.sub(number, text)
        general = general.replace(_name_attribute(kernel), _name_attribute(_NAME))
        release = f"{triton_versions.found()} {triton_versions.installed_release()!r}"
        name = store.digest(general, target, repr(options), source_digest(), mlir_provider(), release)
        return cls(name, tuple(numbers), kernel, numbers)

    def read(self) -> PassResults | None:
        """The results in the entry; None if there is no entry, or an invalid one."""
        entry = store.read(self.name)
        if entry is None:
            return None
        try:
            made = tuple(map(self._made, entry["made"]))
            facts = entry["staged"], entry["avoided"], entry["awaited"]
            return PassResults(entry["differs"], *facts, made)
        except (KeyError, TypeError, ValueError, IndexError):
            return None

    def write(self, outcome: PassResults) -> None:
        """Write the results to the entry."""
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
            else [self._to_entry(version.text), version.room, version.scratch, version.apart],
            "conversions": [self._row(found) for found in made.conversions],
            "gathers": [self._row(found) for found in made.gathers],
        }

    def _row(self, found: ReportedConversion | ReportedGather) -> tuple[Any, ...]:
        return astuple(replace(found, location=self._to_entry(found.location)))

    def _made(self, kept: dict[str, Any]) -> TriedVersion:
        version = None
        if kept["version"] is not None:
            text, *rest = kept["version"]
            version = KnownVersion(self._from_entry(text), *rest)
        conversions = (ReportedConversion(self._from_entry(row[0]), *row[1:]) for row in kept["conversions"])
        gathers = (ReportedGather(self._from_entry(row[0]), *row[1:]) for row in kept["gathers"])
        return TriedVersion(version, tuple(conversions), tuple(gathers))

    def _to_entry(self, text: str) -> str:
        """The text with placeholders for the module's locations and name."""

        def number(found: re.Match[str]) -> str:
            place = self.numbers.get(found[0]) if found["place"] else None
            return found[0] if place is None else f"{_MARK}{place}{_MARK}"

        return _STRING.sub(number, text).replace(_name_attribute(self.kernel), _name_attribute(_NAME))

    def _from_entry(self, text: str) -> str:
        """The text with this module's locations and name in place of placeholders."""
        pieces = text.replace(_name_attribute(_NAME), _name_attribute(self.kernel)).split(_MARK)
        pieces[1::2] = [self.places[int(piece)] for piece in pieces[1::2]]
        return "".join(pieces)


def _name_attribute(kernel: str) -> str:
    """The attribute for a function's name in a module in generic form."""
    return f'sym_name = "{kernel}"'


def versions(prepared: Prepared, tried: list[TriedVersion]) -> Iterator[TriedVersion]:
    """The versions of a module after the passes, in the order in which they are tried, and last the stock
    kernel. Each version that is taken from the iterator is appended to `tried`."""

    def made(version: Attempt | None) -> TriedVersion:
        conversions = tuple(map(_conversion, prepared.conversions(version)))
        tried.append(TriedVersion(version, conversions, tuple(map(_gather, prepared.gathers(version)))))
        return tried[-1]

    if prepared.differs:
        yield from map(made, prepared.attempts())
    yield made(None)


def reported(made: TriedVersion) -> tuple[tuple[ReportedConversion, ...], tuple[ReportedGather, ...]]:
    """The conversions and gathers of a version for a report: each with the line in the user's source."""
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
