"""`bench.held`: what a reason holds back is seen, and what is not held is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import held

LAYOUTS = """\
#a = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#b = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
"""
MODULE = """\
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%x: {a}, %y: {b}) -> {b} {{
    %p = arith.mul{kind} %x, %x : {a}
    %q = ttg.convert_layout %p : {a} -> {b}
    %s = arith.add{kind} %q, %y : {b}
    tt.return %s : {b}
  }}
}}
"""


def test_reasons_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for element in ("f32", "i32"):
        text = LAYOUTS + MODULE.format(
            kind=element[0], **{name: f"tensor<32x32x{element}, #{name}>" for name in "ab"}
        )
        (folder / f"{element}.ttgir").write_text(text)
    assert held.main([str(folder), "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| set | 2 | 1 | 1 | 0 (0) | 1 (1) | 0 (0) |"
    floats, integers = json.loads((tmp_path / "held.json").read_text())["sets"]["set"]
    assert integers == {"kernel": "i32", "same": True, "left": False}
    assert floats["reasons"]["products on their way to a sum, sums of two included"] == "all"
