"""The adapter to upstream MLIR's Python bindings.

Only this file uses names that change between versions of the bindings, and only it calls MLIR's C API. The
bindings have no type marker that type checkers accept, so everything imported from them is untyped.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from triton_linear.dialect import mlir_provider

with mlir_provider.unsupported_on_failure():
    # Imported from the extension modules, because `mlir.ir` and `mlir.dialects` import numpy. That takes as
    # long as importing the bindings, and serves only constructors of attributes that this package does not
    # use.
    from mlir._mlir_libs import _mlir  # type: ignore[import-untyped, unused-ignore]
    from mlir._mlir_libs._mlir.ir import (  # type: ignore[import-untyped, unused-ignore]
        ArrayAttr,
        Attribute,
        Block,
        Context,
        DenseElementsAttr,
        DenseI64ArrayAttr,
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
    "DenseI64ArrayAttr",
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
_UPSTREAM = ("arith", "builtin", "cf", "gpu", "llvm", "math", "nvvm", "rocdl", "scf", "ub")
"""Upstream dialects that Triton's modules use. Passes access their operations by name, without Python
classes."""


def _disable_views(*dialects: str) -> None:
    """Tell the bindings that operations of these dialects have no Python classes.

    Whenever the bindings return an operation, they import the module of its dialect to find the operation's
    class. If there is no such module they search for it each time, which takes longer than everything else;
    and the modules of upstream dialects take tens of milliseconds to import. So each dialect gets an empty
    module.
    """
    for dialect in dialects:
        sys.modules[f"{__name__}.{dialect}"] = ModuleType(f"{__name__}.{dialect}")
    _mlir.globals.dialect_search_modules = [__name__, *_mlir.globals.dialect_search_modules]


_disable_views(*_OURS_AND_TRITONS, *_UPSTREAM)


def import_views(root: Operation) -> None:
    """Import upstream's Python classes for the operations in `root`.

    A user's pass then sees operations of the same classes as it would without this package.
    """
    importlib.import_module(_IR)
    for dialect in sorted({op.name.split(".")[0] for op in operations(root)} & set(_UPSTREAM)):
        importlib.import_module(f"mlir.dialects.{dialect}")


def new_context() -> Context:
    """A context that has only the builtin dialect and accepts operations of unregistered dialects.

    Parsing and printing such operations loses nothing, whichever version of MLIR printed them. The bindings'
    own constructor would register and load every upstream dialect.
    """
    context = _mlir.ir._Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = True
    return context


def load_upstream(context: Context, dialects: Iterable[str]) -> None:
    """Load upstream dialects into a context, for passes that need the traits and interfaces of operations."""
    registry = DialectRegistry()
    importlib.import_module("mlir._mlir_libs._mlirRegisterEverything").register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in dialects:
        _ = context.dialects[dialect]  # the access loads it


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
    """Define in `context` the dialects that `text` describes in IRDL.

    Requires: none of them is defined in `context` yet.
    """
    handle, load = _loader_of_irdl()
    load(handle(), _pointer(context._CAPIPtr))
    load_dialects(Module.parse(text, context))


@functools.cache
def _loader_of_irdl() -> tuple[Any, Any]:
    """The functions of the C API that give the handle of the dialect IRDL, and load a dialect."""
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
    return handle, load


def operations(root: Operation) -> list[Operation]:
    """`root` and every operation inside it, in pre-order, which is the order of the text."""
    visited: list[Operation] = []
    append = visited.append
    try:
        root.walk(lambda op: append(op) or WalkResult.ADVANCE, WalkOrder.PRE_ORDER)
    except RuntimeError as error:  # the bindings turn every exception of a walk into one, Ctrl-C too
        if "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error
        raise
    return visited


def text_of(op: Operation, **options: bool) -> str:
    """The text that `op.get_asm(**options)` returns, several times as fast.

    The bindings call Python for each token if they write to a Python object, but not if they write to a file;
    so this writes to a file in memory. LLVM ends the process if a write fails, so if the process has a limit
    on file sizes, `get_asm` is used.
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
    """The operation that produces each result of `ops`.

    `value.owner` would be slow: the bindings search for a Python class of the operation.
    """
    return {result: op for op in ops for result in op.results}


def block_arguments(op: Operation) -> Iterator[Value]:
    """The arguments of every block of every region of `op`, in order."""
    regions = op.regions
    if len(regions):  # most operations have none, and `len` is faster than an empty iteration
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


def _check_bindings() -> None:
    """Raise ImportError unless the bindings preserve unregistered operations and an attribute defined in IRDL,
    and run a Python pass.
    """
    context = new_context()
    load_irdl(context, _DIALECT)
    module = Module.parse(f'"builtin.module"() ({{\n{_OPERATIONS}}}) : () -> () loc(unknown)', context)
    seen: list[str] = []
    manager = PassManager("builtin.module", context)
    manager.add(lambda op, pass_: seen.extend(inner.name for inner in operations(op)), name="walk")
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
    """Make `mlir.ir` name the extension module during the first Python pass.

    At that pass the bindings import `mlir.ir` and keep it. The extension module suffices for them, and does not
    import numpy. Afterwards `import mlir.ir` gives users the full module again.
    """
    if _IR in sys.modules:
        yield
        return
    sys.modules[_IR] = _mlir.ir
    try:
        yield
    finally:
        del sys.modules[_IR]


with mlir_provider.unsupported_on_failure(), _extension_as_ir():
    _check_bindings()
