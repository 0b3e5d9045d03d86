"""What `triton-linear headroom` says, of figures made up."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest
from headroom_support import made_up
from rich.console import Console

from triton_linear.tools.headroom import command as headroom
from triton_linear.tools.headroom import figures as headroom_figures
from triton_linear.tools.support.errors import ToolError


def test_figures_are_put_together() -> None:
    a, c, b = headroom_figures.kernels_of(made_up())
    assert (a.name, b.name, c.name) == ("matmul", "softmax", "add")
    assert (a.launches, a.microseconds, a.total, a.to_save) == (100, 10.0, 1000.0, 500.0)
    assert a.saved == pytest.approx(200.0)
    assert [(one.ours, one.left_out, one.headroom) for one in a.conversions] == [
        ("cta-shared", True, 1.6),
        ("triton", False, None),
    ]
    assert b.problems == {"free": "faulted"}
    total = headroom_figures.Sum.of([a, b, c])
    assert (total.total, total.known, total.to_save) == (1110.0, 1100.0, 500.0)


def test_what_is_noise_has_no_share() -> None:
    kernel = headroom_figures.TimedKernel("k", "k", (1, 1, 1), 4, 1, 1, 10.0, speedup=1.1, headroom=1.001)
    assert kernel.share is None


def test_the_table_and_the_sentence() -> None:
    kernels = headroom_figures.kernels_of(made_up())
    console = Console(width=160)
    with console.capture() as captured:
        console.print(headroom_figures.table_of(kernels, "some GPU", each=True))
    lines = [line.split() for line in captured.get().splitlines()]
    assert lines[4][:7] == ["matmul", "8x2x1", "100", "10.0", "1.250", "2.000", "40%"]
    text = captured.get()
    assert "1 cta-shared, 1 left; 1 not free" in text
    assert "k.py:3 64x32xf16" in text
    assert "1.600" in text
    assert "kept" in text
    assert "it leads to an address [x]" in text
    assert "free: faulted" in text
    assert headroom_figures.sentence(kernels) == (
        "3 kernels, 111 launches, 1.110 ms in stock Triton (1 kernel without all figures, 1% of the time): "
        "without its layout conversions it would be 45.5% less, and ours takes off 18.2%, 40% of what there is "
        "to take"
    )


def chosen(tmp_path: Path, **options: Any) -> Any:
    defaults = {"script": "s.py", "arguments": ["x"], "json": tmp_path / "figures.json", "conversions": False}
    return types.SimpleNamespace(**{**defaults, **options})


def test_json_has_what_the_table_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headroom.show(made_up(), 0, "some GPU", chosen(tmp_path)) == 0
    found = json.loads((tmp_path / "figures.json").read_text())
    assert (found["device"], found["command"]) == ("some GPU", ["s.py", "x"])
    first = found["kernels"][0]
    assert (first["kernel"], first["stock_over_free"], first["share_taken"]) == (
        "matmul",
        2.0,
        pytest.approx(0.4),
    )
    assert found["kernels"][2]["problems"] == {"free": "faulted"}
    assert found["microseconds"]["saved_if_conversions_were_free"] == 500.0
    assert "matmul" in capsys.readouterr().out


def test_a_program_that_fails_has_its_figures_and_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToolError, match="ended with status 3; the figures are for what it did before"):
        headroom.show(made_up(), 3, "some GPU", chosen(tmp_path))
    assert "matmul" in capsys.readouterr().out


@pytest.mark.parametrize(("status", "why"), [(0, "program ended without"), (1, "with status 1 without")])
def test_a_program_that_launches_nothing(tmp_path: Path, status: int, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        headroom.show([{"launches": {}}], status, "some GPU", chosen(tmp_path))
