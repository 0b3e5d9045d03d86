"""Counts of every case without a GPU: what Triton here makes of it, by itself and with the plugin."""

from __future__ import annotations

from typing import Any

import triton

from triton_linear.examples.spec import gpu_target
from triton_linear.ptxas.cubin import usage

from ..kernels.kernel import Kernel
from .case import Reported
from .counts import of_kernel


def compiled(kernel: Kernel, target: str) -> Any:
    """A kernel, compiled as Triton is set to."""
    return triton.compile(kernel.source(), target=gpu_target(target), options=dict(kernel.options))


def stock(case: Reported, target: str | None = None) -> dict[str, int | None]:
    """Counts of stock Triton's kernel. Needs nothing but Triton."""
    kernel = compiled(case.kernel, target or case.target)
    return of_kernel(kernel, usage(kernel.asm["cubin"]))


def ours(case: Reported, target: str | None = None) -> dict[str, Any]:
    """Counts of the plugin's kernel, and what it `became`. Raises where the plugin fails."""
    from ..kernels import modes
    from ..kernels.measure import conversions

    with modes.context(modes.OURS, strict=True) as reports:
        found: dict[str, Any] = stock(case, target)
    return found | {"became": conversions(reports, {report.kernel for report in reports})}
