"""Keep the results of the passes for a module on disk, for the next process that compiles it (`store`).

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
from dataclasses import field, replace
from typing import TYPE_CHECKING

from triton_linear.dialect import mlir_provider, store, triton_versions
from triton_linear.dialect.locations import user_line
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.passes.options import PipelineOptions
from triton_linear.report import TRITON, ReportedConversion

if TYPE_CHECKING:
    from triton_linear.passes.attempts import Attempt, Prepared
    from triton_linear.passes.framework.plans import DecidedConversion

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(?P<place>:\d+:\d+(?: to (?:\d+)?:\d+)?)?')
"""A string. If `place` matches, the string is a file name, and `place` a location in that file. Other strings
are matched too, since their content may look like a location."""
_MARK = "\x02"
"""Encloses the number of a location. No printed module contains it, since MLIR escapes it in strings."""
_NAME = f"{_MARK}name{_MARK}"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a kernel: its conversions, its text, and the shared memory that it may need (as in
    `pipeline.Attempt`). The stock kernel has no text."""

    conversions: tuple[ReportedConversion, ...]
    text: str = ""
    room: int = 0
    scratch: str = ""
    apart: bool = False


@dataclass(frozen=True, slots=True)
class PassResults:
    """The results of the passes for a module.

    differs: the kernel differs from the stock kernel. avoided, awaited, distinct: as in `Rewritten`.
    made: the known versions, in the order in which they are tried.
    """

    differs: bool
    avoided: int
    awaited: bool
    distinct: tuple[tuple[int, int], ...]
    made: tuple[Version, ...]

    @classmethod
    def of(cls, prepared: Prepared, made: Sequence[Version] = ()) -> PassResults:
        """The results for a module after the passes, with the versions tried so far."""
        found = prepared.rewritten
        return cls(prepared.differs, found.avoided, found.awaited, found.distinct, tuple(made))


class Unfinished(Exception):
    """No version that is kept fits in shared memory."""


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
        places = tuple(dict.fromkeys(found[0] for found in _STRING.finditer(text) if found["place"]))
        made = cls("", places, kernel, {place: number for number, place in enumerate(places)})
        release = f"{triton_versions.found()} {triton_versions.installed_release()!r}"
        facts = target, repr(options), source_digest(), mlir_provider.installed(), release
        return replace(made, name=store.digest(made._to_entry(text), *facts))

    def read(self) -> PassResults | None:
        """The results in the entry; None if there is no entry, or an invalid one."""
        return store.read_as(self.name, PassResults, self._from_entry)

    def write(self, outcome: PassResults) -> None:
        """Write the results to the entry."""
        store.write_as(self.name, outcome, self._to_entry)

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


def versions(prepared: Prepared, tried: list[Version]) -> Iterator[Version]:
    """The versions of a module after the passes, in the order in which they are tried, and last the stock
    kernel. Each version that is taken from the iterator is appended to `tried`."""

    def made(one: Attempt | None) -> Version:
        given = () if one is None else (one.text, one.room, one.scratch, one.apart)
        tried.append(Version(tuple(map(_conversion, prepared.conversions(one))), *given))
        return tried[-1]

    if prepared.differs:
        yield from map(made, prepared.attempts())
    yield made(None)


def reported(made: Version) -> tuple[ReportedConversion, ...]:
    """The conversions of a version for a report: each with the line in the user's source."""
    return tuple(replace(found, location=user_line(found.location)) for found in made.conversions)


def _conversion(found: DecidedConversion) -> ReportedConversion:
    layouts, lowering = (found.source, found.destination), TRITON if found.kind == "stock" else found.kind
    return ReportedConversion(found.location, *layouts, lowering, found.detail, found.partials, found.made)
