"""`verify --lowering=stock` and what it has found: reproducers in `test/data/stock`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import planted_stock
import pytest

from triton_linear.dialect.triton_versions import SUMS_OF_BITS, installed_release
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.verify import stock
from triton_linear.tools.verify.stock import (
    FAILS,
    ILLEGAL,
    RACES,
    REFUSED,
    RIGHT,
    WRONG,
    check_conversions,
    layout_of_type,
    verify_stock,
)

DATA = Path(__file__).parents[2] / "data" / "stock"


SHUFFLED = """
#a = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#b = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<32xi32, #a>) -> tensor<32xi32, #b> {
    %0 = ttg.convert_layout %x : tensor<32xi32, #a> -> tensor<32xi32, #b>
    tt.return %0 : tensor<32xi32, #b>
  }
}
"""
"""Two lane bits change places."""
EXCHANGED = """
#a = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]], block = []}>
#b = #ttg.linear<{register = [], lane = [[32], [2], [4], [8], [16]], warp = [[1]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xi32, #a>) -> tensor<64xi32, #b> {
    %0 = ttg.convert_layout %x : tensor<64xi32, #a> -> tensor<64xi32, #b>
    tt.return %0 : tensor<64xi32, #b>
  }
}
"""
"""A lane bit and the warp bit change places, through 256 bytes of shared memory."""
NO_SUCH_LAYOUT = "LinearEncodingAttr requires a permutation matrix layout"


def checked(text: str, name: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and what was printed."""
    status = verify_stock(text, name, None)
    return status, capsys.readouterr().out


def checked_file(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    return checked((DATA / name).read_text(), name, capsys)


# What is wrong with releases.


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("lanes", "16 wrong of 32, 0 races"),
        ("out_of_bounds", f"{ILLEGAL}: conversion:3:10: llvm.load: load of 16 bytes by thread 1 at byte 16896"),
        ("lanes_crash", f"{FAILS}: conversion:1:1: error: A signal was caught"),
        ("lanes_endless", f"{FAILS}: took more than 10 s"),
    ],
    ids=["lanes", "out of bounds", "crash", "endless"],
)
def test_sums_of_bits(
    name: str, found: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong in Triton 3.6 and 3.7, and has no type later."""
    monkeypatch.setattr(stock, "SECONDS", 10)
    if installed_release() not in SUMS_OF_BITS:
        with pytest.raises(ToolError, match=NO_SUCH_LAYOUT):
            checked_file(f"{name}.ttgir", capsys)
        return
    status, out = checked_file(f"{name}.ttgir", capsys)
    assert status == 1
    assert found in out


def test_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong in Triton 3.6 and 3.7, mended in 3.8."""
    status, out = checked_file("bytes.ttgir", capsys)
    wrong = 128 if installed_release() < (3, 8) else 0
    assert status == (1 if wrong else 0)
    assert f"{wrong} wrong of 256, 0 races" in out
    assert out.endswith(f"stock Triton, 1 conversion: 1 {WRONG if wrong else RIGHT}\n")


def test_more_registers_than_anybody_waits_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every release."""
    monkeypatch.setattr(stock, "SECONDS", 2)
    status, out = checked_file("many_registers.ttgir", capsys)
    assert status == 1
    assert f"{FAILS}: took more than 2 s" in out


def test_a_crash_takes_one_conversion() -> None:
    """A tensor without dimensions, on every release."""
    blocked = "#ttg.blocked<{{sizePerThread = {0}, threadsPerWarp = {1}, warpsPerCTA = {0}, order = {2}}}>"
    number = f"tensor<i32, {blocked.format([], [], [])}>"
    numbers = f"tensor<32xi32, {blocked.format([1], [32], [0])}>"
    found = check_conversions([(number, number, 1, "cuda:90"), (numbers, numbers, 1, "cuda:90")])
    assert [finding.status for finding in found] == [FAILS, RIGHT]
    assert found[0].detail.startswith("ended by SIGABRT: ")
    assert "Assertion" in found[0].detail


def by_triton_alone(*arguments: str, seconds: float = 120) -> tuple[int, str]:
    """The status and the output of a reproducer; no module of this package is on its path."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "TRITON_L"))
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env=kept,
        cwd=DATA,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_reproducer_without_dimensions() -> None:
    status, said = by_triton_alone("compile.py", "no_dimensions.ttgir")
    assert status == -signal.SIGABRT and "Assertion" in said
    assert by_triton_alone("compile.py", "bytes.ttgir") == (0, "compiled\n")


def test_a_reproducer_of_many_registers() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        by_triton_alone("compile.py", "many_registers.ttgir", seconds=8)


@pytest.mark.skipif(installed_release() != (3, 9), reason="before, there are no conversions across CTAs either")
def test_a_reproducer_of_a_gather_across() -> None:
    status, said = by_triton_alone("gather_across.py")
    assert status == 1 and said.startswith("the other CTA's memory is not read\n")


# What is broken on purpose.


@pytest.mark.parametrize(
    ("text", "plant", "found", "status"),
    [
        (SHUFFLED, planted_stock.other_lanes, "31 wrong of 32, 0 races", WRONG),
        (EXCHANGED, planted_stock.no_barrier, "0 wrong of 64, 1 race", RACES),
        (EXCHANGED, planted_stock.little_memory, "is out of bounds: scratch has 128 bytes", ILLEGAL),
        (EXCHANGED, planted_stock.crash, f"{FAILS}: ended by SIGABRT", FAILS),
        (EXCHANGED, planted_stock.endless, f"{FAILS}: took more than 1 s", FAILS),
    ],
    ids=["other lanes", "no barrier", "little memory", "crash", "endless"],
)
def test_a_planted_fault_is_found(
    text: str,
    plant: Any,
    found: str,
    status: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, out = checked(text, "k.ttgir", capsys)
    assert whole == 0
    assert out.endswith(f"stock Triton, 1 conversion: 1 {RIGHT}\n")
    monkeypatch.setattr(stock, "_check_in_child", plant)
    if plant is planted_stock.endless:
        monkeypatch.setattr(stock, "SECONDS", 1)
    whole, out = checked(text, "k.ttgir", capsys)
    assert whole == 1
    assert found in out
    assert out.endswith(f"stock Triton, 1 conversion: 1 {status}\n")


def test_each_conversion_is_judged() -> None:
    def tensor(order: str, warps: str) -> str:
        shape = f"sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = {warps}"
        return f"tensor<16x16xf32, #ttg.blocked<{{{shape}, order = {order}}}>>"

    rows, columns = tensor("[1, 0]", "[2, 1]"), tensor("[0, 1]", "[1, 2]")
    unknown = "tensor<16x16xf32, #ttg.nothing<{}>>"
    several = rows.replace(
        "order = [1, 0]", "order = [1, 0], CTAsPerCGA = [2, 1], CTASplitNum = [2, 1], CTAOrder = [1, 0]"
    )
    found = check_conversions(
        [(rows, columns, 2, "cuda:90"), (rows, unknown, 2, "cuda:90"), (several, several, 2, "cuda:90")]
    )
    assert [finding.status for finding in found] == [RIGHT, REFUSED, REFUSED]
    assert found[0].verdict is not None
    assert found[0].verdict.checked == 256
    assert "several CTAs" in found[2].detail


def test_layouts_are_read_from_types() -> None:
    layout, element = layout_of_type(
        "tensor<4x!tt.ptr<f16>, #ttg.linear<{register = [[1]], lane = [[2]], warp = [], block = []}>>"
    )
    assert element == "!tt.ptr<f16>"
    assert layout.out_dims == (("dim0", 4),)
    with pytest.raises(ValueError, match="is no tensor with a layout"):
        layout_of_type("tensor<4xf32>")
