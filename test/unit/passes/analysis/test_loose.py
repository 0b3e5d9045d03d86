"""Conversions of bytes that arithmetic has one to a register: what stubs of them say."""

from __future__ import annotations

from loose_kernels import module

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import REGISTERS, stubs_of
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.run import run_passes


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
    assert (stub.accumulators, stub.loose, stub.unpacks) == (False, True, True)
