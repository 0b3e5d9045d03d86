"""Who holds the shared memory of both sides: `explain`'s ledgers, made in child processes that may crash."""

from __future__ import annotations

import re

from triton_linear.tools.diff.compiled import CompiledKernel
from triton_linear.tools.explain.ledger import ledger
from triton_linear.tools.explain.records import Ledger
from triton_linear.tools.support.errors import capture_into_stderr
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify.stock import MEMORY, SECONDS, WARM

_SYMBOL = re.compile(r'"(__ll_\w+)"')


def ledgers(
    kernels: tuple[CompiledKernel, CompiledKernel], targets: tuple[str, str]
) -> tuple[Ledger | None, Ledger | None]:
    """The ledgers of both kernels; None if the installed Triton cannot parse a kernel's TTGIR."""
    work = [(kernel.layouts, target) for kernel, target in zip(kernels, targets, strict=True)]
    known = list(dict.fromkeys(one for one in work if all(one)))
    isolation: Isolation[Ledger] = Isolation(_ledger, [__name__, *WARM], SECONDS, MEMORY)
    made = dict(zip(known, isolation.map(known, 1), strict=True))
    a, b = (None if isinstance(one, Lost) else one for one in map(made.get, work))
    return a, b


def _ledger(text: str, target: str) -> Ledger:
    capture_into_stderr()
    stubs = dict.fromkeys(_SYMBOL.findall(text), "scratch of triton-linear's code")
    return ledger(text, target, stubs, None)
