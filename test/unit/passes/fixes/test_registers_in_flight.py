"""Machine code of kernels: what products in flight read and write is left alone until they are waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
from machine_code import shown
from plugin_support import CUDA
from registers_in_flight import touched

import triton_linear
from triton_linear.dialect.triton_versions import installed_release

pytestmark = pytest.mark.usefixtures("fresh")

DATA = Path(__file__).parents[3] / "data" / "ttgir"
KERNELS = sorted(path for path in DATA.rglob("*.ttgir") if "ttng.warp_group_dot " in path.read_text())
MIXED = DATA / "kernels" / "matmul_mixed.ttgir"
LOWER = {"assign": False, "occupancy": False}


@pytest.mark.parametrize(
    ("path", "options"),
    [pytest.param(path, (LOWER, {})[number % 2], id=path.stem) for number, path in enumerate(KERNELS[::3])],
)
def test_nothing_touches_them(path: Path, options: dict[str, Any]) -> None:
    with triton_linear.enabled(strict=True, **options):
        made = triton.compile(str(path), target=CUDA)
    text = shown(made.asm["cubin"], "-c")
    assert "GMMA" in text and not touched(text)


@pytest.mark.skipif(installed_release() >= (3, 9), reason="ptxas leaves the copies of operands where they are")
def test_stock_triton_overwrites_operands() -> None:
    assert touched(shown(triton.compile(str(MIXED), target=CUDA).asm["cubin"], "-c"))


LOOP = """
.L_x_0:
        /*0010*/                   LDS R8, [R3] ;
        /*0020*/                   WARPGROUP.ARRIVE ;
        /*0030*/                   HGMMA.64x16x16.F32 R24, R8, gdesc[UR4], R24, gsb0 ;
        /*0040*/                   WARPGROUP.DEPBAR.LE gsb0, {left} ;
        /*0050*/              @!P0 BRA `(.L_x_0) ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/                   FADD R1, R{used}, R2 ;
"""


@pytest.mark.parametrize(("left", "expected"), [("0x0", []), ("0x1", ["LDS R8, [R3] "])])
def test_operands_that_are_written_in_flight_are_found(left: str, expected: list[str]) -> None:
    assert touched(LOOP.format(left=left, used=31)) == expected


def test_accumulators_that_are_read_before_the_wait_are_found() -> None:
    lines = LOOP.format(left="0x1", used=31).splitlines()
    swapped = [*lines[:-2], lines[-1], lines[-2]]
    assert touched("\n".join(swapped)) == ["FADD R1, R31, R2 ", "LDS R8, [R3] "]
    other = [line.replace("R31", "R32") for line in swapped]
    assert touched("\n".join(other)) == ["LDS R8, [R3] "]


def test_all_products_of_a_group_are_in_flight_until_it_is_waited_for() -> None:
    """`gsb0` stands at the last of a group; each of both operands is found."""
    product = "        /*0030*/                   HGMMA.64x16x16.F32 R24, R8, gdesc[UR4], R24, gsb0 ;"
    first = product.replace("R8", "R12").replace(", gsb0", "")
    lines = LOOP.format(left="0x1", used=31).replace(product, f"{first}\n{product}")
    assert touched(lines) == ["LDS R8, [R3] "]
    assert touched(lines.replace("LDS R8", "LDS R12")) == ["LDS R12, [R3] "]
    assert touched(lines.replace("LDS R8", "LDS R16")) == []
