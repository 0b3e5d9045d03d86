"""Every encoding that Triton prints comes back from upstream MLIR as it went, whatever the number of warps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from triton_linear.dialect import bridge

SCRIPT = Path(__file__).parents[1] / "support" / "encoding_round_trip.py"
CASES_A_FAMILY = 40


def test_what_triton_prints_is_read() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(CASES_A_FAMILY)], capture_output=True, text=True, check=False
    )
    *_, last = run.stdout.splitlines() or [""]
    assert (run.returncode, last) == (0, "done"), f"{last}\n{run.stderr[-2000:]}"


TILES = "tensor<{}xf16, {}#ttg.amd_wmma<{{version = 1, ctaLayout = {{{}}}{}}}>{}>"
SLICE = "#ttg.slice<{dim = 0, parent = "


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("16x16", "", "", "", ""), ("16x16", "", "warp = []", "", "")),
        (("16x16x16", "", "", "", ""), ("16x16x16", "", "warp = []", ", rank = 3", "")),
        (("16x16", SLICE, "", "", "}>"), ("16x16", SLICE, "warp = []", ", rank = 3", "}>")),
        (
            ("16x16", SLICE, "register = [[0, 1]]", "", "}>"),
            ("16x16", SLICE, "warp = [], register = [[0, 1]]", "", "}>"),
        ),
        (("4x4x4", "", "warp = [[1, 0, 0]]", "", ""), ("4x4x4", "", "warp = [[1, 0, 0]]", ", rank = 3", "")),
        (
            ("4x4x4", "", "", ", CGALayout = [[1, 0, 0]]", ""),
            ("4x4x4", "", "warp = []", ", CGALayout = [[1, 0, 0]], rank = 3", ""),
        ),
    ],
)
def test_what_triton_does_not_print_is_written(given: tuple[str, ...], expected: tuple[str, ...]) -> None:
    text = bridge.readable(TILES.format(*given))
    assert text == TILES.format(*expected)
    assert bridge.readable(text) == text
