"""Hints for Triton's axis analysis about the result of a conversion, which it cannot derive from emitted code.

The hints come from `AxisAnalysis`, which knows at least what Triton's analysis knows, except for a few
operations. If one of these leads to the value, no hints are given and Triton lowers the conversion.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Attribute, Operation, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.addresses import HINTS, is_integral
from triton_linear.passes.analysis.addressing import Affine, Mask
from triton_linear.passes.analysis.axis import AxisAnalysis, pointee_bytes, shape_of
from triton_linear.passes.analysis.flow import is_kernel, passed_to
from triton_linear.passes.operations.names import COMPARE, FOR, FUNCTION, SHIFT_LEFT, SUBTRACT
from triton_linear.passes.operations.table import named

MOST = 1 << 30
"""Hints are read as signed integers of 32 bits; larger powers of two are cut to this one."""


@dataclass(frozen=True, slots=True)
class AxisHints:
    """Hints for each dimension of a tensor.

    contiguity: length of aligned runs that count up by one. divisibility: the power of two that divides the
    first element of each run (for pointers, in bytes). constancy: length of aligned runs of equal elements.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]

    def put(self, op: Operation) -> None:
        """Write the hints on an operation, as attributes about its result."""
        rows = (self.contiguity, self.divisibility, self.constancy)
        for name, row in zip(HINTS, rows, strict=True):
            op.attributes[name] = Attribute.parse(f"dense<{list(row)}> : tensor<{len(row)}xi32>", op.context)


def hints_of(value: Value, analysis: AxisAnalysis) -> AxisHints | str:
    """The hints for a tensor of integers, masks or pointers; or the reason why Triton may know more."""
    if (reason := _unfollowed(value, analysis)) is not None:
        return reason
    kind = str(value.type.element_type)
    if kind == "i1":
        return of_mask(analysis.mask(value))
    known = analysis.of(value)
    if known.constant is not None and known.is_uniform:
        return "its value is a constant that Triton knows"
    return of_affine(known, pointee_bytes(value.type) if kind.startswith("!") else 1)


def of_affine(known: Affine, size: int) -> AxisHints:
    """The hints for integers (`size` is 1), or for pointers to elements of `size` bytes.

    >>> of_affine(Affine(((0, 0), (4, 8, 32)), divisor=16), 4)
    AxisHints(contiguity=(1, 4), divisibility=(4, 16), constancy=(4, 1))
    """
    contiguity, divisibility = [], []
    for axis, bits in enumerate(known.deltas):
        run = _leading([delta == size << bit for bit, delta in enumerate(bits)])
        rest = [*known.deltas[:axis], bits[run:], *known.deltas[axis + 1 :]]
        steps = [known.step(delta) for deltas in rest for delta in deltas]
        contiguity.append(1 << run)
        divisibility.append(min(known.divisor, MOST, *steps))
    constancy = tuple(1 << _leading([delta == 0 for delta in bits]) for bits in known.deltas)
    return AxisHints(tuple(contiguity), tuple(divisibility), constancy)


def of_mask(mask: Mask) -> AxisHints:
    """The hints for a mask.

    >>> of_mask(((True, True, False), (False,)))
    AxisHints(contiguity=(1, 1), divisibility=(1, 1), constancy=(4, 1))
    """
    ones = (1,) * len(mask)
    return AxisHints(ones, ones, tuple(1 << _leading(bits) for bits in mask))


def _leading(flags: Sequence[bool]) -> int:
    """How many flags are true before the first false one."""
    return next((number for number, flag in enumerate(flags) if not flag), len(flags))


def _unfollowed(value: Value, analysis: AxisAnalysis, around: frozenset[Value] = frozenset()) -> str | None:
    """An operation or argument that leads to `value` and about which Triton may know more than `AxisAnalysis`;
    None if there is none. `around`: values that depend on this one and whose search is still going on."""
    pending, seen = [value], set[Value]()
    while pending:
        at = pending.pop()
        if at in seen or not (is_integral(at) or str(at.type)[0] in "i!"):
            continue
        seen.add(at)
        op = analysis.maker(at)
        if op is None:
            owner = at.owner.owner.operation
            if owner.name == FOR:
                pending += passed_to(at) if at.arg_number else [owner.operands[0], owner.operands[2]]
            elif owner.name != FUNCTION or not is_kernel(owner):
                return f"an argument of '{owner.name}'"
        elif (known := named(op.name)).hints == "same":
            if not _is_followed(op, analysis):
                return f"'{op.name}'"
            pending += op.operands
        elif known.hints == "more":
            choices, inner = list(op.operands)[-2:], around | {value, at}
            if not (_is_mask(at) or any(_has_trivial_hints(choice, analysis, inner) for choice in choices)):
                return f"'{op.name}'"
            pending += op.operands
        elif op.name.startswith(("scf.", "ub.", "amdg.", "amdgpu.")):
            return f"'{op.name}'"
    return None


def _is_followed(op: Operation, analysis: AxisAnalysis) -> bool:
    """True if `AxisAnalysis` knows about an operation's result what Triton knows, provided that it does so
    about the operands.

    Triton may know more about divisions and shifts by an unknown number. It also knows the result of a
    comparison or difference of two equal operands, and of two that become equal once they are simplified.
    """
    if len(op.operands) != 2:
        return True
    left, right = op.operands
    if op.name in (COMPARE, SUBTRACT):
        first, second = analysis.of(left).deltas, analysis.of(right).deltas
        known = any(delta for bits in first for delta in bits) and not any(None in bits for bits in first)
        return bool(left != right) and not (known and first == second)
    if (op.name == SHIFT_LEFT or named(op.name).divides) and shape_of(op.results[0].type):
        by = analysis.of(right)
        return by.is_uniform and by.constant is not None and by.constant >= (op.name != SHIFT_LEFT)
    return True


def _is_mask(value: Value) -> bool:
    return str(value.type).startswith("tensor<") and str(value.type.element_type) == "i1"


def _has_trivial_hints(value: Value, analysis: AxisAnalysis, around: frozenset[Value]) -> bool:
    """True if the hints of a tensor are trivial: no runs, no divisor. Then a selection between it and any other
    value has trivial hints too."""
    if not is_integral(value) or value in around or _unfollowed(value, analysis, around) is not None:
        return False
    known = of_affine(analysis.of(value), 1)
    return {*known.contiguity, *known.divisibility} == {1}
