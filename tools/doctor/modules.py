"""Check the modules of the examples: moved to upstream MLIR and back, and compiled as the plugin does and
run."""

from __future__ import annotations

from triton_linear.dialect import bridge
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.tools.doctor.probe import Findings
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.support.frontend import ttgir_of
from triton_linear.tools.verify.command import check


def bridged(target: str, part: int, parts: int) -> Findings:
    """Check that modules return unchanged from upstream MLIR, for kernels with index `part` modulo `parts`."""
    findings = Findings()
    for spec in specs(gpu_target(target))[part::parts]:

        def difference(spec: KernelSpec = spec) -> str | None:
            module = ttgir_of(spec.source(), gpu_target(target), spec.options)
            before = str(module)
            upstream = bridge.to_upstream(module, bridge.upstream_context())
            return first_difference(before, str(bridge.to_triton(upstream, bridge.triton_context())))

        findings.compare(f"module for {target}", spec.name, difference)
    return findings


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


def compiled(target: str, part: int, parts: int) -> Findings:
    """Compile kernels with `part` modulo `parts` as the plugin does; verify the emitted code in the
    interpreter.
    """
    findings = Findings()
    last = "ptx" if target.startswith("cuda") else "amdgcn"
    for spec in specs(gpu_target(target))[part::parts]:

        def difference(spec: KernelSpec = spec) -> str | None:
            text = str(ttgir_of(spec.source(), gpu_target(target), spec.options))
            checked = check(compile_text(text, f"{spec.name}.ttgir", target, last))
            return next((str(one) for one in checked if not one.ok), None)

        findings.compare(f"kernel for {target}", spec.name, difference)
    return findings
