"""Kernels of one reduction, with the pass and without, run in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.whole_kernels import LoweredKernel, lower_kernel, registers_of, sink
from triton_linear.dialect import bridge
from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import target
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions import ways
from triton_linear.passes.reductions.split_reductions import SplitReductions

H200 = target("cuda:90")
ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [1, 0]}>"
INSIDE = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
LINE = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
Array = np.ndarray[Any, Any]
GAPS = (
    "#ttg.linear<{register = [[0, 1]], lane = [[0, 2], [1, 0], [0, 4], [2, 0], [0, 8]], "
    "warp = [[4, 0], [8, 0]], block = []}>"
)


def asked(layout: LinearLayout, axis: int, *names: str) -> ways.Asked:
    own = ways.without_copies(transfer.reduce(layout, axis))
    return ways.Asked(tuple(map(element_type, names)), ((own,),) * len(names), own, 1.0)


REGIONS = {
    "sum": ("i32",),
    "max": ("i32",),
    "xor": ("i16",),
    "argmax": ("f32", "i32"),
    "fsum": ("f32",),
    "welford": ("f32", "f32", "f32"),
    "mixed": ("i32", "i64", "i16"),
    "four": ("i32",) * 4,
}
BODIES = {
    "sum": "%c = arith.addi %a0, %b0 : i32",
    "max": "%c = arith.maxsi %a0, %b0 : i32",
    "xor": "%c = arith.xori %a0, %b0 : i16",
    "argmax": """%g = arith.cmpf ogt, %a0, %b0 : f32
      %e = arith.cmpf oeq, %a0, %b0 : f32
      %l = arith.cmpi slt, %a1, %b1 : i32
      %t = arith.andi %e, %l : i1
      %f = arith.ori %g, %t : i1
      %c = arith.select %f, %a0, %b0 : f32
      %d = arith.select %f, %a1, %b1 : i32""",
    "fsum": "%c = arith.addf %a0, %b0 : f32",
    "welford": """%h = arith.constant 0.5 : f32
      %m = arith.subf %b0, %a0 : f32
      %w = arith.addf %a2, %b2 : f32
      %s = arith.mulf %m, %h : f32
      %c = arith.addf %a0, %s : f32
      %t = arith.mulf %m, %m : f32
      %u = arith.mulf %t, %a2 : f32
      %x = arith.addf %a1, %b1 : f32
      %d = arith.addf %x, %u : f32""",
    "mixed": """%c = arith.addi %a0, %b0 : i32
      %d = arith.maxui %a1, %b1 : i64
      %w = arith.xori %a2, %b2 : i16""",
    "four": """%c = arith.addi %a0, %b0 : i32
      %d = arith.maxui %a1, %b1 : i32
      %w = arith.xori %a2, %b2 : i32
      %s = arith.minui %a3, %b3 : i32""",
}
RETURNED = {"argmax": "%c, %d", "welford": "%c, %d, %w", "mixed": "%c, %d, %w", "four": "%c, %d, %w, %s"}


def module(
    operation: str,
    encoding: str,
    shape: Sequence[int],
    axis: int,
    after: str = "",
    gpu: str = "cuda:90",
    before: str = "",
) -> str:
    """A kernel that reduces its arguments and hands the results to sinks; converted, if told so, `before` and
    `after` that from this layout and to it."""
    elements = REGIONS[operation]
    size = "x".join(map(str, shape))
    left = "x".join(str(n) for place, n in enumerate(shape) if place != axis)
    sliced = f"#ttg.slice<{{dim = {axis}, parent = {encoding}}}>"
    taken = [f"tensor<{size}x{element}, {encoding}>" for element in elements]
    given_ = [f"tensor<{left}x{element}, {sliced}>" for element in elements]
    given = [type_.replace(encoding, before) for type_ in taken] if before else taken
    moved = [
        f"%y{i} = ttg.convert_layout %x{i} : {given[i]} -> {taken[i]}"
        for i in range(len(elements) * bool(before))
    ]
    inputs = ", ".join(f"%{'y' if before else 'x'}{i}" for i in range(len(elements)))
    results = [f"%r#{i}" for i in range(len(elements))] if len(elements) > 1 else ["%r"]
    block = ", ".join(f"%{side}{i}: {e}" for side in "ab" for i, e in enumerate(elements))
    lines = []
    for number, element in enumerate(elements):
        value, type_ = results[number], given_[number]
        if after:
            wanted = f"tensor<{left}x{element}, {after}>"
            lines.append(f"%o{number} = ttg.convert_layout {value} : {type_} -> {wanted}")
            value, type_ = f"%o{number}", wanted
        if element in ("i16", "i64"):
            cast, word = "extui" if element == "i16" else "trunci", type_.replace(f"x{element}", "xi32")
            lines.append(f"%e{number} = arith.{cast} {value} : {type_} to {word}")
            value, type_ = f"%e{number}", word
        lines.append(sink(value, type_, f"result{number}"))
    first, joined = ("\n    ".join(each) for each in (moved, lines))
    arguments = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(given))
    returned = RETURNED.get(operation, "%c")
    return f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{gpu}",
    "ttg.threads-per-warp" = {target(gpu).lanes} : i32}} {{
  tt.func public @kernel({arguments}) {{
    {first}
    %r{f":{len(elements)}" if len(elements) > 1 else ""} = "tt.reduce"({inputs}) <{{axis = {axis} : i32}}> ({{
    ^bb0({block}):
      {BODIES[operation]}
      tt.reduce.return {returned} : {", ".join(elements)}
    }}) : ({", ".join(taken)}) -> ({", ".join(given_)})
    {joined}
    tt.return
  }}
}}
"""


def parsed(text: str) -> Module:
    return bridge.text_to_upstream(text, bridge.upstream_context(), "reductions.ttgir")


def named(root: Module, *names: str) -> list[Operation]:
    return [op for op in operations(root.operation) if op.name in names]


def taken_apart(text: str, gpu: str = "cuda:90") -> tuple[Module, tuple[Any, ...]]:
    """The module after the pass, and what the pass said."""
    root = parsed(text)
    outcome = run_passes(root, [SplitReductions(gpu)], verify=True)
    assert outcome.succeeded, outcome.diagnostics
    return root, outcome.diagnostics


def inputs(operation: str, shape: Sequence[int], axis: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    if operation == "argmax":
        values = rng.integers(-9, 9, shape).astype(np.float32)
        return [values, np.indices(shape)[axis].astype(np.int32)]
    if operation in ("fsum", "welford"):
        return [rng.standard_normal(shape).astype(np.float32) for _ in REGIONS[operation]]
    return [rng.integers(0, 1 << 15, shape).astype(f"u{int(e[1:]) // 8}") for e in REGIONS[operation]]


def expected(operation: str, arrays: list[Array], axis: int) -> list[Array] | None:
    """What integers must give; None where only Triton's own result tells."""
    if operation == "argmax":
        return [arrays[0].max(axis), arrays[0].argmax(axis).astype(np.int32)]
    if operation in ("fsum", "welford"):
        return None
    if operation == "mixed":
        return [
            arrays[0].sum(axis, dtype=np.uint32),
            arrays[1].max(axis).astype(np.uint32),
            np.bitwise_xor.reduce(arrays[2], axis).astype(np.uint32),
        ]
    if operation == "four":
        folds = (np.add, np.maximum, np.bitwise_xor, np.minimum)
        return [fold.reduce(a, axis).astype(np.uint32) for fold, a in zip(folds, arrays, strict=True)]
    folded = {"sum": np.add, "max": np.maximum, "xor": np.bitwise_xor}[operation]
    return [folded.reduce(arrays[0], axis).astype(np.uint32)]


def patterns(array: Array) -> Array:
    """The bits of each element, as the interpreter has them; one trial."""
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    return np.ascontiguousarray(array).view(unsigned).astype(np.uint64)[None]


def sinks_of(kernel: LoweredKernel, operation: str, encoding: str, arrays: list[Array]) -> list[Array]:
    layout = layout_of(encoding, arrays[0].shape)
    outcome = kernel.run([registers_of(patterns(array), layout, kernel) for array in arrays])
    assert not outcome.races
    found = [outcome.sinks[f"result{number}"] for number in range(len(REGIONS[operation]))]
    assert not any(undefined.any() for _, undefined in found)
    return [values for values, _ in found]


def compare(
    operation: str,
    encoding: str,
    shape: Sequence[int],
    axis: int,
    after: str = "",
    gpu: str = "cuda:90",
    stock_is_right: bool = True,
) -> LoweredKernel:
    """Lower with and without the pass, run both, and compare bit by bit, floats too."""
    text = module(operation, encoding, shape, axis, after, gpu)
    arrays = inputs(operation, shape, axis, seed=len(text))
    ours = lower_kernel(text, "ours.ttgir", gpu, PipelineOptions(assign=False))
    got = sinks_of(ours, operation, encoding, arrays)
    if stock_is_right:
        stock = lower_kernel(text, "stock.ttgir", gpu, None)
        for one, two in zip(got, sinks_of(stock, operation, encoding, arrays), strict=True):
            assert np.array_equal(one, two)
    wanted = expected(operation, arrays, axis)
    if wanted is not None:
        left = tuple(size for place, size in enumerate(shape) if place != axis)
        result = layout_of(after or f"#ttg.slice<{{dim = {axis}, parent = {encoding}}}>", left)
        for one, array in zip(got, wanted, strict=True):
            assert np.array_equal(one, registers_of(patterns(array), result, ours))
    return ours


KINDS = {
    "blocked": ROWS,
    "blocked by columns": ROWS.replace("[1, 4]", "[4, 1]", 1).replace("order = [1, 0]", "order = [0, 1]"),
    "mma": "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>",
    "wgmma": (
        "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 16, 16]}>"
    ),
}
KINDS["mma input"] = f"#ttg.dot_op<{{opIdx = 1, parent = {KINDS['mma']}, kWidth = 1}}>"
KINDS["slice"] = (
    "#ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 1, 4], threadsPerWarp = [2, 4, 4], "
    "warpsPerCTA = [1, 2, 2], order = [2, 1, 0]}>}>"
)
KINDS["slice of mma"] = (
    "#ttg.slice<{dim = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, "
    "warpsPerCTA = [1, 2, 2], instrShape = [1, 16, 8]}>}>"
)
SHAPES = ((128, 16), (32, 128), (32, 32), (16, 16))
