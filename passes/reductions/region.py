"""Properties of the region of a reduction: commutative, independent of the order, rounding."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, Release
from triton_linear.passes.analysis.flow import terminator
from triton_linear.passes.operations.table import named


def commutes(reduction: Operation) -> bool:
    """True if the region gives the same bits (except for NaNs) in either order of its two elements: each result
    is one commutative operation on the two elements of its operand.

    Lanes that combine by shuffles have their own element first. If the region does not commute, the results of
    lanes differ in rounding, or in which of two equal elements was chosen.
    """
    (block,) = reduction.regions[0].blocks
    arguments = list(block.arguments)
    half = len(arguments) // 2
    inside = [view.operation for view in block.operations]
    makers = {result: op for op in inside for result in op.results}
    for index, value in enumerate(inside[-1].operands):
        maker = makers.get(value)
        if maker is None or not named(maker.name).commutes:
            return False
        if set(maker.operands) != {arguments[index], arguments[half + index]}:
            return False
    return True


_CANONICAL = frozenset({"bf16", "f16", "f32"})
"""Floats for which NVIDIA's `min` and `max` give the same NaN for every NaN operand, and order -0 below +0 (PTX
ISA, `min` and `max`)."""
_FLAGS = ("fastmath", "overflowFlags")


def is_order_free(reduction: Operation, nvidia: bool) -> bool:
    """True if the region gives the same bits in every order of the elements, NaNs and signs of zeros included:
    each result is one commutative and associative operation on the two elements of its operand.

    On AMD GPUs, extremes of floats depend on the order: a signalling NaN becomes a quiet one, which is then
    ignored. Selections by comparisons of floats depend on it everywhere: comparisons with a NaN are false in
    both orders, and zeros of both signs are equal.
    """
    if not commutes(reduction):
        return False
    (block,) = reduction.regions[0].blocks
    makers = {result: view.operation for view in block.operations for result in view.operation.results}
    for value in terminator(block).operands:
        maker = makers[value]
        known = named(maker.name)
        exact = known.associative or (nvidia and known.extreme and str(value.type) in _CANONICAL)
        if not exact or any(_has_flag(maker, name) for name in _FLAGS):
            return False
    return True


def _has_flag(op: Operation, name: str) -> bool:
    """True if an operation has a flag that promises something about its operands. Partial results in another
    order may break the promise."""
    return name in op.attributes and not str(op.attributes[name]).endswith("<none>")


def must_stay(reduction: Operation, release: Release) -> str | None:
    """Why a reduction must not be split across warps, as its results would differ with this release of Triton;
    None if they would not."""
    if release in REDUCTIONS_CONVERT and not commutes(reduction) and rounds(reduction):
        return "lanes that combine in different orders keep different copies with this Triton"
    return None


def rounds(reduction: Operation) -> bool:
    """True if the region computes with floats, so that the result depends on the order of the elements."""
    (block,) = reduction.regions[0].blocks
    inside = [view.operation for view in block.operations]
    return any(
        named(op.name).rounds and any(str(result.type).startswith(("f", "bf")) for result in op.results)
        for op in inside
    )
