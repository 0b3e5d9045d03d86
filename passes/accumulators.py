"""Which values may be accumulators of `wgmma` as that left them.

ptxas (12.8 and 12.9, for sm_90a) takes an accumulator for what it was before the loop, where that is a constant
and an integer instruction (SEL, IMAD, LOP3, ...) reads it: of `x = 0; loop { x = wgmma(x); y = p ? x : z }` it
makes `y = 0`. Floating-point instructions, conversions of type, stores and shuffles read what is there. Triton
seldom begins with an integer instruction; our code does where it selects words before it shuffles them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triton_linear.dialect.mlir_adapter import Operation, Value

PRODUCTS = ("ttng.warp_group_dot", "ttng.warp_group_dot_wait")
# Operations whose results hold registers of their operands, or selections of them.
_MOVES = frozenset(
    {
        "arith.bitcast",
        "arith.select",
        "tt.bitcast",
        "tt.broadcast",
        "tt.cat",
        "tt.expand_dims",
        "tt.join",
        "tt.reshape",
        "tt.split",
        "tt.trans",
        "ttg.convert_layout",
        *PRODUCTS,
    }
)
_BOUNDS = 3
"""Operands of `scf.for` before those that it carries."""


def accumulators(ops: Sequence[Operation]) -> frozenset[Value]:
    """The results of products of warp groups, and all values that their registers come into unchanged.

    Loop-carried values and results of branches are followed; arguments of functions are not.
    """
    pending = [result for op in ops if op.name in PRODUCTS for result in op.results]
    if not pending:
        return frozenset()
    users: dict[Value, list[tuple[Operation, int]]] = {}
    for op in ops:
        for number, operand in enumerate(op.operands):
            users.setdefault(operand, []).append((op, number))
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value not in seen:
            seen.add(value)
            for op, number in users.get(value, ()):
                pending += _received(op, number)
    return frozenset(seen)


def _received(op: Operation, number: int) -> Iterable[Value]:
    """What holds operand `number` of an operation afterwards."""
    if op.name in _MOVES:
        return list(op.results)
    if op.name == "scf.for":
        return _carried(op, number - _BOUNDS) if number >= _BOUNDS else ()
    if op.name == "scf.while":
        return (_argument(op, 0, number),)
    if op.name == "scf.condition":
        loop = op.parent.operation
        return (loop.results[number - 1], _argument(loop, 1, number - 1)) if number else ()
    if op.name == "scf.yield":
        around = op.parent.operation
        if around.name == "scf.for":
            return _carried(around, number)
        return (_argument(around, 0, number) if around.name == "scf.while" else around.results[number],)
    return ()


def _carried(loop: Operation, number: int) -> tuple[Value, Value]:
    """Loop-carried value `number`, in a loop and behind it; the body's first argument counts the turns."""
    return _argument(loop, 0, number + 1), loop.results[number]


def _argument(op: Operation, region: int, number: int) -> Value:
    return op.regions[region].blocks[0].arguments[number]
