"""What the region of a reduction is known to do."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, installed_release

REDUCE, SCAN = "tt.reduce", "tt.scan"
BESIDE_SCAN = "beside a scan, at whose barriers the warps meet anyway, it would take longer"

COMMUTATIVE = frozenset(
    {
        "arith.addf",
        "arith.addi",
        "arith.andi",
        "arith.maximumf",
        "arith.maxnumf",
        "arith.maxsi",
        "arith.maxui",
        "arith.minimumf",
        "arith.minnumf",
        "arith.minsi",
        "arith.minui",
        "arith.mulf",
        "arith.muli",
        "arith.ori",
        "arith.xori",
    }
)
"""Operations whose result does not depend on the order of the two operands, NaNs apart."""

EXACT = frozenset(
    {
        "arith.bitcast",
        "arith.constant",
        "arith.extf",
        "arith.maximumf",
        "arith.maxnumf",
        "arith.minimumf",
        "arith.minnumf",
        "arith.negf",
        "arith.select",
        "math.absf",
    }
)
"""Operations that give floats and round none."""


def commutes(reduction: Operation) -> bool:
    """Whether the region gives the same bits (NaNs apart) whichever of two elements comes first: each result is
    one commutative operation of the two elements of its operand.

    Lanes that combine by shuffles have their own element first. Where the region does not commute, what they
    have in the end differs in rounding, or in which of two equals was chosen.
    """
    (block,) = reduction.regions[0].blocks
    arguments = list(block.arguments)
    half = len(arguments) // 2
    inside = [view.operation for view in block.operations]
    makers = {result: op for op in inside for result in op.results}
    for index, value in enumerate(inside[-1].operands):
        maker = makers.get(value)
        if maker is None or maker.name not in COMMUTATIVE:
            return False
        if set(maker.operands) != {arguments[index], arguments[half + index]}:
            return False
    return True


_ASSOCIATIVE = frozenset(name for name in COMMUTATIVE if name.endswith("i"))
"""Those of integers: they are associative as well, additions and multiplications because they wrap around."""
_EXTREMES = frozenset({"arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf"})
_CANONICAL = frozenset({"bf16", "f16", "f32"})
"""Floats of which NVIDIA's `min` and `max` give one NaN, whatever NaN they take, and have -0 below +0 (PTX ISA,
`min` and `max`)."""
_PROMISES = ("fastmath", "overflowFlags")


def is_order_free(reduction: Operation, nvidia: bool) -> bool:
    """Whether the region gives the same bits in whatever order it combines the elements, NaNs and the signs of
    zeros included: each result is one operation, commutative and associative, of the two elements of its
    operand.

    On AMD GPUs a signalling NaN becomes a quiet one and is then passed over, so extremes of floats depend on
    the order. So does what chooses by comparing floats: a comparison with a NaN is false both ways round, and
    zeros of both signs are equal.
    """
    if not commutes(reduction):
        return False
    (block,) = reduction.regions[0].blocks
    makers = {result: view.operation for view in block.operations for result in view.operation.results}
    for value in block.operations[len(block.operations) - 1].operation.operands:
        maker = makers[value]
        exact = maker.name in _ASSOCIATIVE or (
            nvidia and maker.name in _EXTREMES and str(value.type) in _CANONICAL
        )
        if not exact or any(_promises(maker, name) for name in _PROMISES):
            return False
    return True


def _promises(op: Operation, name: str) -> bool:
    """Whether an operation promises something of what it takes, which partial results need not keep."""
    return name in op.attributes and not str(op.attributes[name]).endswith("<none>")


def must_stay(reduction: Operation) -> str | None:
    """Why results would differ if a reduction were taken apart, None if they would not."""
    if installed_release() in REDUCTIONS_CONVERT and not commutes(reduction) and rounds(reduction):
        return "lanes that combine in different orders keep different copies with this Triton"
    return None


def rounds(reduction: Operation) -> bool:
    """Whether the region computes with floats, so that another order of its elements is another result."""
    (block,) = reduction.regions[0].blocks
    inside = [view.operation for view in block.operations]
    return any(
        op.name not in EXACT and any(str(result.type).startswith(("f", "bf")) for result in op.results)
        for op in inside
    )
