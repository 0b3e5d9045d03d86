"""What Triton's axis analysis is told of a row: no more than what `assignment.addressing` shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Attribute, Operation, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.addressing import Affine, Mask, divisor_of
from triton_linear.passes.analysis.widths import Bit

MOST_DIVISOR = 1 << 10
"""Divisors beyond this say nothing that Triton could use."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Of aligned runs in a row: how many elements count up by one, are the same, and what divides the first."""

    contiguity: int = 1
    divisibility: int = 1
    constancy: int = 1

    def put(self, op: Operation) -> None:
        """Let an operation, whose result is a row, promise it."""
        hints: Mapping[str, int] = {
            "tt.contiguity": self.contiguity,
            "tt.divisibility": self.divisibility,
            "tt.constancy": self.constancy,
        }
        for name, number in hints.items():
            op.attributes[name] = Attribute.parse(f"dense<{number}> : tensor<1xi32>", op.context)


@dataclass(frozen=True)
class Widened:
    """An access that was made wider, and the claim of the rewriting.

    before: the tensors that it took, by the number of the operand. type: what its result was, None for a store.
    result: what its users take now. address: the operand that are its pointers, or offsets of elements of one
    byte; `size` bytes are between neighbours, or 1. mask: the operand that is its mask.
    """

    op: Operation
    before: Mapping[int, Value]
    type: Type | None
    result: Value | None
    address: int
    known: Affine
    size: int
    mask: int | None
    constant: Mask | None


def of_addresses(value: Affine, size: int, bits: Sequence[Bit]) -> Claim:
    """Of pointers to elements of `size` bytes, or of offsets (`size` is 1 then), whose row begins with `bits`.

    >>> of_addresses(Affine(((2, 4), (1,)), divisor=16), 1, [(1, 0), (0, 0)])
    Claim(contiguity=4, divisibility=4, constancy=1)
    """
    run = 0
    while run < len(bits) and value.deltas[bits[run][0]][bits[run][1]] == size << run:
        run += 1
    divisor = value.divisor
    for axis, deltas in enumerate(value.deltas):
        for number, delta in enumerate(deltas):
            if (axis, number) not in bits[:run]:
                divisor = min(divisor, value.unit if delta is None else divisor_of(delta))
    return Claim(contiguity=1 << run, divisibility=min(MOST_DIVISOR, divisor))


def of_mask(mask: Mask, bits: Sequence[Bit]) -> Claim:
    """Of a mask whose row begins with `bits`."""
    run = 0
    while run < len(bits) and mask[bits[run][0]][bits[run][1]]:
        run += 1
    return Claim(constancy=1 << run)
