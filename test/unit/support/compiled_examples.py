"""Example kernels, compiled for a target by stock Triton and with the plugin."""

from __future__ import annotations

from typing import Any

import triton

import triton_linear
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.report import Report


def compiled_by_triton(spec: KernelSpec, target: str) -> Any:
    return triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options))


def compiled_with_plugin(spec: KernelSpec, target: str) -> tuple[Any, Report]:
    """The kernel and the plugin's report of it."""
    with triton_linear.enabled(strict=True) as reports:
        compiled = compiled_by_triton(spec, target)
    (report,) = reports
    return compiled, report
