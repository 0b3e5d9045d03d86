"""What a module promises Triton of elements next to each other, and whether it is so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import DenseElementsAttr, Module, Operation, Value, operations
from triton_linear.passes.analysis.axis import pointee_bytes, shape_of
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.widening.claims import operands_of

HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")


class Promises:
    """Watches a machine, whose values are `now`. `broken`: what was promised and is not so."""

    def __init__(self, root: Module, now: Mapping[Value, Any]) -> None:
        self.broken: set[str] = set()
        self._now = now
        self._hints: dict[Value, dict[str, list[int]]] = {}
        self._vectors: dict[Value, tuple[Operation, int, int]] = {}
        table = LayoutTable()
        for op in operations(root.operation):
            for name in HINTS:
                if op.name != "tt.func" and name in op.attributes and len(op.results) == 1:
                    numbers = op.attributes[name]
                    if isinstance(numbers, DenseElementsAttr) and shape_of(op.results[0].type):
                        self._hints.setdefault(op.results[0], {})[name] = [int(n) for n in numbers]
            if "contiguity" in op.attributes and len(op.results):
                layout = table.of(op.operands[operands_of(op)[0]].type)
                assert isinstance(layout, LinearLayout)
                axis, count = _vector(layout, op.attributes["contiguity"].value)
                if count > 1:
                    self._vectors[op.results[0]] = op, axis, count

    def __call__(self, value: Value, what: Any) -> None:
        if value in self._hints:
            self.broken.update(_denied(value, what, self._hints[value]))
        if value in self._vectors:
            op, axis, count = self._vectors[value]
            taken = [self._now[operand] for operand in op.operands]
            place, mask_place = operands_of(op)
            mask = np.asarray(1) if mask_place is None else taken[mask_place]
            step = 1 if place else pointee_bytes(op.operands[0].type)
            if not _in_vectors(taken[place], mask, axis, count, step):
                self.broken.add(f"'{op.name}' is not of vectors of {count} along {axis}")


def _vector(layout: LinearLayout, count: int) -> tuple[int, int]:
    """Elements next to each other that a thread has in its first registers, `count` at most, and their axis."""
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    axis = max(range(len(layout.out_dims)), key=lambda axis: registers[0][axis]) if registers else 0
    width = 1
    for basis in registers:
        if width == count or sum(basis) != width or basis[axis] != width:
            break
        width *= 2
    return axis, width


def _runs(what: Any, axis: int, count: int) -> Any:
    return np.moveaxis(what, axis, -1).reshape(-1, count)


def _in_vectors(pointers: Any, mask: Any, axis: int, count: int, step: int) -> bool:
    """Whether each run of pointers goes up by `step`, unless the mask leaves all of it out."""
    flags = _runs(np.broadcast_to(mask, pointers.shape), axis, count)
    apart = np.diff(_runs(pointers, axis, count), axis=1) != step
    return not (apart.any(1) & flags.any(1)).any() and bool((flags == flags[:, :1]).all())


def _steps(what: Any, axis: int, count: int, step: int) -> bool:
    """Whether each run of `count` elements along an axis goes up by `step`."""
    runs = _runs(what, axis, min(count, what.shape[axis]))
    return bool((np.diff(runs, axis=1) == step).all())


def _denied(value: Value, what: Any, hints: dict[str, list[int]]) -> Iterator[str]:
    step = pointee_bytes(value.type) if "ptr" in str(value.type) else 1
    for axis, size in enumerate(what.shape):
        contiguous = hints.get("tt.contiguity", [1] * what.ndim)[axis]
        if not _steps(what, axis, contiguous, step):
            yield f"not {contiguous} in a row along {axis}"
        while contiguous < size and _steps(what, axis, 2 * contiguous, step):
            contiguous *= 2
        if not _steps(what, axis, hints.get("tt.constancy", [1] * what.ndim)[axis], 0):
            yield f"not the same along {axis}"
        divisor = hints.get("tt.divisibility", [1] * what.ndim)[axis]
        if (np.take(what, range(0, size, contiguous), axis) % divisor).any():
            yield f"{divisor} does not divide the first of {contiguous} along {axis}"
