"""Compile variants of a kernel into Triton's cache."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from dataclasses import dataclass
from typing import Any

from triton_linear.tools.measuring.child import compiled
from triton_linear.tools.support.modes import VARIANT

CONTEST = "contest"
"""The mode of the record with the result for a launch."""
IDLE = "nothing to do"
"""The reason for no result if all variants are stock Triton's kernel."""


@dataclass(frozen=True)
class CompiledVariant:
    """The parts of the plugin's report on a compiled variant that are needed (see `report.Report`).

    digest: of its machine code.
    """

    key: str
    target: str
    error: str | None
    digest: str


def code_digest(kernel: Any) -> str:
    """A digest of the machine code of a compiled kernel."""
    return hashlib.sha256(bytes(kernel.kernel)).hexdigest()[:32]


def compiled_variant(kernel: Any, name: str) -> CompiledVariant:
    """Compile a variant of a kernel. Raises the exception of the compile."""
    made, reports = compiled(kernel, f"{VARIANT}:{name}")
    report = reports[-1]
    return CompiledVariant(report.key, report.target, report.error, code_digest(made))


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
