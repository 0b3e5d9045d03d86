"""Who holds the shared memory of both sides: `explain`'s ledger, made in a process, as Triton may end it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triton_linear.tools.diff.assembly import Where
from triton_linear.tools.diff.made import Made
from triton_linear.tools.explain.ledger import ledger
from triton_linear.tools.support.errors import keep_captured
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify.stock import MEMORY, SECONDS, WARM

_SYMBOL = re.compile(r'"(__ll_\w+)"')


@dataclass(frozen=True)
class Share:
    """Who holds shared memory, where, and how many bytes; None where that is not known."""

    kind: str
    what: str
    bytes: int | None
    where: Where


@dataclass(frozen=True)
class Held:
    """The bytes that a CTA takes, and everyone who holds some of them."""

    bytes: int
    shares: tuple[Share, ...]


def held(made: tuple[Made, Made], targets: tuple[str, str]) -> tuple[Held | None, Held | None]:
    """Who holds shared memory; None where the installed Triton does not take the TTGIR of another release."""
    work = [(one.layouts, target) for one, target in zip(made, targets, strict=True)]
    found = _known(work[:1]) * 2 if work[0] == work[1] else _known(work)
    return found[0], found[1]


def _known(work: list[tuple[str, str]]) -> list[Held | None]:
    wanted = [one for one in work if all(one)]
    if not wanted:
        return [None] * len(work)
    isolation: Isolation[Held] = Isolation(_held, [__name__, *WARM], SECONDS, MEMORY)
    answers = dict(zip(wanted, isolation.map(wanted, 1), strict=True))
    found = [answers.get(one) for one in work]
    return [None if isinstance(one, Lost) else one for one in found]


def _held(text: str, target: str) -> Held:
    keep_captured()
    stubs = dict.fromkeys(_SYMBOL.findall(text), "scratch of triton-linear's code")
    found = ledger(text, target, stubs, None)
    shares = tuple(
        Share(one.kind, one.what, one.bytes, (one.place.file, one.place.line)) for one in found.holders
    )
    return Held(found.peak, shares)
