"""`verify --lowering=stock` and what it has found: reproducers in `test/data/stock`."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_linear.tools.verify import stock
from triton_linear.tools.verify.stock import (
    FAILS,
    ILLEGAL,
    REFUSED,
    RIGHT,
    WRONG,
    check_conversions,
    layout_of_type,
    verify_stock,
)

DATA = Path(__file__).parents[2] / "data" / "stock"


def checked(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and what was printed."""
    status = verify_stock((DATA / name).read_text(), name, None, as_json=False)
    return status, capsys.readouterr().out


def test_wrong_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = checked("lanes.ttgir", capsys)
    assert status == 1
    assert "16 wrong of 32, 0 races" in out
    assert out.endswith(f"stock Triton, 1 conversion: 1 {WRONG}\n")


def test_wrong_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = checked("bytes.ttgir", capsys)
    assert status == 1
    assert "128 wrong of 256, 0 races" in out


def test_loads_out_of_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = checked("out_of_bounds.ttgir", capsys)
    assert status == 1
    assert f"{ILLEGAL}: conversion:3:10: llvm.load: load of 16 bytes by thread 1 at byte 16896" in out


def test_a_crash_and_a_hang_take_one_conversion_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock, "SECONDS", 10)
    status, out = checked("lanes_crash.ttgir", capsys)
    assert status == 1
    assert f"{FAILS}: " in out
    status, out = checked("lanes_endless.ttgir", capsys)
    assert status == 1
    assert "took more than 10 s" in out


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
