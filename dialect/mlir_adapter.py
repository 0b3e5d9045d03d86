"""Upstream MLIR's Python bindings as this project uses them.

Names that drift between versions of the bindings, and the two calls into MLIR's C API, are here and nowhere
else. The bindings carry no type marker that type checkers accept, so what is imported here is untyped.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from mlir._mlir_libs import _mlir  # type: ignore[import-untyped, unused-ignore]
from mlir.dialects import irdl  # type: ignore[import-untyped, unused-ignore]
from mlir.ir import (  # type: ignore[import-untyped, unused-ignore]
    ArrayAttr,
    Attribute,
    Block,
    Context,
    DenseElementsAttr,
    FlatSymbolRefAttr,
    InsertionPoint,
    IntegerAttr,
    Location,
    MLIRError,
    Module,
    OpaqueAttr,
    OpaqueType,
    Operation,
    RankedTensorType,
    StringAttr,
    Type,
    UnitAttr,
    Value,
    WalkOrder,
    WalkResult,
)
from mlir.passmanager import PassManager  # type: ignore[import-untyped, unused-ignore]

__all__ = [
    "ArrayAttr",
    "Attribute",
    "Block",
    "Context",
    "DenseElementsAttr",
    "FlatSymbolRefAttr",
    "InsertionPoint",
    "IntegerAttr",
    "Location",
    "MLIRError",
    "Module",
    "OpaqueAttr",
    "OpaqueType",
    "Operation",
    "PassManager",
    "RankedTensorType",
    "StringAttr",
    "Type",
    "UnitAttr",
    "Value",
    "block_arguments",
    "load_irdl",
    "new_context",
    "operations",
]


def _go_without_views(*dialects: str) -> None:
    """Let operations of these dialects have no Python classes of their own, and the bindings know that.

    Whenever they show an operation, they import the module of its dialect, which is to have its class. If there
    is none they look for it again each time, which takes longer than all the rest.
    """
    for dialect in dialects:
        sys.modules[f"{__name__}.{dialect}"] = ModuleType(f"{__name__}.{dialect}")
    _mlir.globals.append_dialect_search_prefix(__name__)


_go_without_views("tt", "ttg", "ttng", "amdg", "nvws", "gluon", "proton")


def new_context() -> Context:
    """A context that knows the builtin dialect only and takes every other as it stands.

    Operations of unknown dialects keep all they carry through parsing and printing, whatever version of
    MLIR wrote them. The bindings' own constructor would register and load every upstream dialect.
    """
    context = _mlir.ir._Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = True
    return context


class _Handle(ctypes.Structure):
    """MLIR's C API passes contexts and dialect handles as a struct of one pointer."""

    _fields_ = (("pointer", ctypes.c_void_p),)


def _pointer(capsule: Any) -> _Handle:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Handle(pointer(capsule, name(capsule)))


def load_irdl(context: Context, text: str) -> None:
    """Define the dialects that `text` describes in IRDL in `context`; each may be defined there once."""
    library = ctypes.CDLL(_mlir.__file__)  # finds the C API among the libraries that the bindings link
    try:
        handle, load = library.mlirGetDialectHandle__irdl__, library.mlirDialectHandleLoadDialect
    except AttributeError as error:
        raise ImportError(
            f"load_irdl: {_mlir.__file__} does not export MLIR's C API; install xtc-mlir-python-bindings "
            "or LLVM's own wheels"
        ) from error
    handle.restype, handle.argtypes = _Handle, []
    load.restype, load.argtypes = _Handle, [_Handle, _Handle]
    load(handle(), _pointer(context._CAPIPtr))
    irdl.load_dialects(Module.parse(text, context))


def operations(root: Operation) -> list[Operation]:
    """`root` and every operation inside it, outermost first, in the order they are written."""
    found: list[Operation] = []

    def visit(op: Operation) -> WalkResult:
        found.append(op)
        return WalkResult.ADVANCE

    root.walk(visit, WalkOrder.PRE_ORDER)
    return found


def producers_of(ops: Iterable[Operation]) -> dict[Value, Operation]:
    """The operation behind each result of `ops`.

    Asking the bindings for the owner of a value makes them look for a Python class of its operation, which is
    slow.
    """
    return {result: op for op in ops for result in op.results}


def block_arguments(op: Operation) -> Iterator[Value]:
    """The arguments of every block of every region of `op`, in order."""
    regions = op.regions
    if len(regions):  # most operations have none, and iterating costs more than asking
        for region in regions:
            for block in region.blocks:
                yield from block.arguments
