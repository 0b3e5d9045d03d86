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


@pytest.mark.parametrize("fields", ["version = 1, ctaLayout = {}", "version = 2, warpsPerCTA = [2, 2]"])
def test_what_ends_the_process_of_triton_is_not_given_to_it(fields: str) -> None:
    with pytest.raises(bridge.BridgeError, match=r"#ttg\.amd_wmma is an encoding of GPUs that are left"):
        bridge.readable(f"tensor<16x16xf16, #ttg.amd_wmma<{{{fields}, isTranspose = true}}>>")
