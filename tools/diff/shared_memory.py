"""The users of shared memory of both sides: `explain`'s ledger, computed in a child process that may crash."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triton_linear.tools.diff.assembly import Where
from triton_linear.tools.diff.compiled import CompiledKernel
from triton_linear.tools.explain.ledger import ledger
from triton_linear.tools.support.errors import capture_into_stderr
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify.stock import MEMORY, SECONDS, WARM

_SYMBOL = re.compile(r'"(__ll_\w+)"')


@dataclass(frozen=True)
class Share:
    """A user of shared memory: its kind, a description, its bytes (None if not known) and its source line."""

    kind: str
    what: str
    bytes: int | None
    where: Where


@dataclass(frozen=True)
class SharedMemory:
    """The bytes of shared memory that a CTA takes, and all users of it."""

    bytes: int
    shares: tuple[Share, ...]


def shared_memory(
    kernels: tuple[CompiledKernel, CompiledKernel], targets: tuple[str, str]
) -> tuple[SharedMemory | None, SharedMemory | None]:
    """The shared memory of both kernels; None if the installed Triton cannot parse a kernel's TTGIR."""
    work = [(kernel.layouts, target) for kernel, target in zip(kernels, targets, strict=True)]
    results = _computed(work[:1]) * 2 if work[0] == work[1] else _computed(work)
    return results[0], results[1]


def _computed(work: list[tuple[str, str]]) -> list[SharedMemory | None]:
    wanted = [one for one in work if all(one)]
    if not wanted:
        return [None] * len(work)
    isolation: Isolation[SharedMemory] = Isolation(_compute, [__name__, *WARM], SECONDS, MEMORY)
    answers = dict(zip(wanted, isolation.map(wanted, 1), strict=True))
    results = [answers.get(one) for one in work]
    return [None if isinstance(one, Lost) else one for one in results]


def _compute(text: str, target: str) -> SharedMemory:
    capture_into_stderr()
    stubs = dict.fromkeys(_SYMBOL.findall(text), "scratch of triton-linear's code")
    memory = ledger(text, target, stubs, None)
    shares = tuple(
        Share(one.kind, one.what, one.bytes, (one.place.file, one.place.line)) for one in memory.holders
    )
    return SharedMemory(memory.peak, shares)
