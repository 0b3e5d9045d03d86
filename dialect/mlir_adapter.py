"""Upstream MLIR's Python bindings as this project uses them.

Names that drift between versions of the bindings, and the two calls into MLIR's C API, are here and nowhere
else. The bindings carry no type marker that type checkers accept, so what is imported here is untyped.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from triton_linear.dialect import mlir_provider

with mlir_provider.serving():
    # Of the extension modules: `mlir.ir` and `mlir.dialects` import numpy, which takes as long as the bindings
    # themselves, for a few ways to build attributes that this package has no use for.
    from mlir._mlir_libs import _mlir  # type: ignore[import-untyped, unused-ignore]
    from mlir._mlir_libs._mlir.ir import (  # type: ignore[import-untyped, unused-ignore]
        ArrayAttr,
        Attribute,
        Block,
        Context,
        DenseElementsAttr,
        DialectRegistry,
        FlatSymbolRefAttr,
        FloatAttr,
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
        TypeAttr,
        UnitAttr,
        Value,
        WalkOrder,
        WalkResult,
    )
    from mlir._mlir_libs._mlir.passmanager import PassManager  # type: ignore[import-untyped, unused-ignore]
    from mlir._mlir_libs._mlirDialectsIRDL import (  # type: ignore[import-untyped, unused-ignore]
        load_dialects,
    )

__all__ = [
    "ArrayAttr",
    "Attribute",
    "Block",
    "Context",
    "DenseElementsAttr",
    "FlatSymbolRefAttr",
    "FloatAttr",
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
    "TypeAttr",
    "UnitAttr",
    "Value",
    "block_arguments",
    "import_views",
    "load_irdl",
    "load_upstream",
    "new_context",
    "operations",
    "text_of",
]


_IR = "mlir.ir"
_OURS_AND_TRITONS = ("ll", "tt", "ttg", "ttng", "amdg", "nvws", "gluon", "proton")
_UPSTREAM = ("arith", "builtin", "cf", "gpu", "math", "scf", "ub")
"""Dialects of upstream's own in Triton's modules. Passes look at their operations as at any other."""


def _go_without_views(*dialects: str) -> None:
    """Let operations of these dialects have no Python classes of their own, and the bindings know that.

    Whenever they show an operation, they import the module of its dialect, which is to have its class. If there
    is none they look for it again each time, which takes longer than all the rest; and upstream's own take
    tens of milliseconds to import.
    """
    for dialect in dialects:
        sys.modules[f"{__name__}.{dialect}"] = ModuleType(f"{__name__}.{dialect}")
    _mlir.globals.dialect_search_modules = [__name__, *_mlir.globals.dialect_search_modules]


_go_without_views(*_OURS_AND_TRITONS, *_UPSTREAM)


def import_views(root: Operation) -> None:
    """Let operations of the dialects in `root` have the Python classes that upstream has for them.

    A user's pass sees them as where it runs without this package, whatever it imports itself.
    """
    importlib.import_module(_IR)
    for dialect in sorted({op.name.split(".")[0] for op in operations(root)} & set(_UPSTREAM)):
        importlib.import_module(f"mlir.dialects.{dialect}")


def new_context() -> Context:
    """A context that knows the builtin dialect only and takes every other as it stands.

    Operations of unknown dialects keep all they carry through parsing and printing, whatever version of
    MLIR wrote them. The bindings' own constructor would register and load every upstream dialect.
    """
    context = _mlir.ir._Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = True
    return context


def load_upstream(context: Context, dialects: Iterable[str]) -> None:
    """Let a context know these dialects of upstream's own, for passes that ask what an operation does."""
    registry = DialectRegistry()
    importlib.import_module("mlir._mlir_libs._mlirRegisterEverything").register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in dialects:
        _ = context.dialects[dialect]  # which loads it


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
    load_dialects(Module.parse(text, context))


def operations(root: Operation) -> list[Operation]:
    """`root` and every operation inside it, outermost first, in the order they are written."""
    found: list[Operation] = []

    def visit(op: Operation) -> WalkResult:
        found.append(op)
        return WalkResult.ADVANCE

    try:
        root.walk(visit, WalkOrder.PRE_ORDER)
    except RuntimeError as error:  # the bindings make one of whatever is raised in there, a user's Ctrl-C too
        if "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error
        raise
    return found


def text_of(op: Operation, **options: bool) -> str:
    """What `op.get_asm` gives, and several times as fast.

    To a Python object the bindings write token by token; to a file they write by themselves. This one is in
    memory. LLVM ends the process where it cannot write, so it is not used where files must not grow.
    """
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        return str(op.get_asm(**options))
    descriptor = os.memfd_create("operation.mlir")
    try:
        op.print(file=f"/proc/self/fd/{descriptor}", **options)
        text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()
    finally:
        os.close(descriptor)
    return text


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


_DIALECT = """irdl.dialect @mlir_provider_check {
  irdl.attribute @a {
    %0 = irdl.any
    irdl.parameters(value: %0)
  }
}"""
_OPERATIONS = """
  %0 = "tt.x"() <{p = #tt.a<{b = 1}>, q = #mlir_provider_check.a<"c">}> : () -> !tt.t<"#d"> loc("f":1:2)
  "tt.y"(%0) : (!tt.t<"#d">) -> () loc("n"("f":3:4))
"""


def _try_out() -> None:
    """Raise unless a module with operations nobody knows, and an attribute defined in IRDL, goes through a pass
    and comes back as it was.
    """
    context = new_context()
    load_irdl(context, _DIALECT)
    module = Module.parse(f'"builtin.module"() ({{\n{_OPERATIONS}}}) : () -> () loc(unknown)', context)
    seen: list[str] = []
    manager = PassManager("builtin.module", context)
    manager.add(lambda op, pass_: seen.extend(one.name for one in operations(op)), name="walk")
    manager.run(module.operation)
    if seen != ["builtin.module", "tt.x", "tt.y"]:
        raise ImportError(f"a walk found {', '.join(seen)}")
    text = text_of(module.operation.clone(), print_generic_op_form=True, enable_debug_info=True)
    if (
        text_of(Module.parse(text, context).operation, print_generic_op_form=True, enable_debug_info=True)
        != text
    ):
        raise ImportError("a module is not printed as it was parsed")
    for part in ("#tt.a<{b = 1}>", '#mlir_provider_check.a<"c">', '!tt.t<"#d">', '"f":3:4'):
        if part not in text:
            raise ImportError(f"{part} was lost in printing")


@contextmanager
def _extension_as_ir() -> Iterator[None]:
    """Let the module that the bindings hand operations to passes from be the extension module behind `mlir.ir`.

    They import one of that name at the first pass and keep it. What it adds to the extension is for those who
    import it, as they do.
    """
    if _IR in sys.modules:
        yield
        return
    sys.modules[_IR] = _mlir.ir
    try:
        yield
    finally:
        del sys.modules[_IR]


with mlir_provider.serving(), _extension_as_ir():
    _try_out()
