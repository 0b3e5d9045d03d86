"""What the region of a reduction is known to do."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation

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


def rounds(reduction: Operation) -> bool:
    """Whether the region computes with floats, so that another order of its elements is another result."""
    (block,) = reduction.regions[0].blocks
    inside = [view.operation for view in block.operations]
    return any(
        op.name not in EXACT and any(str(result.type).startswith(("f", "bf")) for result in op.results)
        for op in inside
    )
