"""Conversions of bytes that arithmetic leaves one to a register have stubs of their own."""

from __future__ import annotations

from loose_kernels import module

from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import LOOSE, UNPACKS
from triton_linear.passes.framework.run import run_passes


def called(root: Module, gpu: str = "cuda:90") -> str:
    """The stub of the only conversion."""
    assert run_passes(root, [SelectLowering(gpu), OutlineConversions()]).succeeded
    (call,) = [op for op in operations(root.operation) if op.name == "tt.call"]
    return str(call.attributes["callee"].value)


def test_bytes_of_arithmetic_are_loose() -> None:
    assert LOOSE in called(module("i8"))
    assert LOOSE in called(module("i8", beside=""))
    assert LOOSE in called(module("i8", source="%a"))  # carried, and made by arithmetic


def test_bytes_for_arithmetic_are_unpacked() -> None:
    assert called(module("i8")).endswith(LOOSE + UNPACKS)
    assert called(module("i8", source="%x")).endswith(UNPACKS)
    assert not called(module("i8", stored="%c")).endswith(UNPACKS)


def test_others_are_not() -> None:
    assert LOOSE not in called(module("i8", source="%x"))
    for root in (module("i1", beside=""), module("i16"), module("i32")):
        assert not called(root).strip("@").removeprefix("__ll_cvt_").strip("0123456789")
