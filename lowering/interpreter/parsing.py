"""What runs of functions share: how text is parsed, the handlers of operations, where shared memory begins."""

from __future__ import annotations

import re

from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter import amd, assembly, casts, lanes, ops, shared_memory
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.shared_memory import BARRIER_OF_SOME

HANDLERS = {
    **ops.OPERATIONS,
    **casts.OPERATIONS,
    **lanes.OPERATIONS,
    **shared_memory.OPERATIONS,
    **amd.OPERATIONS,
    **assembly.OPERATIONS,
}

# Scratch starts where an allocator may put it: aligned to the widest access and to nothing more.
SHARED_BASE = 1040


def interpreter_context() -> ir.Context:
    """A context with the dialects of emitted code alone, and without threads, which would not pay."""
    context = ir.Context(load_on_create_dialects=["gpu", "llvm", "nvvm", "rocdl"])
    context.enable_multithreading(False)
    return context


_SPELLINGS = {
    # MLIR parses a location behind `nvvm.barrier` as an operand.
    "nvvm.barrier loc(": "nvvm.barrier0 loc(",
    # For threads that may have diverged, which makes no difference in lockstep.
    "nvvm.barrier {aligned = false} loc(": "nvvm.barrier0 loc(",
    # Newer than the bindings.
    "rocdl.wave.barrier loc(": 'llvm.call_intrinsic "llvm.amdgcn.wave.barrier"() : () -> () loc(',
}
"""The bindings' spellings of operations that newer releases of Triton print in another way."""

_BARRIER_OF_SOME = re.compile(r"nvvm\.barrier id = (%\w+) number_of_threads = (%\w+)(?= loc\()")
_NO_RESULT = re.compile(r"%\w+ = (llvm\.call_intrinsic [^\n]*) -> !llvm\.void")


def parsed(text: str) -> ir.Module:
    """Parse a module as Triton prints it."""
    for printed, known in _SPELLINGS.items():
        text = text.replace(printed, known)
    some = rf'llvm.call_intrinsic "{BARRIER_OF_SOME}"(\1, \2) : (i32, i32) -> ()'
    text = _NO_RESULT.sub(r"\1 -> ()", _BARRIER_OF_SOME.sub(some, text))
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise SimulationError(f"the function does not parse: {error}") from None


def place_of(op: ir.Operation) -> str:
    """Line and column in the function's text, or the place in a file that its location names."""
    found = re.search(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)', str(op.location))
    if found is None:
        return str(op.location)
    return f"{found[2]}:{found[3]}" if found[1] == "-" else f"{found[1]}:{found[2]}:{found[3]}"
