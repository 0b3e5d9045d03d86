"""The parts of Triton that the plugin wraps or reads: whether they are there, and are called as they were."""

from __future__ import annotations

import inspect
import os
import tempfile
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
from triton_linear.tools.doctor.fake_driver import FakeDriver
from triton_linear.tools.doctor.probe import Found

SIGNATURES = {
    "triton.runtime.jit:compute_cache_key": ("kernel_key_cache", "specialization", "options"),
    "triton.runtime.jit:JITFunction._do_compile": (
        *("self", "key", "signature", "device", "constexprs", "options", "attrs", "warmup"),
    ),
    "triton.compiler.compiler:compile": ("src", "target", "options", "_env_vars"),
    "triton.runtime._async_compile:AsyncCompileMode.submit": ("self", "key", "compile_fn", "finalize_fn"),
    "triton.runtime.cache:get_cache_manager": ("key",),
}
"""What the plugin wraps or asks, with the parameters that it counts on; more may follow."""
METHODS = {"hash": ("self",), "add_stages": ("self", "stages", "options", "language")}
"""The same of the backends' compilers."""
VALUES = (
    "triton.knobs:runtime.add_stages_inspection_hook",
    "triton.knobs:compilation.instrumentation_mode",
    "triton.runtime._async_compile:active_mode.get",
    "triton.runtime._async_compile:active_mode.set",
)
WRAPPED = (
    "triton.knobs:runtime.add_stages_inspection_hook",
    "triton.runtime.jit:compute_cache_key",
    "triton.runtime.jit:JITFunction._do_compile",
    "triton.backends:backends.nvidia.compiler.hash",
    "triton.backends:backends.amd.compiler.hash",
)
"""What the plugin replaces while it is on."""


@triton.jit  # type: ignore[untyped-decorator]
def turned(x, out, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """A kernel with one conversion."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.load(x + i * N + j).trans())


def checked() -> Found:
    """What the plugin wraps, one by one; then a kernel, compiled through `install()` for each backend."""
    found = Found()
    for name, wanted in SIGNATURES.items():
        found.compare("hook", name, partial(_takes_otherwise, name, wanted))
    for backend in ("nvidia", "amd"):
        for name, wanted in METHODS.items():
            method = f"triton.backends:backends.{backend}.compiler.{name}"
            found.compare("hook", method, partial(_takes_otherwise, method, wanted))
    for name in VALUES:
        found.compare("hook", name, partial(_is_missing, name))
    found.compare("plugin", "a launch for cuda:90", partial(_through_the_plugin, _launch))
    found.compare("plugin", "a compile for hip:gfx942", partial(_through_the_plugin, _compile))
    return found


def value_of(name: str) -> Any:
    """What a name such as `triton.runtime.jit:JITFunction.run` stands for. Raises where that is nothing."""
    module, _, path = name.partition(":")
    value: Any = import_module(module)
    for part in path.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


def _is_missing(name: str) -> None:
    """Whatever it is serves; raises where there is nothing."""
    value_of(name)


def _takes_otherwise(name: str, wanted: tuple[str, ...]) -> str | None:
    found = tuple(inspect.signature(value_of(name)).parameters)
    if found[: len(wanted)] == wanted:
        return None
    return f"it takes ({', '.join(found)}), wanted are ({', '.join(wanted)})"


def _launch() -> object:
    """Compile for a launch on an NVIDIA GPU that is not there. (One for an AMD GPU would want PyTorch.)"""
    kernel: Any = triton.jit(turned.fn)  # one that has compiled nothing yet
    before = driver._active
    driver._active = FakeDriver(gpu_target("cuda:90"))
    try:
        return kernel.warmup(MockTensor(tl.int8), MockTensor(tl.int8), N=64, grid=(1,))
    finally:
        driver._active = before


def _compile() -> object:
    """Compile for an AMD GPU, without a launch."""
    source = ASTSource(turned, {"x": "*i8", "out": "*i8", "N": "constexpr"}, constexprs={"N": 64})
    return triton.compile(source, target=gpu_target("hip:gfx942"))


def _through_the_plugin(compile_: Callable[[], object]) -> str | None:
    """In what a compile through `install()` is other than it should be: the kernel has our code, and Triton is
    afterwards what it was.
    """
    there = [value_of(name) for name in WRAPPED]
    reports: list[triton_linear.Report] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        triton_linear.install(strict=True, on_report=reports.append)
        try:
            compile_()
        finally:
            triton_linear.uninstall()
    if [report.outcome for report in reports] != [Outcome.CONVERTED]:
        return f"reports: {'; '.join(map(str, reports)) or 'none'}"
    left = [name for name, value in zip(WRAPPED, there, strict=True) if value_of(name) is not value]
    return f"changed for good: {', '.join(left)}" if left else None
