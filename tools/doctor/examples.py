"""Check the examples: moved to upstream MLIR and back, and compiled as the plugin does and run."""

from __future__ import annotations

from functools import partial
from typing import Any

from triton_linear.dialect import bridge
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.tools.doctor.probe import Findings
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.support.frontend import ttgir_of
from triton_linear.tools.verify.command import check


def compiled(target: str, part: int, parts: int) -> Findings:
    """Check the kernels with index `part` modulo `parts`: their modules come back unchanged from upstream MLIR,
    and the code that is emitted into them is right in the interpreter.
    """
    findings = Findings()
    for spec in specs(gpu_target(target))[part::parts]:
        findings.compare(f"module for {target}", spec.name, partial(_bridge_difference, spec, target))
        findings.compare(f"kernel for {target}", spec.name, partial(_code_difference, spec, target))
    return findings


def _module(spec: KernelSpec, target: str) -> Any:
    return ttgir_of(spec.source(), gpu_target(target), spec.options)


def _bridge_difference(spec: KernelSpec, target: str) -> str | None:
    module = _module(spec, target)
    before = str(module)
    upstream = bridge.to_upstream(module, bridge.upstream_context())
    return first_difference(before, str(bridge.to_triton(upstream, bridge.triton_context())))


def _code_difference(spec: KernelSpec, target: str) -> str | None:
    last = "ptx" if target.startswith("cuda") else "amdgcn"
    checked = check(compile_text(str(_module(spec, target)), f"{spec.name}.ttgir", target, last))
    return next((str(one) for one in checked if not one.ok), None)


def first_difference(before: str, after: str) -> str | None:
    """The first line that differs; None if the texts are equal.

    >>> first_difference("a\\nb", "a\\nc")
    "line 2 is 'c', it was 'b'"
    """
    if before == after:
        return None
    lines, others = before.splitlines(), after.splitlines()
    for number, (line, other) in enumerate(zip(lines, others, strict=False), 1):
        if line != other:
            return f"line {number} is '{other.strip()}', it was '{line.strip()}'"
    return f"{len(others)} lines come back of {len(lines)}"
