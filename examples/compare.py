"""Run an example on the GPU with and without the plugin; compare the bits, the errors and the times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import triton

import triton_linear
from triton_linear.report import Report

MODES = ("stock", "plugin")


@dataclass(frozen=True)
class Comparison:
    """The results of both modes on the same input; errors are relative to the largest reference value."""

    identical: bool
    right: Mapping[str, bool]
    errors: Mapping[str, float]
    milliseconds: Mapping[str, float]
    reports: tuple[Report, ...]

    @property
    def speedup(self) -> float:
        """Stock time over the time with the plugin."""
        return self.milliseconds["stock"] / self.milliseconds["plugin"]


def modes(**options: Any) -> Iterator[tuple[str, Callable[[], AbstractContextManager[list[Report]]]]]:
    """Stock Triton, then the plugin with these options: names, and context managers that give a list of
    reports.
    """
    yield "stock", lambda: nullcontext([])
    yield "plugin", lambda: triton_linear.enabled(**options)


def same_bits(left: Any, right: Any) -> bool:
    """Whether two tensors hold the same bytes."""
    import torch

    return bool(torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8)))


def gpu_name() -> str | None:
    """The GPU that kernels would run on, or None without PyTorch or without a GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def compare(example: Any, rounds: int = 3) -> Comparison:
    """Run `example` in both modes and time them alternately, `rounds` times each; the shorter time counts."""
    problem = example.problem("cuda", triton.runtime.driver.active.get_current_target())
    expected = problem.reference()
    outputs: dict[str, Mapping[str, Any]] = {}
    gathered: list[Report] = []
    for mode, context in modes():
        with context() as reports:
            outputs[mode] = {key: value.clone() for key, value in problem.launch().items()}
            gathered += reports
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode, context in modes():
            with context():
                # A CUDA graph excludes the time of launches on the CPU.
                times[mode].append(triton.testing.do_bench_cudagraph(problem.launch, return_mode="median"))
    errors = {
        mode: max(_error(output[key], expected[key]) for key in expected) for mode, output in outputs.items()
    }
    return Comparison(
        identical=all(same_bits(outputs["stock"][key], outputs["plugin"][key]) for key in expected),
        right={mode: error < problem.tolerance for mode, error in errors.items()},
        errors=errors,
        milliseconds={mode: min(values) for mode, values in times.items()},
        reports=tuple(gathered),
    )


def _error(got: Any, expected: Any) -> float:
    difference = (got.float() - expected.float()).abs().max() / expected.float().abs().max()
    return float(difference.item())
