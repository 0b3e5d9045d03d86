"""Clocks of an SM that one warp takes for an elementwise operation on one register of each lane.

Measured on an H200 by `python -m bench.elementwise` (bench/results/3.9.0/elementwise.json), beside additions
and multiplications of 32-bit floats, whose rate `Costs.float_alu` has from the CUDA programming guide. What is
of libdevice (logarithms, sines, `erf`, `tanh`, precise division) takes a sequence of instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.target.targets import InstructionCosts

_ELEMENTWISE = frozenset(
    {
        "tt.addptr",
        "tt.approx_divf",
        "tt.bitcast",
        "tt.clampf",
        "tt.extern_elementwise",
        "tt.fp_to_fp",
        "tt.int_to_ptr",
        "tt.mulhiui",
        "tt.precise_divf",
        "tt.precise_sqrt",
        "tt.ptr_to_int",
    }
)
# Operations without tensors as operands.
_SOURCES = frozenset({"arith.constant", "tt.make_range", "tt.splat"})
_CASTS = frozenset(
    {
        "arith.extf",
        "arith.extsi",
        "arith.extui",
        "arith.fptosi",
        "arith.fptoui",
        "arith.sitofp",
        "arith.truncf",
        "arith.trunci",
        "arith.uitofp",
        "tt.fp_to_fp",
    }
)
_FREE = frozenset({"arith.constant", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.bitcast"})
_DIVISION = frozenset({"arith.divsi", "arith.divui", "arith.remsi", "arith.remui"})
_CLOCKS: Mapping[str, float] = {
    "arith.divf": 2.3,
    "arith.maxnumf": 0.3,
    "arith.minnumf": 0.3,
    "math.exp": 2.1,
    "math.exp2": 2.1,
    "math.log": 7.0,
    "math.log2": 7.5,
    "math.sqrt": 2.1,
    "math.rsqrt": 2.1,
    "math.erf": 8.3,
    "math.tanh": 4.9,
    "math.sin": 10.0,
    "math.cos": 10.6,
    "tt.approx_divf": 2.1,
    "tt.precise_divf": 12.1,
    "tt.precise_sqrt": 3.4,
    "tt.mulhiui": 1.2,
    "tt.extern_elementwise": 4.9,  # that of `tanh`; which function it is does not count
    # LLVM computes most of these once for the addresses of several neighbours.
    "arith.addi": 0.2,
    "arith.muli": 0.2,
    "arith.cmpi": 0.2,
    "arith.andi": 0.2,
    "tt.addptr": 0.2,
}
_FLOATS = frozenset({"arith.addf", "arith.subf", "arith.mulf"})
_OTHER_CLOCKS = 0.4


def is_elementwise(name: str) -> bool:
    """True if an operation computes each element of its results from the same element of its operands, and
    nothing else about it depends on the layout."""
    return name.startswith(("arith.", "math.")) or name in _ELEMENTWISE or name in _SOURCES


def is_cast(name: str) -> bool:
    """True if an elementwise operation only changes the element type, or compares and gives a mask."""
    return name in _CASTS or name in ("arith.cmpi", "arith.cmpf")


def of(op: Operation, bits: int, costs: InstructionCosts) -> float:
    """Clocks of an operation on one register of each lane; its widest element has `bits` bits."""
    name = op.name
    if name in _FREE:
        return 0.0
    double = 2.0 if bits > 32 else 1.0
    if name in _DIVISION:
        return (2.5 if _is_by_constant(op) else 6.0) * (7.0 if bits > 32 else 1.0)
    return (costs.float_alu if name in _FLOATS else _CLOCKS.get(name, _OTHER_CLOCKS)) * double


def _is_by_constant(op: Operation) -> bool:
    owner = op.operands[1].owner
    return not hasattr(owner, "arguments") and getattr(owner, "name", "") == "arith.constant"


def of_region(op: Operation, costs: InstructionCosts) -> float:
    """Clocks that the region of a reduction takes to combine two elements."""
    clocks = 0.0
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                operation = inner.operation
                if operation.name.startswith(("arith.", "math.")):
                    clocks += of(operation, 32, costs)
    return clocks
