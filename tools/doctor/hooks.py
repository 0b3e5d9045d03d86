"""Check the parts of Triton that the plugin wraps or reads: they exist, and have the expected parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.runtime import MockTensor, driver

import triton_linear
from triton_linear.examples.spec import gpu_target
from triton_linear.report import Outcome
from triton_linear.tools.doctor.command import Findings
from triton_linear.tools.support.inputs import empty_cache
from triton_linear.tools.support.script import FakeDriver

_METHODS = {"hash": ("self",), "add_stages": ("self", "stages", "options", "language")}
"""Methods of the backends' compilers, with the parameters that the plugin relies on."""
EXPECTED: dict[str, tuple[str, ...] | None] = {
    "triton.runtime.jit:compute_cache_key": ("kernel_key_cache", "specialization", "options"),
    "triton.runtime.jit:JITFunction._do_compile": (
        *("self", "key", "signature", "device", "constexprs", "options", "attrs", "warmup"),
    ),
    "triton.compiler.compiler:compile": ("src", "target", "options", "_env_vars"),
    "triton.runtime._async_compile:AsyncCompileMode.submit": ("self", "key", "compile_fn", "finalize_fn"),
    "triton.runtime.cache:get_cache_manager": ("key",),
    **{f"triton.backends:backends.nvidia.compiler.{name}": given for name, given in _METHODS.items()},
    **{f"triton.backends:backends.amd.compiler.{name}": given for name, given in _METHODS.items()},
    "triton.knobs:runtime.add_stages_inspection_hook": None,
    "triton.knobs:compilation.instrumentation_mode": None,
    "triton.runtime._async_compile:active_mode.get": None,
    "triton.runtime._async_compile:active_mode.set": None,
}
"""What the plugin wraps, calls or reads, with the parameters that it relies on, after which more may follow.
None: it has to be there."""
WRAPPED = (
    "triton.knobs:runtime.add_stages_inspection_hook",
    "triton.runtime.jit:compute_cache_key",
    "triton.runtime.jit:JITFunction._do_compile",
    "triton.backends:backends.nvidia.compiler.hash",
    "triton.backends:backends.amd.compiler.hash",
)
"""The attributes that the plugin replaces while it is on."""


@triton.jit  # type: ignore[untyped-decorator]
def transposed(x, out, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """A kernel with one conversion."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.load(x + i * N + j).trans())


def checked() -> Findings:
    """Check each part that the plugin wraps or reads; then compile through `install()` for each backend."""
    findings = Findings()
    for name, wanted in EXPECTED.items():
        findings.compare("hook", name, partial(_parameter_difference, name, wanted))
    findings.compare("plugin", "a launch for cuda:90", partial(_plugin_difference, _launch))
    findings.compare("plugin", "a compile for hip:gfx942", partial(_plugin_difference, _compile))
    return findings


def value_of(name: str) -> Any:
    """The value of a name such as `triton.runtime.jit:JITFunction.run`. Raises if there is none."""
    module, _, path = name.partition(":")
    value: Any = import_module(module)
    for part in path.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


def _parameter_difference(name: str, wanted: tuple[str, ...] | None) -> str | None:
    """How the parameters of a function differ; raises an exception if there is nothing of this name."""
    value = value_of(name)
    if wanted is None:
        return None
    parameters = tuple(inspect.signature(value).parameters)
    if parameters[: len(wanted)] == wanted:
        return None
    return f"it takes ({', '.join(parameters)}), wanted are ({', '.join(wanted)})"


def _launch() -> object:
    """Compile for a launch on an NVIDIA GPU, which need not be installed. (An AMD GPU would need PyTorch.)"""
    kernel: Any = triton.jit(transposed.fn)  # a new function has compiled nothing yet
    before = driver._active
    driver._active = FakeDriver(gpu_target("cuda:90"))
    try:
        return kernel.warmup(MockTensor(tl.int8), MockTensor(tl.int8), N=64, grid=(1,))
    finally:
        driver._active = before


def _compile() -> object:
    """Compile for an AMD GPU, without a launch."""
    source = ASTSource(transposed, {"x": "*i8", "out": "*i8", "N": "constexpr"}, constexprs={"N": 64})
    return triton.compile(source, target=gpu_target("hip:gfx942"))


def _plugin_difference(compile_: Callable[[], object]) -> str | None:
    """Check that a compile through `install()` converts the kernel, and that `uninstall` restores Triton.

    Returns what is wrong, None if nothing is.
    """
    original = [value_of(name) for name in WRAPPED]
    reports: list[triton_linear.Report] = []
    with empty_cache():
        triton_linear.install(strict=True, on_report=reports.append)
        try:
            compile_()
        finally:
            triton_linear.uninstall()
    if [report.outcome for report in reports] != [Outcome.CONVERTED]:
        return f"reports: {'; '.join(map(str, reports)) or 'none'}"
    changed = [name for name, value in zip(WRAPPED, original, strict=True) if value_of(name) is not value]
    return f"changed for good: {', '.join(changed)}" if changed else None
