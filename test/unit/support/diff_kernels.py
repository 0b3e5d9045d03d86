"""Pairs of small kernels of which one is made worse in one way, for two GPUs."""

from __future__ import annotations

TARGETS = ("cuda:90", "hip:gfx942")
_WIDE = "sizePerThread = [8], threadsPerWarp = [{lanes}], warpsPerCTA = [4], order = [0]"
_NARROW = "sizePerThread = [1], threadsPerWarp = [{lanes}], warpsPerCTA = [4], order = [0]"
SIZE = 4096
TENSORS = 4


def _module(target: str, encoding: str, body: str) -> str:
    lanes = 32 if target.startswith("cuda") else 64
    return (
        f"#wide = #ttg.blocked<{{{_WIDE.format(lanes=lanes)}}}>\n"
        f"#used = #ttg.blocked<{{{encoding.format(lanes=lanes)}}}>\n"
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{target}", '
        f'"ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        "  tt.func public @copy(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, "
        "%y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {\n"
        f"{body}\n    tt.return\n  }}\n}}\n"
    )


def _address(name: str, of: str, offset: str, layout: str) -> str:
    pointers = f"tensor<{SIZE}x!tt.ptr<f32>, {layout}>"
    return (
        f"    %{name}_base = tt.splat %{of} : !tt.ptr<f32> -> {pointers}\n"
        f"    %{name} = tt.addptr %{name}_base, %{offset} : {pointers}, tensor<{SIZE}xi32, {layout}>\n"
    )


def _range(name: str, layout: str) -> str:
    made = f"tt.make_range {{end = {SIZE} : i32, start = 0 : i32}}"
    return f"    %{name} = {made} : tensor<{SIZE}xi32, {layout}>\n"


def copy(target: str, wide: bool) -> str:
    """A copy whose load moves 128 bits at once, or 32."""
    body = _range("i", "#used") + _address("from", "x", "i", "#used") + _address("to", "y", "i", "#used")
    body += f"    %v = tt.load %from : tensor<{SIZE}x!tt.ptr<f32>, #used>\n"
    body += f"    tt.store %to, %v : tensor<{SIZE}x!tt.ptr<f32>, #used>"
    return _module(target, _WIDE if wide else _NARROW, body)


def converted(target: str, conversion: bool) -> str:
    """The wide copy; stored as it was loaded, or in another layout after a conversion across warps."""
    to = "#used" if conversion else "#wide"
    body = (
        _range("i", "#wide")
        + _range("j", to)
        + _address("from", "x", "i", "#wide")
        + _address("to", "y", "j", to)
    )
    body += f"    %v = tt.load %from : tensor<{SIZE}x!tt.ptr<f32>, #wide>\n"
    if conversion:
        body += f"    %w = ttg.convert_layout %v : tensor<{SIZE}xf32, #wide> -> tensor<{SIZE}xf32, #used>\n"
    body += f"    tt.store %to, %{'w' if conversion else 'v'} : tensor<{SIZE}x!tt.ptr<f32>, {to}>"
    return _module(target, _NARROW, body)


def copies(target: str, at_once: bool) -> str:
    """Several tensors that are copied one after another, or are all loaded before any is stored."""
    body, loads, stores = _range("i", "#wide"), [], []
    for number in range(TENSORS):
        offset = f"o{number}"
        body += f"    %c{number} = arith.constant dense<{number * SIZE}> : tensor<{SIZE}xi32, #wide>\n"
        body += f"    %{offset} = arith.addi %i, %c{number} : tensor<{SIZE}xi32, #wide>\n"
        body += _address(f"from{number}", "x", offset, "#wide") + _address(f"to{number}", "y", offset, "#wide")
        loads.append(f"    %v{number} = tt.load %from{number} : tensor<{SIZE}x!tt.ptr<f32>, #wide>")
        stores.append(f"    tt.store %to{number}, %v{number} : tensor<{SIZE}x!tt.ptr<f32>, #wide>")
    turns = zip(loads, stores, strict=True)
    ordered = [*loads, *stores] if at_once else [line for turn in turns for line in turn]
    return _module(target, _WIDE, body + "\n".join(ordered))


SCRIPT = """\
import triton
import triton.language as tl
from triton_linear.examples.spec import KernelSpec


@triton.jit
def turn(source, destination, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())


def compile_specs(target):
    types = {"source": "*fp32", "destination": "*fp32"}
    return (KernelSpec("turn", turn, types, {"N": 64}, ("source", "destination")),)
"""
