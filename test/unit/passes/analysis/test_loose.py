"""Conversions of bytes that arithmetic has one to a register: whose they are, and what stubs of them say."""

from __future__ import annotations

import pytest
from loose_kernels import module

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.plan.stubs import ConversionStub
from triton_linear.lowering.target.policy import UNBOUNDED
from triton_linear.lowering.target.targets import target
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import REGISTERS, stubs_of
from triton_linear.passes.framework.plans import Plans
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


@pytest.mark.parametrize(("policy", "left"), [("", True), ("{loose_shuffles=1000}", False)])
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


# What stubs say


def marks(root: Module, gpu: str = "cuda:90") -> set[str]:
    """What the stub of the only conversion says of registers."""
    assert run_passes(root, [SelectLowering(gpu), OutlineConversions()]).succeeded
    (stub,) = [op for op in operations(root.operation) if ll.PLAN in op.attributes]
    return {name for name in REGISTERS if name in stub.attributes}


def test_bytes_of_arithmetic_are_loose() -> None:
    assert ll.LOOSE in marks(module("i8"))
    assert ll.LOOSE in marks(module("i8", beside=""))
    assert ll.LOOSE in marks(module("i8", source="%a"))  # carried, and made by arithmetic


def test_bytes_for_arithmetic_are_unpacked() -> None:
    assert marks(module("i8")) == {ll.LOOSE, ll.UNPACKS}
    assert marks(module("i8", source="%x")) == {ll.UNPACKS}
    assert ll.UNPACKS not in marks(module("i8", stored="%c"))


def test_others_are_not() -> None:
    assert ll.LOOSE not in marks(module("i8", source="%x"))
    for root in (module("i1", beside=""), module("i16"), module("i32")):
        assert not marks(root)


def test_a_stub_that_is_read_says_what_it_said() -> None:
    root = module("i8")
    marks(root)
    (stub,) = stubs_of(operations(root.operation), target("cuda:90"), Plans()).values()
    assert isinstance(stub, ConversionStub)
    assert (stub.accumulators, stub.loose, stub.unpacks) == (False, True, True)
