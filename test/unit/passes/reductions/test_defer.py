"""Reductions that a loop only adds up, behind the loop: what is moved, and that whole kernels give the same."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_support import INSIDE, LINE, ROWS, Array, named, parsed, patterns

from bench.whole_kernels import lower_kernel, registers_of, sink
from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.dialect.mlir_adapter import IntegerAttr, Module, Operation, Type, Value
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.flow import terminator
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.arithmetic import ARITHMETIC
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions import defer
from triton_linear.passes.reductions.defer import DeferReductions, cut, identity

COLUMNS = ROWS.replace("[1, 4]", "[4, 1]", 1).replace("order = [1, 0]", "order = [0, 1]")
EIGHT = LINE.replace("[1]", "[8]", 1)
THREE = (
    "#ttg.blocked<{sizePerThread = [1, 2, 2], threadsPerWarp = [4, 4, 2], warpsPerCTA = [2, 1, 2], "
    "order = [1, 2, 0]}>"
)


def kernel(
    operation: str,
    element: str,
    encoding: str,
    shape: Sequence[int],
    axis: int,
    *,
    gpu: str = "cuda:90",
    given: str = "",
    body: str = "",
    outer: bool = False,
    region: str = "",
    attributes: str = "",
) -> str:
    """A loop that reduces %x plus its iteration, and adds that up; `body`: what else is in the loop."""
    size = "x".join(map(str, shape))
    left = "x".join(str(n) for place, n in enumerate(shape) if place != axis)
    sliced = f"#ttg.slice<{{dim = {axis}, parent = {encoding}}}>"
    taken = f"tensor<{size}x{element}, {encoding}>"
    result = f"tensor<{left}x{element}, {sliced}>" if left else element
    floats = not element.startswith("i")
    step = f"%f = arith.sitofp %i : i32 to {element}" if floats else f"%f = arith.bitcast %i : i32 to {element}"
    if element == "i64":
        step = "%f = arith.extsi %i : i32 to i64"
    start = given or ("1.0" if floats else "1")
    if left:
        start = f"dense<{start}>"
    add = "arith.addf" if floats else "arith.addi"
    loop = f"""%t = scf.for %i = %zero to %n step %one iter_args(%a = %start) -> ({result}) : i32 {{
      {step}
      %s = tt.splat %f : {element} -> {taken}
      %y = {add} %x, %s : {taken}
      %r = "tt.reduce"(%y) <{{axis = {axis} : i32}}> ({{
      ^bb0(%u: {element}, %v: {element}):
        %w = {region or operation} %u, %v {attributes} : {element}
        tt.reduce.return %w : {element}
      }}) : ({taken}) -> {result}
      {body}
      %b = {operation} %a, %r : {result}
      scf.yield %b : {result}
    }}"""
    if outer:
        loop = f"""%t = scf.for %j = %zero to %two step %one iter_args(%start = %begin) -> ({result}) : i32 {{
      {loop.replace("%t =", "%k =")}
      scf.yield %k : {result}
    }}"""
    end = "%t"
    line = ""
    if not left:  # to a tensor, for the sink
        line = f"%e = tt.splat %t : {element} -> tensor<128x{element}, {LINE}>"
        end, result_type = "%e", f"tensor<128x{element}, {LINE}>"
    else:
        result_type = result
    word = result_type.replace(f"x{element}", "xi32")
    if element == "f32":
        line += f"\n    %z = tt.bitcast {end} : {result_type} -> {word}"
        end, result_type = "%z", word
    elif element == "i64":
        line += f"\n    %z = arith.trunci {end} : {result_type} to {word}"
        end, result_type = "%z", word
    lanes = target(gpu).lanes
    return f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{gpu}",
    "ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func public @kernel(%x: {taken}, %n: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %{"begin" if outer else "start"} = arith.constant {start} : {result}
    {loop}
    {line}
    {sink(end, result_type, "result")}
    tt.return
  }}
}}
"""


def deferred(text: str, exact: bool = False) -> Module:
    root = parsed(text)
    outcome = run_passes(root, [DeferReductions(exact)], verify=True)
    assert outcome.succeeded, outcome.diagnostics
    return root


def is_deferred(root: Module) -> bool:
    return ll.DEFERRED in root.operation.attributes


def with_lanes(gpu: str, text: str) -> str:
    """Encodings of 32 lanes, with those of the GPU along their first dimension."""
    return re.sub(
        r"(?<=threadsPerWarp = \[)\d+", lambda found: str(int(found[0]) * target(gpu).lanes // 32), text
    )


CASES = [
    ("arith.addf", "f32", EIGHT, (2048,), 0),
    ("arith.addf", "f32", LINE, (128,), 0),
    ("arith.addi", "i32", EIGHT, (4096,), 0),
    ("arith.addi", "i64", LINE, (512,), 0),
    ("arith.maxsi", "i32", ROWS, (16, 256), 1),
    ("arith.xori", "i32", COLUMNS, (32, 64), 1),
    ("arith.maxnumf", "f32", ROWS, (8, 512), 1),
    ("arith.minimumf", "f32", INSIDE, (64, 32), 0),
    ("arith.addi", "i32", f"#ttg.slice<{{dim = 1, parent = {INSIDE}}}>", (16,), 0),
    ("arith.addf", "f32", THREE, (16, 16, 16), 2),
    ("arith.mulf", "f32", LINE, (256,), 0),
]


@pytest.mark.parametrize(("operation", "element", "encoding", "shape", "axis"), CASES)
@pytest.mark.parametrize("gpu", ["cuda:90", "hip:gfx942"])
def test_a_whole_kernel_gives_what_stock_triton_s_gives(
    operation: str, element: str, encoding: str, shape: tuple[int, ...], axis: int, gpu: str
) -> None:
    """Floats are small integers, so that no sum of them is rounded; factors are 1, but for one iteration."""
    text = with_lanes(gpu, kernel(operation, element, encoding, shape, axis, gpu=gpu))
    assert is_deferred(deferred(text))
    rng = np.random.default_rng(len(text))
    dtype = {"f32": np.float32, "i32": np.int32, "i64": np.int64}[element]
    values = rng.integers(-9, 9, shape).astype(dtype)
    if operation == "arith.mulf":
        values = np.ones(shape, dtype)
        values[:8] = 2
    ours = lower_kernel(text, "ours.ttgir", gpu, PipelineOptions(assign=False))
    stock = lower_kernel(text, "stock.ttgir", gpu, None)
    layout = layout_of(with_lanes(gpu, encoding), shape)
    for trips in (0, 1, 3):
        found: list[Array] = []
        for lowered in (ours, stock):
            outcome = lowered.run([registers_of(patterns(values), layout, lowered), trips])
            assert not outcome.races
            result, undefined = outcome.sinks["result"]
            assert not undefined.any()
            found.append(result)
        assert np.array_equal(*found), trips
        if trips == 3 and operation in ("arith.addf", "arith.addi"):
            total = 1 + sum((values + step).sum(axis) for step in range(3))
            assert set(found[0].ravel().tolist()) == set(
                patterns(np.asarray(total, dtype)).ravel() & 0xFFFFFFFF
            )


def test_no_thread_waits_for_another_in_the_loop() -> None:
    text = kernel("arith.addf", "f32", EIGHT, (2048,), 0)
    counts = {}
    for trips in (1, 5):
        lowered = lower_kernel(text, "ours.ttgir", "cuda:90", PipelineOptions())
        values = patterns(np.zeros(2048, np.float32))
        counted = lowered.run([registers_of(values, layout_of(EIGHT, (2048,)), lowered), trips]).counts
        counts[trips] = counted.shuffles, counted.wavefronts, counted.bytes_stored
    assert counts[1] == counts[5] and counts[1][0] > 0


def test_loops_in_loops_reduce_behind_both() -> None:
    root = deferred(kernel("arith.addf", "f32", EIGHT, (2048,), 0, outer=True))
    last = named(root, "tt.reduce")[-1]
    assert last.parent.operation.name == "tt.func"
    assert [reduce.parent.operation.name for reduce in named(root, "tt.reduce")].count("tt.func") == 1


@pytest.mark.parametrize(
    "text",
    [
        kernel("arith.subf", "f32", EIGHT, (2048,), 0, region="arith.addf"),
        kernel("arith.maxnumf", "f32", EIGHT, (2048,), 0, region="arith.addf"),
        kernel("arith.addf", "f32", EIGHT, (2048,), 0, attributes="{fastmath = #arith.fastmath<nnan>}"),
        kernel("arith.maxnumf", "f32", EIGHT, (2048,), 0, given="0x7FC00000"),
        kernel("arith.addf", "f32", EIGHT, (2048,), 0, body="%q = arith.addf %a, %r : f32"),
        kernel("arith.addf", "f32", EIGHT, (2048,), 0, body="%q = arith.addf %f, %r : f32"),
        kernel("arith.addf", "f16", EIGHT, (2048,), 0),
        kernel("arith.addf", "f32", EIGHT, (512,), 0),  # threads hold copies
        kernel("arith.addf", "f32", INSIDE, (64, 32), 1),
        kernel("arith.addf", "f32", f"#ttg.slice<{{dim = 0, parent = {ROWS}}}>", (128,), 0),
    ],
    ids=[
        "another operation",
        "another region",
        "promises",
        "begins with a NaN",
        "the sum is read",
        "the result is read",
        "narrow floats",
        "copies",
        "in one warp",
        "no blocked encoding",
    ],
)
def test_what_stays(text: str) -> None:
    root = parsed(text)
    before = str(root)
    assert run_passes(root, [DeferReductions()], verify=True).succeeded
    assert str(root) == before


def test_kernels_of_clusters_stay() -> None:
    root = parsed(kernel("arith.addf", "f32", EIGHT, (2048,), 0))
    counts = root.operation.attributes
    counts["ttg.num-ctas"] = IntegerAttr.get(counts["ttg.num-ctas"].type, 2)
    assert run_passes(root, [DeferReductions()], verify=True).succeeded
    assert not is_deferred(root)


def test_where_bits_must_stay_only_what_has_no_order_moves() -> None:
    for operation, element, moves in (
        ("arith.addf", "f32", False),
        ("arith.addi", "i32", True),
        ("arith.maxnumf", "f32", True),
    ):
        root = deferred(kernel(operation, element, EIGHT, (2048,), 0), exact=True)
        assert is_deferred(root) == moves


@pytest.mark.parametrize("name", sorted(name for name, facts in ARITHMETIC.items() if facts.commutes))
@given(st.data())
def test_identities_change_no_bit(name: str, data: st.DataObject) -> None:
    operation = name.removeprefix("arith.")
    if operation.endswith("f"):
        value = np.float32(data.draw(st.floats(width=32, allow_nan=False)))
        made = identity(name, "f32")
        assert made is not None
        functions = {
            "addf": np.add,
            "mulf": np.multiply,
            "maxnumf": np.fmax,
            "minnumf": np.fmin,
            "maximumf": np.maximum,
            "minimumf": np.minimum,
        }
        got = functions[operation](np.float32(made), value)
        assert got.tobytes() == value.tobytes()
        return
    bits = data.draw(st.sampled_from([8, 16, 32, 64]))
    pattern = data.draw(st.integers(0, (1 << bits) - 1))
    made = identity(name, f"i{bits}")
    assert isinstance(made, int)
    e, mask, half = made % (1 << bits), (1 << bits) - 1, 1 << (bits - 1)

    def signed(number: int) -> int:
        return number - (1 << bits) if number >= half else number

    got_bits = {
        "addi": lambda: (e + pattern) & mask,
        "muli": lambda: (e * pattern) & mask,
        "andi": lambda: e & pattern,
        "ori": lambda: e | pattern,
        "xori": lambda: e ^ pattern,
        "maxui": lambda: max(e, pattern),
        "minui": lambda: min(e, pattern),
        "maxsi": lambda: max(e, pattern, key=signed),
        "minsi": lambda: min(e, pattern, key=signed),
    }[operation]()
    assert got_bits == pattern


@st.composite
def blocked(draw: st.DrawFn) -> tuple[str, tuple[int, ...], int]:
    """Encodings, shapes that threads hold without copies or with, and an axis."""
    rank = draw(st.integers(1, 3))
    powers = st.sampled_from([1, 2, 4])
    registers = [draw(powers) for _ in range(rank)]
    cuts = sorted(draw(st.integers(0, 5)) for _ in range(rank - 1))
    lanes = [1 << high - low for low, high in zip([0, *cuts], [*cuts, 5], strict=True)]
    cuts = sorted(draw(st.integers(0, 2)) for _ in range(rank - 1))
    warps = [1 << high - low for low, high in zip([0, *cuts], [*cuts, 2], strict=True)]
    order = draw(st.permutations(range(rank)))
    shape = tuple(
        max(1, r * w * t * draw(st.sampled_from([1, 2, 4])) // draw(st.sampled_from([1, 1, 1, 2])))
        for r, t, w in zip(registers, lanes, warps, strict=True)
    )
    text = (
        f"#ttg.blocked<{{sizePerThread = {registers}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
        f"order = {list(order)}}}>"
    )
    return text, shape, draw(st.integers(0, rank - 1))


@given(blocked())
def test_what_is_reduced_in_the_loop_lies_in_registers(drawn: tuple[str, tuple[int, ...], int]) -> None:
    text, shape, axis = drawn
    found = cut(text, shape, axis)
    layout = layout_of(text, shape)
    if found is None:
        bases = dict(layout.bases)
        copies = any(not any(basis) for name in (REGISTER, LANE, WARP) for basis in bases[name])
        assert copies or not any(basis[axis] for basis in bases[WARP])
        return
    apart = layout_of(found.encoding, found.shape)
    assert apart == transfer.reshape(layout, found.shape)
    assert math.prod(found.shape) == math.prod(shape)
    for name in (LANE, WARP):
        assert not any(basis[place] for basis in dict(apart.bases)[name] for place in found.inside)
    left = apart
    for place in found.inside:
        left = transfer.reduce(left, place)
    assert not any(basis[found.axis] for basis in dict(left.bases)[REGISTER])
    assert left.out_dims[found.axis][1] > 1


def adds_what_it_has(loop: Operation) -> None:
    add = terminator(loop.regions[0].blocks[0]).operands[0].owner.operation
    add.operands[1] = add.operands[0]


def runs_otherwise(loop: Operation) -> None:
    loop.operands[1] = loop.operands[2]


@pytest.mark.parametrize("fault", [adds_what_it_has, runs_otherwise])
def test_another_program_is_refused(
    fault: Callable[[Operation], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite = defer._defer

    def wrong(found: defer.Deferred) -> tuple[dict[Value, Value], dict[Value, Type]]:
        claims = rewrite(found)
        fault(found.loop)
        return claims

    monkeypatch.setattr(defer, "_defer", wrong)
    outcome = run_passes(parsed(kernel(*CASES[0])), [DeferReductions()])
    assert not outcome.succeeded and "a reduction behind its loop would not compute the same" in outcome.errors
