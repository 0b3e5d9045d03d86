"""`triton-linear explain --pack`: the order of weights, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_linear.tools import cli
from triton_linear.tools.explain.pack import packings

DATA = Path(__file__).parents[2] / "data" / "ttgir"
HEAD = """
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#b = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%w: tensor<16x16x!tt.ptr<i8>, #blocked>, %b: tensor<16x8xf16, #b>, %n: i32) {
    %zero = arith.constant dense<0.000000e+00> : tensor<16x8xf32, #mma>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
"""  # noqa: E501 - a module has no shorter lines.
LOAD = """
    %packed = tt.load %w : tensor<16x16x!tt.ptr<i8>, #blocked>
    %wide = arith.sitofp %packed : tensor<16x16xi8, #blocked> to tensor<16x16xf16, #blocked>
    %a = ttg.convert_layout %wide : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #a>
"""
DOT = "%d = tt.dot %a, %b, %acc : tensor<16x16xf16, #a> * tensor<16x8xf16, #b> -> tensor<16x8xf32, #mma>\n"
LOOP = "%sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<16x8xf32, #mma>) : i32 {"
IN_LOOP = f"{HEAD}{LOOP}{LOAD}{DOT} scf.yield %d : tensor<16x8xf32, #mma>\n }}\n tt.return\n }}\n}}\n"


def test_a_thread_of_mma_sync_finds_its_eight_weights_in_a_row() -> None:
    """A thread has two neighbours in a row, the same eight rows below, and all that again eight columns on."""
    (found,) = packings(IN_LOOP, "loop")
    assert found.packing is not None
    assert found.type == "16x16xi8"
    assert found.nibbles is None
    assert found.packing.bits == ((1, 0), (0, 3), (1, 3), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2))


def test_the_command_prints_what_to_do_once_and_what_in_the_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(IN_LOOP)
    assert cli.main(["explain", "--pack", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "16x16xi8: pack tiles of 16, 16" in printed
    assert "tile.reshape(8, 4, 2, 2, 2).permute(3, 0, 2, 1, 4).reshape(16, 16)" in printed


NIBBLES = """
    %bytes = tt.load %v : tensor<16x8x!tt.ptr<i8>, #rows>
    %bits = arith.extui %bytes : tensor<16x8xi8, #rows> to tensor<16x8xi16, #rows>
    %high = arith.shrui %bits, %four : tensor<16x8xi16, #rows>
    %both = tt.join %bits, %high : tensor<16x8xi16, #rows> -> tensor<16x8x2xi16, #both>
    %all = tt.reshape %both : tensor<16x8x2xi16, #both> -> tensor<16x16xi16, #a>
    %a = tt.bitcast %all : tensor<16x16xi16, #a> -> tensor<16x16xf16, #a>
"""


def test_two_nibbles_that_share_a_register_come_sixteen_bits_apart() -> None:
    """The two neighbours in a row are bit 2 of the place in a word of eight; the rest is as for bytes."""
    layouts = (
        "#rows = #ttg.linear<{register = [[8, 0], [0, 4]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], "
        "warp = [], block = []}>\n"
        "#both = #ttg.linear<{register = [[0, 0, 1], [8, 0, 0], [0, 4, 0]], "
        "lane = [[0, 1, 0], [0, 2, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [], block = []}>\n"
    )
    text = IN_LOOP.replace(LOAD, NIBBLES).replace("#blocked = ", f"{layouts}#blocked = ", 1)
    text = text.replace("%w: tensor", "%v: tensor<16x8x!tt.ptr<i8>, #rows>, %w: tensor")
    text = text.replace("%c1 =", "%four = arith.constant dense<4> : tensor<16x8xi16, #rows>\n    %c1 =")
    others = (
        "%others = tt.load %v : tensor<16x8x!tt.ptr<i8>, #rows>\n"
        "%high = arith.extui %others : tensor<16x8xi8, #rows> to tensor<16x8xi16, #rows>"
    )
    joined = packings(
        text.replace("%high = arith.shrui %bits, %four : tensor<16x8xi16, #rows>", others), "loop"
    )
    assert [found.nibbles for found in joined] == [None, None]  # bytes of two loads
    (found,) = packings(text, "loop")
    assert found.packing is not None
    assert found.packing.bits == ((0, 3), (1, 2), (1, 0), (1, 1), (0, 0), (0, 1), (0, 2))
    assert found.nibbles is not None
    assert found.nibbles.bits == ((0, 3), (1, 3), (1, 0), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2))
    assert f"{found.nibbles!r}.pack_nibbles(weights)" in str(found)
    assert "elements.reshape(8, 8, 2, 2).permute(3, 0, 2, 1).reshape(16, 16)" in str(found)


def test_dots_outside_loops_and_kernels_without_weights_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    once = HEAD + LOAD + DOT.replace("%acc", "%zero") + "tt.return\n }\n}\n"
    assert packings(once, "once") == []
    (path, *_) = sorted(DATA.glob("softmax_row*.ttgir"))
    assert cli.main(["explain", "--pack", str(path)]) == 0
    assert "no dot takes integers from a load in a loop" in capsys.readouterr().out


def test_a_text_that_is_no_module_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.ttgir"
    path.write_text("module { nothing }")
    assert cli.main(["explain", "--pack", str(path)]) == 1
    found = capsys.readouterr()
    assert "error:" in found.err
    assert "Traceback" not in found.err + found.out
