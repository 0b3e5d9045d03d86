"""Compile variants of a kernel into Triton's cache."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from dataclasses import dataclass
from typing import Any

from triton_linear.report import Outcome
from triton_linear.tools.measuring.child import compiled
from triton_linear.tools.measuring.shared import SharedStages, shared_stages
from triton_linear.tools.support.modes import VARIANT
from triton_linear.variants import OURS, Part, keeps_stock, variant

CONTEST = "contest"
"""The mode of the record with the result for a launch."""
IDLE = "nothing to do"
"""The reason for no result if all variants are stock Triton's kernel."""


@dataclass(frozen=True)
class CompiledVariant:
    """The parts of the plugin's report on a compiled variant that are needed (see `report.Report`).

    digest: of its machine code.
    """

    outcome: str
    key: str
    target: str
    error: str | None
    digest: str


def code_digest(kernel: Any) -> str:
    """A digest of the machine code of a compiled kernel."""
    return hashlib.sha256(bytes(kernel.kernel)).hexdigest()[:32]


class Variants:
    """Compiles variants of one kernel into Triton's cache.

    Stages with equal inputs run once. If the plugin has nothing to do, no further variant with other code than
    stock Triton's is compiled, unless it concerns loads of loops.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._known = SharedStages()
        self._idle: CompiledVariant | None = None

    def make(self, name: str) -> CompiledVariant:
        """Compile a variant. Raises the exception of the compile."""
        if self._idle is not None and not (keeps_stock(name) or Part.LOADS in variant(name).parts):
            return self._idle
        with shared_stages(self._known):
            kernel, reports = compiled(self._kernel, f"{VARIANT}:{name}")
        report = reports[-1]
        made = CompiledVariant(
            report.outcome.value, report.key, report.target, report.error, code_digest(kernel)
        )
        if name == OURS and report.outcome is Outcome.NOTHING_TO_DO:
            self._idle = made
        return made


def import_all() -> None:
    """Import the modules that every compile needs, once for all processes that are forked from this one."""
    with contextlib.suppress(ImportError):  # each compile reports it
        for name in (
            "stage",
            "pipeline",
            "ptxas.fences",
            "ptxas.registers",
            "ptxas.veto",
            "kept.registers",
            "kept.comparisons",
        ):
            importlib.import_module(f"triton_linear.{name}")
