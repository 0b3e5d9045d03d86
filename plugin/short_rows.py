"""Whether a kernel accesses rows that are shorter than what one instruction moves.

Where it has no conversion either, nothing else of the plugin has anything to do, and MLIR stays out.
"""

from __future__ import annotations

import re

from triton_linear.interfaces import Module, Operation

_ACCESSES = frozenset({"tt.load", "tt.store", "amdg.buffer_load", "amdg.buffer_store"})
_SHAPE = re.compile(r"tensor<((?:\d+x){2,})")
_POINTEE = re.compile(r"!tt\.ptr<[a-z]+(\d+)")


def has_short_rows(module: Module) -> bool:
    """Whether a tensor of two dimensions or more that is loaded or stored has one of less than 16 bytes."""
    types: set[str] = set()

    def visit(operation: Operation) -> None:
        if operation.get_name() in _ACCESSES:
            operands = range(operation.get_num_operands())
            types.add(" ".join(str(operation.get_operand(index).get_type()) for index in operands))

    module.walk(visit)
    return any(map(_is_short, types))


def _is_short(types: str) -> bool:
    shape, pointee = _SHAPE.search(types), _POINTEE.search(types)
    if shape is None or pointee is None:
        return False
    from triton_linear.passes.assignment.widths import are_rows_short

    sizes = [int(size) for size in shape[1].split("x") if size]
    return are_rows_short(sizes, -(-int(pointee[1]) // 8))
