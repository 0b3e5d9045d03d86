"""Shared memory that is laid out anew: the same elements, in the fewest wavefronts, and what stays."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from reductions_support import parsed

from bench.whole_kernels import lower_kernel, sink
from triton_linear.dialect import bridge, encodings, ll
from triton_linear.dialect.mlir_adapter import Module
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import target
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.staging.arrange import ArrangeMemory
from triton_linear.tools.support.compile import to_triton

ONLY_MEMORY = PipelineOptions(reductions=False, layouts=False)
TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950", "hip:gfx1200")
BATCH_BETWEEN = "order = [2, 0, 1]"
MMA = (
    "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, "
    "warpsPerCTA = [4, 1, 1], instrShape = [1, 16, 8]}>, kWidth = $}>"
)
MFMA = (
    "#ttg.dot_op<{opIdx = 0, parent = #ttg.amd_mfma<{version = 3, warpsPerCTA = [4, 1, 1], "
    "instrShape = [16, 16, 16], isTransposed = true}>, kWidth = $}>"
)


def rows(lanes: int, vector: int = 8) -> str:
    """A layout of four warps, with vectors of a row in a thread, and four lanes to a row."""
    return (
        f"#ttg.blocked<{{sizePerThread = [1, 1, {vector}], threadsPerWarp = [1, {lanes // 4}, 4], "
        "warpsPerCTA = [2, 2, 1], order = [2, 1, 0]}>"
    )


def shared(order: str, vec: int = 8, per_phase: int = 2, max_phase: int = 4) -> str:
    return f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, {order}}}>"


def module(body: str, gpu: str, arguments: str = "") -> str:
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{gpu}", '
        f'"ttg.threads-per-warp" = {target(gpu).lanes} : i32}} {{\n'
        f"tt.func public @kernel({arguments}) {{\n{body}\ntt.return\n}}\n}}\n"
    )


def arranged(text: str) -> Module:
    """The module behind the pass, which Triton takes."""
    root = parsed(text)
    assert run_passes(root, [ArrangeMemory()], verify=True).succeeded
    to_triton(bridge.triton_text(root))
    return root


def orders(root: Module) -> set[str]:
    return set(re.findall(r"order = \[[\d, ]*\]}>, #ttg.shared_memory", str(root)))


def through_memory(gpu: str, element: str, shape: tuple[int, ...], width: int) -> tuple[str, str, str]:
    """A kernel that stores a tensor to shared memory and loads it as the operand of a batched dot, and both
    layouts."""
    lanes, size = target(gpu).lanes, element_type(element).memory_bytes
    stored = rows(lanes, min(16 // size, shape[2] // 4))
    loaded = (MFMA if gpu.startswith("hip") else MMA).replace("$", str(width))
    if gpu == "hip:gfx1200":
        loaded = rows(lanes, 1).replace("[4, 2, 4]", "[1, 32, 1]").replace("[1, 4, 1]", "[4, 1, 1]")
    tensor = "x".join(map(str, shape)) + f"x{element}, "
    memory = f"!ttg.memdesc<{tensor}{shared(BATCH_BETWEEN)}, #ttg.shared_memory>"
    sides = f"tensor<{tensor}{stored}>", f"tensor<{tensor}{loaded}>"
    body = (
        f"%m = ttg.local_alloc %x : ({sides[0]}) -> {memory}\n"
        f"%y = ttg.local_load %m : {memory} -> {sides[1]}\n{sink('%y', sides[1], 'result')}"
    )
    return module(body, gpu, f"%x: {sides[0]}"), stored, loaded


@pytest.mark.parametrize("gpu", TARGETS)
@pytest.mark.parametrize(
    ("element", "shape", "width"),
    [("f16", (4, 16, 32), 2), ("bf16", (2, 64, 16), 4), ("f8E5M2", (4, 32, 64), 4), ("f32", (8, 16, 16), 1)],
)
def test_operands_of_batched_dots_take_fewer_wavefronts(
    gpu: str, element: str, shape: tuple[int, ...], width: int
) -> None:
    text, stored, loaded = through_memory(gpu, element, shape, width)
    bits, counts = element_type(element).bits, []
    for options in (None, ONLY_MEMORY):
        kernel = lower_kernel(text, "batched.ttgir", gpu, options)
        held, expected = (
            held_elements(encodings.held_layout_of(side, shape, bits), target(gpu).lanes, 4, 0)
            for side in (stored, loaded)
        )
        elements = element_patterns(prod(shape), bits)
        outcome = kernel.run([list(elements[:, held].swapaxes(0, 1))], trials=len(elements))
        values, undefined = outcome.sinks["result"]
        limit = np.uint64(2**bits - 1)
        assert not (undefined & limit).any()
        assert ((values & limit) == elements[:, expected].swapaxes(0, 1)).all()
        assert not outcome.races
        counts.append(outcome.counts)
    assert counts[1].wavefronts <= counts[0].wavefronts
    if not gpu.startswith(("hip:gfx1200", "hip:gfx950")):
        assert counts[1].wavefronts == counts[1].minimum_wavefronts
        assert gpu.startswith("hip") or not counts[1].shuffles


LOADED = f"tensor<4x16x32xf16, {MMA.replace('$', '2')}>"
HALF = LOADED.replace("x32x", "x16x")
PLACE = f"!ttg.memdesc<4x16x32xf16, {shared(BATCH_BETWEEN)}, #ttg.shared_memory, mutable>"
RING = PLACE.replace("<4x", "<2x4x")
PART = PLACE.replace("4x16x32x", "4x16x16x").replace("mutable", "mutable, 4x16x32")
TURNED = PLACE.replace("4x16x32x", "4x32x16x").replace(BATCH_BETWEEN, "order = [1, 0, 2]")
STORED = f"tensor<4x16x32xf16, {rows(32)}>"
POINTERS = f"tensor<4x16x32x!tt.ptr<f16>, {rows(32)}>"
CARRIED = f"""\
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%ring = ttg.local_alloc : () -> {RING}
%first = ttg.memdesc_index %ring[%zero] : {RING} -> {PLACE}
$FILL
%last = scf.for %i = %zero to %one step %one iter_args(%at = %first) -> ({PLACE}) : i32 {{
  %part = ttg.memdesc_subslice %at[0, 0, 16] : {PLACE} -> {PART}
  %y = ttg.local_load %part : {PART} -> {HALF}
  {sink("%y", HALF, "part")}
  %next = ttg.memdesc_index %ring[%i] : {RING} -> {PLACE}
  scf.yield %next : {PLACE}
}}
%turned = ttg.memdesc_trans %last {{order = array<i32: 0, 2, 1>}} : {PLACE} -> {TURNED}
$USE
ttg.local_dealloc %ring : {RING}"""
STORE = f"ttg.local_store %x, %first : {STORED} -> {PLACE}"
COPY = f"%token = ttg.async_copy_global_to_local %p, %first : {POINTERS} -> {PLACE}"
LOADED_TURNED = f"tensor<4x32x16xf16, {MMA.replace('opIdx = 0', 'opIdx = 1').replace('$', '2')}>"
USE = f"%z = ttg.local_load %turned : {TURNED} -> {LOADED_TURNED}\n{sink('%z', LOADED_TURNED, 'turned')}"


@pytest.mark.parametrize("fill", [STORE, COPY])
def test_views_and_what_loops_carry_follow(fill: str) -> None:
    text = module(
        CARRIED.replace("$FILL", fill).replace("$USE", USE), "cuda:80", f"%x: {STORED}, %p: {POINTERS}"
    )
    root = arranged(text)
    assert ll.ARRANGED in root.operation.attributes
    assert {found.split("}")[0] for found in orders(root)} == {"order = [2, 1, 0]", "order = [1, 2, 0]"}


@pytest.mark.parametrize(
    "use",
    [
        f"%v = ttg.memdesc_reinterpret %last : {PLACE} -> {PLACE}",
        f"tt.call @other(%last) : ({PLACE}) -> ()",
        f"cf.br ^end(%last : {PLACE})\n^end(%v: {PLACE}):",
    ],
)
def test_memory_that_something_else_reaches_stays(use: str) -> None:
    """Views that say what lies where, functions, and blocks that are jumped to."""
    text = module(CARRIED.replace("$FILL", STORE).replace("$USE", use), "cuda:80", f"%x: {STORED}")
    text = text.replace("tt.func public", f"tt.func private @other(%m: {PLACE})\ntt.func public")
    root = parsed(text)
    before = str(root)
    assert run_passes(root, [ArrangeMemory()]).succeeded
    assert str(root) == before


@pytest.mark.parametrize(("kept", "phases"), [(8, {4}), (4, {1, 2})])
def test_views_cut_no_swizzle(kept: int, phases: set[int]) -> None:
    """Rows of 64 bytes, of which eight repeat their swizzle: Triton refuses views of half of them."""
    taken = f"tensor<4x{kept}x32xf16, {rows(32).replace('[2, 2, 1]', '[4, 1, 1]')}>"
    text = CARRIED.replace("$FILL", COPY).replace("$USE", "").replace("[0, 0, 16]", f"[0, {kept}, 0]")
    text = text.replace(PART, PART.replace("4x16x16x", f"4x{kept}x32x")).replace(HALF, taken)
    root = arranged(module(text, "cuda:80", f"%p: {POINTERS}"))
    assert {int(found) for found in re.findall(r"maxPhase = (\d+)", str(root))} <= phases


def test_memory_without_conflicts_stays() -> None:
    text, *_ = through_memory("cuda:90", "f16", (4, 16, 32), 2)
    text = text.replace(BATCH_BETWEEN, "order = [2, 1, 0]")
    root = parsed(text)
    assert run_passes(root, [ArrangeMemory()]).succeeded
    assert ll.ARRANGED not in root.operation.attributes
