"""Which conversions of bytes are Triton's because arithmetic has them one to a register."""

from __future__ import annotations

import pytest
from loose_kernels import module

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.target.policy import UNBOUNDED
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework.run import run_passes

LOOSE = "arithmetic has its predicates one to a register on both sides"


def reason(root: Module, gpu: str = "cuda:90") -> str:
    """Why the conversion is Triton's; empty if it is ours."""
    assert run_passes(root, [SelectLowering(gpu)]).succeeded
    (conversion,) = [op for op in operations(root.operation) if op.name == "ttg.convert_layout"]
    return conversion.attributes[ll.STOCK].value if ll.STOCK in conversion.attributes else ""


@pytest.mark.parametrize("source", ["%b", "%a", "%x"], ids=["made", "carried", "given"])
def test_bytes_of_arithmetic_beside_regions_are_tritons(source: str) -> None:
    """What a loop carries is what arithmetic makes of it in each iteration."""
    found = reason(module(source=source))
    assert (found.startswith(LOOSE) and found.endswith("instructions more")) is (source != "%x"), found


def test_the_policy_may_have_them_ours() -> None:
    assert reason(module(), f"cuda:90{{loose_shuffles={UNBOUNDED}}}") == ""


WARP = "#ttg.linear<{{register = {}, lane = {}, warp = [[64, 0], [128, 0]], block = []}}>"
"""256 rows of 32 bytes: of each warp four in a lane, or eight, in rows or columns."""
LANES = [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]]
IN_ROWS = WARP.format([[0, 1], [0, 2], [4, 0], [8, 0], [16, 0], [32, 0]], LANES)
IN_COLUMNS = WARP.format(
    [[4, 0], [8, 0], [0, 1], [16, 0], [32, 0], [1, 0]], [[0, 4], [0, 8], [0, 16], [0, 2], [2, 0]]
)


@pytest.mark.parametrize(
    ("policy", "left"),
    [("", True), ("{loose_shuffles=1000}", False)],
)
def test_shuffles_of_loose_bytes_are_tritons_where_they_take_a_quarter_more(policy: str, left: bool) -> None:
    root = module(layouts=(IN_ROWS, IN_COLUMNS), shape=(256, 32))
    assert reason(root, f"cuda:90{policy}").startswith(LOOSE) is left


@pytest.mark.parametrize(
    "root",
    [
        pytest.param({"beside": ""}, id="a kernel without regions"),
        pytest.param({"element": "i8"}, id="bytes, of which three permutes make a word"),
        pytest.param({"element": "i16"}, id="half-words"),
        pytest.param({"element": "i32"}, id="words"),
        pytest.param({"stored": "%c"}, id="stored as they come"),
    ],
)
def test_others_are_ours(root: dict[str, str]) -> None:
    assert reason(module(**root)) == ""
