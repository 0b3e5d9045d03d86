"""Without a GPU: every kernel written by hand compiles for a target, with stock Triton and with the plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import triton

from triton_linear.examples.spec import gpu_target

from ..harness.cases import chosen, say
from ..harness.child import empty_cache
from . import modes
from .cases import cases
from .measure import conversions, kernel_facts


def compile_case(case: Any, target: Any, mode: str) -> tuple[list[Any], dict[str, int], list[str]]:
    """A case's kernels in one mode, what became of their conversions, and what failed."""
    kernels, failed = [], []
    with modes.context(mode) as reports:
        for name, (source, options) in case.sources(target).items():
            try:
                kernels.append(triton.compile(source, target=target, options=dict(options)))
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
    failed += [f"{report.kernel}: {report.error}" for report in reports if report.error]
    return kernels, conversions(reports, {kernel.name for kernel in kernels}), failed


def compile_all(name: str, only: str, dump: Path | None) -> int:
    """Print a line a case; 1 if a kernel does not compile in a mode, or falls back."""
    target, wrong = gpu_target(name), 0
    with empty_cache():
        for case in chosen("kernels", cases(), only):
            if case.sources is None:
                print(f"{case.name:32} {case.kind}: needs a GPU")
                continue
            parts = []
            for mode in (modes.STOCK, modes.OURS):
                kernels, became, failed = compile_case(case, target, mode)
                count = sum(kernel_facts(kernel)["conversions"] for kernel in kernels)
                parts.append(f"{mode} {count} conversions" if mode == modes.STOCK else f"{mode} {became}")
                parts += failed
                wrong += bool(failed)
                if dump is not None:
                    dump.mkdir(parents=True, exist_ok=True)
                    for kernel in kernels:
                        (dump / f"{case.name}-{kernel.name}-{mode}.ttgir").write_text(kernel.asm["ttgir"])
            print(f"{case.name:32} {case.kind}: {'; '.join(parts)}", flush=True)
    if wrong:
        say(f"{wrong} failures")
    return int(bool(wrong))
