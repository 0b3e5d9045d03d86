"""`triton-linear explain` on accesses to shared memory, reductions, and stock Triton.

What is said of parts is compared with what the interpreter counts for whole kernels. `test_explain_real.py` has
kernels that it does not run.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import triton
import triton.language as tl
from explain_support import SCHEMA, explain, layout_of, shared_bytes
from rich.console import Console
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bench.whole_kernels import LOWERING, lower_kernel, sink
from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import REGISTER
from triton_linear.lowering.interpreter.counts import Counts
from triton_linear.tools.explain import command
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import Figures, ModuleReport
from triton_linear.tools.explain.render import module
from triton_linear.tools.support.backend import ttgir_of

TURNS = 3


# Kernels that the interpreter runs as a whole

ROWS = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, $LANES], warpsPerCTA = [4, 1], order = [1, 0]}>"
)
COLUMNS = (
    "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [$LANES, 8], warpsPerCTA = [1, 4], order = [0, 1]}>"
)
MEMORY = "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>"


def without_reductions(text: str) -> str:
    """The kernel without its reductions and its scan."""
    lines = re.sub(r'    *%(?:sum|scanned|total) = "(?s:.)*?\n *\}\) : [^\n]*\n', "", text).splitlines()
    return "\n".join(line for line in lines if "%sink_sum" not in line and "%sink_total" not in line)


def whole_kernel(target: str, element: str = "f32") -> str:
    """A conversion, stores and loads of parts of a buffer, a reduction and a scan in a loop, others outside."""
    rows, columns = (
        layout.replace("$LANES", "4" if target.startswith("cuda") else "8") for layout in (ROWS, COLUMNS)
    )
    r, c = f"tensor<32x32x{element}, #r>", f"tensor<32x32x{element}, #c>"
    along, over = f"tensor<32x{element}, #ttg.slice<{{dim = 0, parent = #r}}>>", f"tensor<32x{element}, #n>"
    buffer = f"!ttg.memdesc<2x32x32x{element}, #m, #ttg.shared_memory, mutable>"
    part = f"!ttg.memdesc<32x32x{element}, #m, #ttg.shared_memory, mutable>"
    given = f"!ttg.memdesc<32x32x{element}, #m, #ttg.shared_memory>"
    across = given.replace("#m", "#t")
    half, part_of_c = across.replace("32x32", "32x16").replace(">", ", 32x32>"), c.replace("32x32", "32x16")
    add = f"arith.add{element[0]}"
    combine = f"{add} %a, %b : {element}"
    lanes = 32 if target.startswith("cuda") else 64
    return f"""\
#r = {rows}
#c = {columns}
#n = #ttg.slice<{{dim = 1, parent = #r}}>
#m = {MEMORY}
#t = {MEMORY.replace("[1, 0]", "[0, 1]")}
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.target" = "{target}",
                    "ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func public @kernel(%x: {r}, %n: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %buffers = ttg.local_alloc : () -> {buffer}
    %twice = {add} %x, %x : {r}
    %given = ttg.local_alloc %twice : ({r}) -> {given}
    %last = scf.for %i = %zero to %n step %one iter_args(%y = %twice) -> ({r}) : i32 {{
      %view = ttg.memdesc_index %buffers[%one] : {buffer} -> {part}
      ttg.local_store %y, %view : {r} -> {part}
      %turned = ttg.local_load %view : {part} -> {c}
      %back = ttg.convert_layout %turned : {c} -> {r}
      %sum = "tt.reduce"(%back) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: {element}, %b: {element}):
        %s = {combine}
        "tt.reduce.return"(%s) : ({element}) -> ()
      }}) : ({r}) -> {along}
      {sink("%sum", along, "sum")}
      scf.yield %back : {r}
    }}
    %scanned = "tt.scan"(%last) <{{axis = 1 : i32, reverse = false}}> ({{
    ^bb0(%a: {element}, %b: {element}):
      %s = {combine}
      "tt.scan.return"(%s) : ({element}) -> ()
    }}) : ({r}) -> {r}
    %total = "tt.reduce"(%scanned) <{{axis = 1 : i32}}> ({{
    ^bb0(%a: {element}, %b: {element}):
      %s = {combine}
      "tt.reduce.return"(%s) : ({element}) -> ()
    }}) : ({r}) -> {over}
    {sink("%total", over, "total")}
    %again = ttg.local_load %given : {given} -> {c}
    {sink("%again", c, "again")}
    %across = ttg.memdesc_trans %given {{order = array<i32: 1, 0>}} : {given} -> {across}
    %half = ttg.memdesc_subslice %across[0, 16] : {across} -> {half}
    %loaded = ttg.local_load %half : {half} -> {part_of_c}
    {sink("%loaded", part_of_c, "loaded")}
    tt.return
  }}
}}
"""


def turns(loop_depth: int) -> int:
    """How often something is executed."""
    return TURNS if loop_depth else 1


def said(report: ModuleReport) -> int:
    """The wavefronts of a whole kernel, as `explain` has them."""
    parts = (*report.conversions, *report.accesses)
    return sum(turns(one.loop_depth) * one.figures.wavefronts for one in parts if one.figures is not None)


def run(text: str, target: str, ours: bool = True) -> Counts:
    """What the interpreter counts for the whole kernel."""
    kernel = lower_kernel(text, "kernel.ttgir", target, LOWERING if ours else None)
    module = bridge.text_to_upstream(text, bridge.upstream_context())
    layout = layout_of(module.body.operations[0].regions[0].blocks[0].arguments[0].type)
    registers = [np.zeros((1, 1), np.uint64)] * layout.in_dim_size(REGISTER)
    return kernel.run([registers, TURNS]).counts


@pytest.mark.parametrize(
    ("target", "element"),
    [("cuda:80", "f16"), ("cuda:90", "f32"), ("cuda:90", "i32"), ("hip:gfx942", "f32"), ("hip:gfx950", "f16")],
)
def test_what_parts_take_adds_up_to_what_the_whole_kernel_takes(target: str, element: str) -> None:
    text = without_reductions(whole_kernel(target, element))
    report = explained(text, "kernel.ttgir", target, options=LOWERING)
    assert [access.loop_depth for access in report.accesses] == [1, 1, 0, 0, 0]
    assert not report.reductions
    assert len(report.conversions) - report.made + report.folded + report.avoided == 1
    assert report.made == 0
    assert all(access.figures is not None for access in report.accesses)
    assert said(report) == run(text, target).wavefronts > 0


def test_where_the_axis_of_a_reduction_lies() -> None:
    report = explained(whole_kernel("cuda:90"), "kernel.ttgir", None)
    inside, *outside = report.reductions
    assert (inside.operation, inside.axis, inside.loop_depth) == ("tt.reduce", 0, 1)
    assert inside.spread == {"register": 1, "lane": 8, "warp": 4, "block": 1}
    assert all(one.axis == 1 and one.loop_depth == 0 for one in outside)
    assert all(one.spread == {"register": 8, "lane": 4, "warp": 1, "block": 1} for one in outside)
    assert all(one.place.line and one.place.file == "kernel.ttgir" for one in report.reductions)


def test_memory_in_words() -> None:
    report = explained(whole_kernel("cuda:90"), "kernel.ttgir", None)
    swizzle = "runs of 4 elements (16 bytes) swizzled over 4 phases"
    assert {access.memory_words for access in report.accesses} == {
        f"contiguous along dim1, {swizzle}",
        f"contiguous along dim0, {swizzle}",
    }


CONVERSION = """\
#r = $ROWS
#c = $COLUMNS
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.target" = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<32x32xf32, #r>, %n: i32) {
    %y = ttg.convert_layout %x : tensor<32x32xf32, #r> -> tensor<32x32xf32, #c>
    $SINK
    tt.return
  }
}
"""


def test_the_other_side_is_what_stock_triton_emits_in_the_whole_kernel() -> None:
    text = CONVERSION.replace("$ROWS", ROWS).replace("$COLUMNS", COLUMNS).replace("$LANES", "4")
    text = text.replace("$SINK", sink("%y", "tensor<32x32xf32, #c>", "y"))
    assert explained(text, "kernel.ttgir", None).stock is None
    report = explained(text, "kernel.ttgir", None, stock=True)
    (conversion,), (other,) = report.conversions, report.stock or ()
    assert (other.kind, other.problem) == ("stock", "")
    for ours, figures in ((True, conversion.figures), (False, other.figures)):
        assert figures is not None
        assert _counted(figures) == _of(run(text, "cuda:90", ours)), ours
    stock = lower_kernel(text, "kernel.ttgir", None, None)
    assert report.shared_memory[0].stock == shared_bytes(stock.text)
    jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)


def _counted(figures: Figures) -> tuple[int, ...]:
    return figures.wavefronts, figures.minimum_wavefronts, figures.shuffles, figures.barriers, figures.bytes


def _of(counts: Counts) -> tuple[int, ...]:
    moved = counts.bytes_stored + counts.bytes_loaded
    return counts.wavefronts, counts.minimum_wavefronts, counts.shuffles, counts.cta_barriers, moved


# The gate and the command


def test_conditions_on_memory_and_reductions() -> None:
    report = explained(whole_kernel("cuda:90"), "kernel.ttgir", None)
    lost = [a.figures.wavefronts - a.figures.minimum_wavefronts for a in report.accesses if a.figures]
    assert sum(lost) > 0
    for text, value in {
        "accesses": 5,
        "accesses in loops": 2,
        "reductions": 3,
        "reductions in loops": 1,
        "conflicts": sum(lost),
        "conflicts in loops": sum(lost[:2]),
        "shared memory": report.shared_memory[0].bytes,
    }.items():
        assert command.counted(text, [report]) == value, text


def test_text_page_and_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "kernel.ttgir", tmp_path / "kernel.html"
    file.write_text(whole_kernel("cuda:90"))
    arguments = (str(file), "--stock", "--html", str(page))
    status, out, _ = explain(capsys, *arguments, "--fail-on", "shared memory > 100000")
    assert status == 0
    html = page.read_text()
    report = explained(file.read_text(), str(file), None)
    peak = report.shared_memory[0].bytes
    for text in ("accesses to shared memory", "reductions and scans", f"shared memory of kernel: {peak} bytes"):
        assert text in out
        assert text in html
    assert "8 across lanes, 4 across warps" in out
    assert re.search(r"stock +32x32xf32 .* cta-shared, in 1 loop: \d+ wavefronts", out)
    status, _, err = explain(capsys, *arguments, "--fail-on", "accesses in loops > 0")
    assert (status, err) == (1, "error: fail-on: accesses in loops > 0: it is 2\n")


N = 32


@triton.jit
def kernel(x, out, N: tl.constexpr, KIND: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.trans(tl.load(x + i * N + j))
    if KIND == "sort":
        tile = tl.sort(tile, 1)  # the sort
    elif KIND == "topk":
        tile += tl.max(tl.topk(tile, 4), 1)[:, None]  # the sort
    elif KIND == "twice":
        tile = tl.trans(tl.sort(tl.sort(tile, 1), 1, True))  # the sort
        tile += tl.xor_sum(tile.to(tl.int32, bitcast=True), 1)[:, None]
    else:
        tile += tl.xor_sum(tile.to(tl.int32, bitcast=True), 1)[:, None] + tl.argmax(tile, 1)[:, None]
    tl.store(out + i * N + j, tile)


def text_of(kind: str) -> str:
    signature = {"x": "*fp32", "out": "*fp32", "N": "constexpr", "KIND": "constexpr"}
    source = ASTSource(kernel, signature, constexprs={"N": N, "KIND": kind})
    return str(ttgir_of(source, GPUTarget("cuda", 90, 32), {}))


def report_of(kind: str) -> ModuleReport:
    return explained(text_of(kind), "kernel.ttgir", None)


def shown(report: ModuleReport) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(module(report))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "sorts", "others"),
    [("sort", ["tl.sort"], 0), ("topk", ["tl.topk"], 1), ("twice", ["tl.sort"] * 2, 1), ("none", [], 2)],
)
def test_a_sort_is_said_once_and_is_no_reduction(kind: str, sorts: list[str], others: int) -> None:
    report = report_of(kind)
    found = [one for one in report.reductions if one.steps]
    assert [one.operation for one in found] == sorts
    assert all(one.place.code.endswith("# the sort") and one.steps > 1 for one in found)
    rest = [one for one in report.reductions if not one.steps]
    assert [one.operation for one in rest] == ["tt.reduce"] * others
    steps = sum(one.steps for one in found)
    assert steps + others == text_of(kind).count('= "tt.reduce"(')
    jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)


def test_without_the_library_they_are_reductions(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_linear.tools.explain import anchors as library

    library._functions.cache_clear()
    monkeypatch.setattr(library.Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(OSError("gone")))
    try:
        assert {one.operation for one in report_of("sort").reductions} == {"tt.reduce"}
    finally:
        library._functions.cache_clear()


def test_nothing_is_shown_twice() -> None:
    text = shown(report_of("topk"))
    (line,) = (line for line in text.splitlines() if "conversions that move nothing" in line)
    assert int(line.split(":")[1].split()[0]) > 3
    assert text.count("topk      ") == 1
    assert "left by a step of this sort (tl.topk at" in text
