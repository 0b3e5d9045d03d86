"""The estimate of registers: words that can be counted by hand, and what must hold of any module."""

from __future__ import annotations

import functools
import re

import pytest
from accumulator_kernels import ACC, kernel
from assign_support import path_of
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module
from triton_linear.passes.analysis.registers import BESIDE, estimate, live_by_place, live_words

HEAD = """
#a = #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %q: !tt.ptr<f32>, %n: i32, %go: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zeros = arith.constant dense<0.0> : tensor<1024xf32, #a>
  %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #a>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #a>
  %at = tt.addptr %ps, %r : tensor<1024x!tt.ptr<f32>, #a>, tensor<1024xi32, #a>
  %rb = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #b>
  %psb = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #b>
  %atb = tt.addptr %psb, %rb : tensor<1024x!tt.ptr<f32>, #b>, tensor<1024xi32, #b>
"""
TAIL = "  tt.return\n}\n}\n"
X, XB, P, PB = (
    "tensor<1024xf32, #a>",
    "tensor<1024xf32, #b>",
    *(f"tensor<1024x!tt.ptr<f32>, #{name}>" for name in "ab"),
)
N = 8
"""Words of a tensor of 1024 elements of 32 bits in each of 128 threads."""
BASE = 2
"""Words of a pointer from which all of `%at` are known distances away."""


@functools.cache
def module(body: str) -> Module:
    return bridge.text_to_upstream(HEAD + body + TAIL, bridge.upstream_context(), "f.ttgir")


def words(body: str) -> float:
    return live_words(module(body).operation)


LOOP = f"""
  {{BEFORE}}
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%state = %zeros) -> ({X}) : i32 {{
    %x = tt.load %at : {P}
    %more = arith.addf %state, %x : {X}
    {{INSIDE}}
    scf.yield %more : {X}
  }}
  {{BEHIND}}
"""


def loop(before: str = "", inside: str = "", behind: str = "") -> str:
    return LOOP.replace("{BEFORE}", before).replace("{INSIDE}", inside).replace("{BEHIND}", behind)


def test_nothing_is_live_where_nothing_is_used() -> None:
    assert words("") == words("%c2 = arith.constant 2 : i32") == 0
    assert estimate(module("").operation) == BESIDE


ADDED = f"%x = tt.load %at : {P}\n%y = tt.load %at : {P}\n%z = arith.addf %x, %y : {X}\n"
OTHER, USED = f"%y = tt.load %atb : {PB}", f"tt.store %atb, %y : {PB}"
CONVERTED = f"%x = tt.load %at : {P}\n%y = ttg.convert_layout %x : {X} -> {XB}\ntt.store %atb, %y : {PB}\n"
LIVE = {
    "what is loaded, with what is still to come": (ADDED, 2 * N),
    "the pointers too, where there is a store behind": (f"{ADDED}tt.store %at, %z : {P}\n", BASE + 2 * N),
    # At the load of a loop, beside what is loaded: the state, and the pointers of the next iteration.
    "a loop carries a state": (loop(), BASE + N + N),
    # Beside the load: state, loaded, and y with the pointers in its layout.
    "what is used in a loop lives through it": (loop(OTHER, USED), (BASE + N + N) + (BASE + N)),
    "what is used behind a loop, too": (loop(OTHER, behind=USED), (BASE + N + N) + (BASE + N)),
    "what is used nowhere does not": (loop(OTHER), BASE + N + N),
    "values between operations on elements are not counted": (
        f"%x = tt.load %at : {P}\n%t = math.exp %x : {X}\n%u = arith.mulf %t, %x : {X}\n"
        f"%v = arith.addf %u, %t : {X}\ntt.store %at, %v : {P}",
        BASE + N,
    ),
    "but across a load they are": (
        f"%x = tt.load %at : {P}\n%t = math.exp %x : {X}\n%y = tt.load %at : {P}\n"
        f"%u = arith.mulf %t, %x : {X}\n%v = arith.addf %u, %y : {X}\ntt.store %at, %v : {P}",
        BASE + 3 * N,
    ),
    "a conversion: pointers in the other layout": (CONVERTED, BASE + N),
    "and both sides if the source is still used": (f"{CONVERTED}tt.store %at, %x : {P}\n", 2 * BASE + 2 * N),
}


@pytest.mark.parametrize("case", LIVE)
def test_what_lives(case: str) -> None:
    body, expected = LIVE[case]
    assert words(body) == expected


def test_broadcasts_and_products_in_flight_hold_their_operands() -> None:
    """One element a thread is loaded, and lives on as a tensor of eight across the other load."""
    slice_ = "#ttg.slice<{dim = 1, parent = #w}>"
    text = HEAD.replace(
        "module attr",
        "#w = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], "
        "order = [1, 0]}>\nmodule attr",
    )
    row, wide = f"tensor<128xf32, {slice_}>", "tensor<128x8xf32, #w>"
    pointers = f"tensor<128x!tt.ptr<f32>, {slice_}>"
    body = f"""
  %rp = tt.splat %q : !tt.ptr<f32> -> {pointers}
  %x = tt.load %rp : {pointers}
  %line = tt.expand_dims %x {{axis = 1 : i32}} : {row} -> tensor<128x1xf32, #w>
  %all = tt.broadcast %line : tensor<128x1xf32, #w> -> {wide}
  %y = tt.load %at : {P}
  %s = "tt.reduce"(%all) <{{axis = 1 : i32}}> ({{
  ^bb0(%one: f32, %two: f32):
    %more = arith.addf %one, %two : f32
    tt.reduce.return %more : f32
  }}) : ({wide}) -> {row}
  tt.store %rp, %s : {pointers}
  tt.store %at, %y : {P}
"""
    root = bridge.text_to_upstream(text + body + TAIL, bridge.upstream_context(), "f.ttgir")
    assert live_words(root.operation) == BASE + 1 + N  # the pointer of %rp is a scalar


BOTH = f"%both = arith.addf %next, %acc : {ACC}"


@pytest.mark.parametrize(("between", "used", "expected"), [("", "%next", 32), (BOTH, "%both", 64)])
def test_a_dot_adds_to_its_accumulator_if_nobody_else_needs_that(
    between: str, used: str, expected: int
) -> None:
    """64x64 in f32 by four warps are 32 words, through the loop, beside pointers."""
    text = kernel(between, used)
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "f.ttgir")
    (at_dot,) = [live for op, live in live_by_place(root.operation).items() if op.name == "ttng.warp_group_dot"]
    assert at_dot == expected + BASE


@pytest.mark.parametrize(
    ("element", "expected"),
    [("f64", 16), ("f32", 8), ("i32", 8), ("f16", 4), ("bf16", 4), ("i8", 2), ("f8E4M3FN", 2)],
)
def test_narrow_elements_lie_side_by_side(element: str, expected: int) -> None:
    pointers = f"tensor<1024x!tt.ptr<{element}>, #a>"
    body = f"""
  %base = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<{element}>
  %all = tt.splat %base : !tt.ptr<{element}> -> {pointers}
  %each = tt.addptr %all, %r : {pointers}, tensor<1024xi32, #a>
  %x = tt.load %each : {pointers}
  tt.store %each, %x : {pointers}
"""
    assert words(body) == BASE + expected


CARRIED = """
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%carried = %r) -> (tensor<1024xi32, #a>) : i32 {
    %there = tt.addptr %ps, %carried : tensor<1024x!tt.ptr<f32>, #a>, tensor<1024xi32, #a>
    tt.store %there, %zeros : tensor<1024x!tt.ptr<f32>, #a>
    %is = tt.splat %i : i32 -> tensor<1024xi32, #a>
    %sum = arith.addi {FROM}, %is : tensor<1024xi32, #a>
    scf.yield %sum : tensor<1024xi32, #a>
  }
"""


def test_numbers_that_a_loop_carries_are_one_each_unless_it_adds_to_them() -> None:
    """Both are known distances apart, but of the second no compiler sees it."""
    assert words(CARRIED.replace("{FROM}", "%carried")) == 1
    assert words(CARRIED.replace("{FROM}", "%r")) == N


def test_a_branch_holds_what_either_side_makes() -> None:
    body = f"""
  %y = tt.load %atb : {PB}
  %x = scf.if %go -> ({X}) {{
    %x1 = tt.load %at : {P}
    scf.yield %x1 : {X}
  }} else {{
    scf.yield %zeros : {X}
  }}
  tt.store %at, %x : {P}
  tt.store %atb, %y : {PB}
"""
    assert words(body) == 2 * BASE + 2 * N


def test_a_loop_that_ends_by_a_condition_carries_its_state() -> None:
    body = f"""
  %end:2 = scf.while (%x = %zeros, %i = %c0) : ({X}, i32) -> ({X}, i32) {{
    %on = arith.cmpi slt, %i, %n : i32
    scf.condition(%on) %x, %i : {X}, i32
  }} do {{
  ^bb0(%x: {X}, %i: i32):
    %y = tt.load %at : {P}
    %sum = arith.addf %x, %y : {X}
    %j = arith.addi %i, %c1 : i32
    scf.yield %sum, %j : {X}, i32
  }}
  tt.store %at, %end#0 : {P}
"""
    assert words(body) == BASE + 2 * N


# What holds of any module.

KERNELS = ["layer_norm_forward", "matmul_gelu", "running_sum", "hopper_causal", "sgd_momentum", "emb_sum-0"]


@pytest.mark.parametrize("name", KERNELS)
def test_names_do_not_matter_and_nothing_is_negative(name: str) -> None:
    text = path_of(name).read_text()
    renamed = re.sub(r"%(?=\w)", "%renamed_", text)
    found = [
        list(live_by_place(bridge.text_to_upstream(each, bridge.upstream_context(), name).operation).values())
        for each in (text, renamed)
    ]
    assert found[0] == found[1]
    assert min(found[0]) >= 0 < max(found[0])


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["f16", "f32", "i64"]),
    st.integers(min_value=7, max_value=14),
    st.integers(min_value=0, max_value=3),
)
def test_larger_tensors_do_not_take_fewer(element: str, log_size: int, log_each: int) -> None:
    def taken(log_size: int) -> float:
        size = 1 << log_size
        pointers = f"tensor<{size}x!tt.ptr<{element}>, #c>"
        text = f"""
#c = #ttg.blocked<{{sizePerThread = [{1 << log_each}], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
tt.func public @f(%p: !tt.ptr<{element}>) {{
  %all = tt.splat %p : !tt.ptr<{element}> -> {pointers}
  %r = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32, #c>
  %at = tt.addptr %all, %r : {pointers}, tensor<{size}xi32, #c>
  %x = tt.load %at : {pointers}
  %y = tt.load %at : {pointers}
  tt.store %at, %x : {pointers}
  tt.store %at, %y : {pointers}
{TAIL}"""
        root = bridge.text_to_upstream(text, bridge.upstream_context(), "f.ttgir")
        return live_words(root.operation)

    assert taken(log_size) <= taken(log_size + 1)
    assert taken(log_size + 4) > taken(log_size)
