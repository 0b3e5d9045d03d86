"""The bench of warp-specialised kernels, without a GPU: what it compiles, calls right and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import specialised
from triton_linear.dialect.triton_versions import installed_release

RAN: dict[str, Any] = {
    "name": "a kernel",
    "plans": {"shuffle": 2},
    "left": 0,
    "identical": False,
    "errors": {"stock": 0.5, "plugin": 0.01},
    "tolerance": 0.02,
    "times": {"stock": {"microseconds": 20.0}, "plugin": {"microseconds": 10.0, "ratio": [1.9, 2.0, 2.1]}},
}


@pytest.mark.skipif(installed_release() < (3, 9), reason="Triton before 3.9 specialises other loops")
def test_a_kernel_is_compiled_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dry", "cuda:90", "--only", "gluon_attention", "--output", str(tmp_path)]
    assert specialised.main(arguments) == 0
    (record,) = json.loads((tmp_path / "specialised_dry.json").read_text())["rows"]
    assert record["plans"] == {"shuffle": 1, "cta-shared": 2}
    assert record["left"] == 0
    # Exchanges of 32 KiB and of 512 bytes share none.
    assert record["shared"]["plugin"] == record["shared"]["stock"] + 512
    assert "gluon_attention" in capsys.readouterr().out


def test_only_right_results_and_conversions_of_ours_are_right() -> None:
    assert specialised.right(RAN)
    assert not specialised.right(RAN | {"left": 1})
    assert not specialised.right(RAN | {"errors": {"stock": 0.0, "plugin": 0.03}})
    assert not specialised.right(RAN | {"errors": {"stock": 0.0, "plugin": float("inf")}})
