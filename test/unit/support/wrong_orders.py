"""Mistakes in putting a contracted axis in another order."""

from __future__ import annotations

from typing import Any

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.contraction import rewrite

_REORDERED = rewrite.reordered
_INSIDE = rewrite.Permuter._inside


def _identity(value: Any, order: Any, ip: Any) -> Any:
    return rewrite._binary("arith.ori", value, value, ip)


def _rotated(value: Any, axis: int, order: Any, ip: Any) -> Any:
    return _REORDERED(value, axis, (*order[1:], order[0]), ip)


def _without_loads(self: rewrite.Permuter) -> list[Operation]:
    return [op for op in _INSIDE(self) if op.name not in ("tt.load", "ttg.async_copy_global_to_local")]


WRONG_ORDERS = [
    (rewrite, "permuted_range", _identity),
    (rewrite, "reordered", _rotated),
    (rewrite.Permuter, "_inside", _without_loads),
]
"""What is patched, the name, and what takes its place."""
