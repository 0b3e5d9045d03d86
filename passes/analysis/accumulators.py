"""Which values may be accumulators of `wgmma` as that left them.

ptxas (12.8 and 12.9, for sm_90a) takes an accumulator for what it was before the loop, where that is a constant
and an integer instruction (SEL, IMAD, LOP3, ...) reads it: of `x = 0; loop { x = wgmma(x); y = p ? x : z }` it
makes `y = 0`. Floating-point instructions, conversions of type, stores and shuffles read what is there. Triton
seldom begins with an integer instruction; our code does where it selects words before it shuffles them.

What LLVM leaves of arithmetic is not known here: it drops a multiplication by one, and makes an integer
instruction of an absolute value that is used as bits. So all elementwise arithmetic is followed, until its
result is narrower than a word: that takes an instruction that converts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, producers_of
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.analysis.flow import reached, taken_by
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

_SIGNS = frozenset({"arith.negf", "math.absf", "math.copysign"})
# A multiplication or division by -1, a subtraction from -0.
_NEGATIONS = {
    "arith.mulf": re.compile(r"-1\.0+e\+00"),
    "arith.divf": re.compile(r"-1\.0+e\+00"),
    "arith.subf": re.compile(r"-0\.0+e\+00"),
}
_WORD = 32


def accumulators(ops: Sequence[Operation]) -> frozenset[Value]:
    """The results of dots of warp groups, and all values that their registers may come into.

    Loop-carried values, results of branches, and what functions are given and return are followed.
    """
    dots = [result for op in ops if op.name in names.IN_FLIGHT for result in op.results]
    return _reached(ops, dots) if dots else frozenset()


def changed_signs(ops: Sequence[Operation]) -> frozenset[Value]:
    """Those of `accumulators` whose sign has been changed or taken away on the way.

    LLVM does that with AND and XOR where the result is used as bits, whatever stands in between.
    """
    if not any(op.name in names.IN_FLIGHT for op in ops):
        return frozenset()
    may = [op for op in ops if op.name in _SIGNS or op.name in _NEGATIONS]
    producers = producers_of(ops) if may else {}
    changing = [op for op in may if _changes_sign(op, producers)]
    if not changing:  # most often; what accumulators come into takes longer to follow
        return frozenset()
    raw = accumulators(ops)
    changed = [op for op in changing if any(v in raw for v in op.operands)]
    return _reached(ops, [result for op in changed for result in op.results]) if changed else frozenset()


def _changes_sign(op: Operation, producers: Mapping[Value, Operation]) -> bool:
    """Whether LLVM may take an operation for a change of sign."""
    constants = _NEGATIONS.get(op.name)
    if constants is None:
        return op.name in _SIGNS
    values = (producers.get(operand) for operand in op.operands)
    return any(v is not None and v.name == names.CONSTANT and constants.search(str(v)) for v in values)


def _reached(ops: Sequence[Operation], values: Iterable[Value]) -> frozenset[Value]:
    """These values, and all that may hold them, or what is computed from them, afterwards."""
    functions: dict[str, Operation] = {}
    calls: dict[str, list[Operation]] = {}
    for op in ops:
        name = op.name
        if name == names.FUNCTION:
            functions[op.attributes["sym_name"].value] = op
        elif name == names.CALL:
            calls.setdefault(op.attributes["callee"].value, []).append(op)

    def received(op: Operation, number: int) -> Iterable[Value]:
        name = op.name
        if _hands_on(name):
            return [result for result in op.results if not _narrows(op.operands[number], result)]
        if name == names.CALL:
            called = functions.get(op.attributes["callee"].value)
            blocks = [] if called is None else list(called.regions[0].blocks)
            return [block.arguments[number] for block in blocks[:1]]
        if name == names.RETURN:
            function = op.parent.operation.attributes["sym_name"].value
            return [call.results[number] for call in calls.get(function, ())]
        return taken_by(op, number)

    def following(value: Value) -> Iterable[Value]:
        uses = ((use.owner.operation, use.operand_number) for use in value.uses)
        return itertools.chain.from_iterable(received(*use) for use in uses)

    return frozenset(reached(values, following))


def _hands_on(name: str) -> bool:
    """Whether results hold registers of operands, or what is computed from them one by one."""
    known = named(name)
    return known.elementwise or known.view or name in (names.CONVERT, *names.IN_FLIGHT)


def _narrows(operand: Value, result: Value) -> bool:
    """Whether elements of a word or more become narrower ones."""
    return _bits(operand) >= _WORD > _bits(result)


def _bits(value: Value) -> int:
    """Bits of an element; those of a word where it is no number."""
    type_ = value.type
    element = str(type_.element_type if isinstance(type_, RankedTensorType) else type_)
    try:
        return element_type(element).bits
    except ValueError:
        return _WORD
