"""What `triton-linear diff` is made of: layouts, lines of sources, conditions."""

from __future__ import annotations

from pathlib import Path

import pytest
from diff_kernels import converted, copy

from triton_linear.dialect import bridge
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas.cubin import code, loops
from triton_linear.tools.diff import gate
from triton_linear.tools.diff.compare import aligned
from triton_linear.tools.diff.compiled import layouts, plain_assembly
from triton_linear.tools.diff.resources import occupancy
from triton_linear.tools.explain.records import Place
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import read_module, to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.gate import Condition


def test_layouts_are_those_of_data() -> None:
    module = read_module(converted("cuda:90", True), bridge.upstream_context(), "copy.ttgir")
    found = [(layout.operation, layout.tensor) for _, layout in layouts(module)]
    assert found == [("tt.load", "4096xf32"), ("tt.store", "4096xf32")]


def test_layouts_that_are_the_same_in_other_words_do_not_differ() -> None:
    text = bridge.expand_aliases(copy("cuda:90", True))
    linear = "#ttg.linear<{register = [[1], [2], [4], [1024], [2048]], lane = [[8], [16], [32], [64], [128]], "
    linear += "warp = [[256], [512]], block = []}>"
    blocked = text[text.index("#ttg.blocked") : text.index("}>") + 2]
    texts = text, text.replace(blocked, linear), copy("cuda:90", False)
    a, b, narrow = (
        {layout.key for _, layout in layouts(read_module(one, bridge.upstream_context(), "copy.ttgir"))}
        for one in texts
    )
    assert a == b
    assert a.isdisjoint(narrow)


def test_assembly_is_compared_without_places() -> None:
    a = ".entry k() {\n  .loc 1 2 3\n  bar.sync 0; // here\n$L__tmp0:\n}\n.section .debug_info {\n}"
    assert plain_assembly(a) == plain_assembly(a.replace("1 2 3", "1 4 5").replace("here", "there"))
    assert plain_assembly(a) != plain_assembly(a.replace("bar.sync 0", "bar.sync 1"))


def test_lines_of_an_edited_file_are_those_with_the_same_text(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\ny = 2\nz = 3\n")
    second.write_text("# new\nx = 1\ny = 2\nz = 4\n")
    place = aligned({str(first)}, {str(second)})
    lines = [Place.at(str(second), line) for line in range(5)]
    assert [place(line) for line in lines[2:]] == [Place.at(str(first), line) for line in (1, 2, 3)]
    assert place(lines[1]) == lines[1]
    assert aligned({str(first)}, {str(first), str(second)})(lines[2]) == lines[2]


@pytest.mark.parametrize(
    ("name", "registers", "shared", "warps", "ctas", "limited_by"),
    [
        ("cuda:90", 32, 0, 1, 32, "CTAs"),
        ("cuda:90", 138, 0, 8, 1, "registers"),
        ("cuda:90", 32, 98304, 4, 2, "shared memory"),
        ("cuda:90", 32, 0, 8, 8, "warps"),
        ("hip:gfx942", 146, 32768, 4, 2, "shared memory"),
        ("hip:gfx942", 146, 0, 4, 3, "registers"),
    ],
)
def test_as_many_ctas_are_resident_as_find_room(
    name: str, registers: int, shared: int, warps: int, ctas: int, limited_by: str
) -> None:
    assert occupancy(registers, shared, warps, target(name)) == (ctas, limited_by)


@pytest.mark.parametrize("text", ["", "speed", "registers > -1", "registers > x", "width 1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="is no condition"):
        Condition.parse(text, gate.NAMES, gate.KNOWN)


LOOP = """\
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90"} {
  tt.func public @kernel(%p: tensor<32x!tt.ptr<f32>, #b>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      %x = tt.load %p {isVolatile = true} : tensor<32x!tt.ptr<f32>, #b>
      tt.store %p, %x : tensor<32x!tt.ptr<f32>, #b>
    }
    tt.return
  }
}
"""


def test_a_loop_of_a_cubin_has_clocks() -> None:
    cubin = lower(to_triton(LOOP), "cuda:90", "cubin").stages["cubin"]
    found = loops(cubin)
    assert found
    assert all(loop.first < loop.last and loop.clocks >= loop.last - loop.first for loop in found)
    assert loops(b"none") is None
    assert code(b"none") is None
