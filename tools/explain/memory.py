"""Buffers of shared memory: what a view is of, through loops, and in words how elements lie there."""

from __future__ import annotations

from collections.abc import Mapping

from triton_linear.dialect.mlir_adapter import Operation, Value

VIEWS = (
    "ttg.memdesc_index",
    "ttg.memdesc_subslice",
    "ttg.memdesc_subview",
    "ttg.memdesc_trans",
    "ttg.memdesc_reshape",
    "ttg.memdesc_reinterpret",
)
"""Operations that take a buffer and give a part of it, or the same in another shape."""


def views_of(memory: Value, producers: Mapping[Value, Operation]) -> tuple[list[Operation], Value]:
    """The views that lead to a buffer, the last first, and what they are of: the buffer that was made, or where
    that cannot be seen a value of its type."""
    views: list[Operation] = []
    seen: set[Value] = set()
    while memory not in seen:
        seen.add(memory)
        producer = producers.get(memory)
        if producer is None:
            before = _at_first(memory)
        elif producer.name == "scf.for":
            before = producer.operands[3 + list(producer.results).index(memory)]
        elif producer.name in VIEWS:
            views.append(producer)
            before = producer.operands[0]
        else:
            before = None
        if before is None:
            break
        memory = before
    return views, memory


def _at_first(value: Value) -> Value | None:
    """What a loop's argument is at first; None for what is none."""
    loop = getattr(getattr(value, "owner", None), "owner", None)
    if loop is None or loop.name != "scf.for" or value.arg_number == 0:
        return None
    first: Value = loop.operands[2 + value.arg_number]
    return first
