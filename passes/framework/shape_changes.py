"""How changes of shape permute the elements of a tensor.

Sizes are powers of two, and elements are numbered with the last dimension fastest. So a change of shape
permutes the bits of an element's number, and this module only has to follow bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Operation, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations.names import CONVERT, RESHAPE, TRANS
from triton_linear.passes.operations.table import may_reorder

SHAPE_CHANGES = (RESHAPE, TRANS, CONVERT)


def places(shape: Sequence[int]) -> list[tuple[int, int]]:
    """For each bit of an element's number, lowest first: its dimension, and the bit of the coordinate that it
    is.

    >>> places((2, 4))
    [(1, 0), (1, 1), (0, 0)]
    """
    if any(size < 1 or size & (size - 1) for size in shape):
        raise NotEquivalent(f"the sizes {list(shape)} are no powers of two")
    axes = reversed(range(len(shape)))
    return [(axis, bit) for axis in axes for bit in range(shape[axis].bit_length() - 1)]


@dataclass(frozen=True, slots=True)
class Moved:
    """A permutation of elements: bit k of an element's number in the new shape is bit `bits[k]` of its old
    one."""

    shape: tuple[int, ...]
    bits: tuple[int, ...]

    @classmethod
    def nowhere(cls, shape: Sequence[int]) -> Moved:
        """The identity.

        >>> Moved.nowhere((2, 4)).trans((1, 0))
        Moved(shape=(4, 2), bits=(2, 0, 1))
        """
        return cls(tuple(shape), tuple(range(len(places(shape)))))

    def reshape(self, shape: Sequence[int]) -> Moved:
        """The same elements, in the same order, in another shape."""
        if len(places(shape)) != len(self.bits):
            raise NotEquivalent(f"a reshape to {list(shape)} gives another number of elements")
        return Moved(tuple(shape), self.bits)

    def trans(self, order: Sequence[int]) -> Moved:
        """Transpose: dimension i of the result is dimension `order[i]`."""
        if sorted(order) != list(range(len(self.shape))):
            raise NotEquivalent(f"{list(order)} is no order of {len(self.shape)} dimensions")
        shape = tuple(self.shape[axis] for axis in order)
        bit_of = dict(zip(places(self.shape), self.bits, strict=True))
        return Moved(shape, tuple(bit_of[order[axis], bit] for axis, bit in places(shape)))

    def without(self, axis: int) -> tuple[Moved, frozenset[int]]:
        """What is left once the elements along a dimension have become one, and the old bits along it.

        >>> Moved.nowhere((2, 4)).without(1)
        (Moved(shape=(2,), bits=(2,)), frozenset({0, 1}))
        """
        along = frozenset(old for (at, _), old in zip(places(self.shape), self.bits, strict=True) if at == axis)
        left = tuple(old for old in self.bits if old not in along)
        return Moved((*self.shape[:axis], *self.shape[axis + 1 :]), left), along


def pieces(came: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How changes of shape permute bits: the sizes of a reshape to a dimension for each run of bits that stay
    together, and the order of the transpose behind it. `came`: for each bit, lowest first, the bit that it was.

    >>> pieces((1, 2, 0))
    ((4, 2), (1, 0))
    """
    runs: list[list[int]] = []
    for bit in came:
        if runs and runs[-1][-1] + 1 == bit:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    highest_first = sorted(runs, reverse=True)
    sizes = tuple(1 << len(run) for run in highest_first)
    return sizes, tuple(highest_first.index(run) for run in reversed(runs))


def follow(
    value: Value, source: Value, producers: Mapping[Value, Operation]
) -> tuple[Moved, Sequence[Operation]]:
    """The permutation from `source` to `value`, and the operations between them. Raises NotEquivalent unless
    all of these are changes of shape."""
    steps: list[Operation] = []
    at = value
    while at != source:
        op = producers.get(at)
        if op is None or op.name not in SHAPE_CHANGES:
            raise NotEquivalent(f"'{op.name if op else 'an argument'}' is no change of shape")
        if may_reorder(op):
            raise NotEquivalent("a reshape may move elements")
        steps.insert(0, op)
        at = op.operands[0]
    moved = Moved.nowhere(source.type.shape)
    for op in steps:
        shape = tuple(op.results[0].type.shape)
        moved = moved.trans(list(op.attributes["order"])) if op.name == TRANS else moved.reshape(shape)
        if moved.shape != shape:
            raise NotEquivalent(f"'{op.name}' gives another shape")
    return moved, steps
