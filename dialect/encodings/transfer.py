"""Transfer functions: the layout of the result of an operation that only changes a tensor's shape.

For every input layout there is an output layout with which the operation moves no register (the closure theorem
of linear layouts). The function named like the operation maps the input's layout to that output layout; the one
named ``*_backward`` maps an output's layout to the input's. The result is None if there is no such layout: a
tensor cannot be split without data movement along a dimension that lies across lanes.

As in Triton, the last dimension of a tensor is the fastest. The out-dims are dim0, dim1, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..linear_layout import REGISTER, LinearLayout, dim_names
from .derived import slice_layout
from .syntax import Basis

__all__ = [
    "expand_dims",
    "join",
    "join_backward",
    "reduce",
    "reshape",
    "reshape_backward",
    "same_but_for_register_copies",
    "split",
    "split_backward",
    "trans",
    "trans_backward",
]


def _shape(layout: LinearLayout) -> tuple[int, ...]:
    return tuple(size for _, size in layout.out_dims)


def _mapped(layout: LinearLayout, shape: Sequence[int], change: Callable[[Basis], Basis]) -> LinearLayout:
    """The layout of this shape with ``change`` applied to every basis."""
    bases = tuple([(name, tuple(map(change, vectors))) for name, vectors in layout.bases])
    return LinearLayout.fitted(bases, tuple(zip(dim_names(len(shape)), shape, strict=True)))


def _check_axis(operation: str, axis: int, rank: int) -> None:
    if not 0 <= axis < rank:
        raise ValueError(f"{operation}: axis {axis} is not one of 0..{rank - 1}")


def _check_register(operation: str, layout: LinearLayout) -> None:
    if not layout.has_in_dim(REGISTER):
        raise ValueError(f"{operation}: the layout has no in-dim '{REGISTER}'")


def trans(layout: LinearLayout, order: Sequence[int]) -> LinearLayout:
    """The transpose: dimension i of the output is dimension order[i] of the input.

    Requires: order is a permutation of the dimensions.
    Ensures: trans_backward(trans(l, order), order) == l.

    >>> source = LinearLayout.from_bases([("register", [(0, 1), (0, 2), (1, 0)])], ["dim0", "dim1"])
    >>> trans(source, (1, 0)).bases
    (('register', ((1, 0), (2, 0), (0, 1))),)
    """
    shape = _shape(layout)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"trans: {list(order)} is not a permutation of 0..{len(shape) - 1}")
    return _mapped(layout, [shape[axis] for axis in order], lambda basis: tuple(basis[axis] for axis in order))


def trans_backward(layout: LinearLayout, order: Sequence[int]) -> LinearLayout:
    """The input whose transpose by ``order`` has this layout."""
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"trans_backward: {list(order)} is not a permutation of 0..{len(order) - 1}")
    return trans(layout, tuple(order.index(axis) for axis in range(len(order))))


def reshape(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The reshape to ``shape``, which keeps the order of elements; the last dimension is the fastest.

    Requires: the number of elements is the same; sizes are powers of two.
    Ensures: reshape(reshape(l, shape), shape of l) == l.

    >>> source = LinearLayout.from_bases([("lane", [(1, 0), (0, 1), (0, 2)])], ["dim0", "dim1"])
    >>> reshape(source, (8,)).bases
    (('lane', ((4,), (1,), (2,))),)
    """
    old = _shape(layout)
    if prod(old) != prod(shape):
        raise ValueError(f"reshape: {list(shape)} has {prod(shape)} elements, {list(old)} has {prod(old)}")

    def change(basis: Basis) -> Basis:
        place = 0
        for value, size in zip(basis, old, strict=True):
            place = place * size + value
        coordinates = []
        for size in reversed(shape):
            coordinates.append(place % size)
            place //= size
        return tuple(coordinates[::-1])

    return _mapped(layout, shape, change)


def reshape_backward(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The input of this shape whose reshape has this layout."""
    return reshape(layout, shape)


def expand_dims(layout: LinearLayout, axis: int) -> LinearLayout:
    """The expansion by a new dimension of size 1 before dimension ``axis``.

    >>> expand_dims(LinearLayout.identity_1d(4, "lane", "dim0"), 0).bases
    (('lane', ((0, 1), (0, 2))),)
    """
    shape = _shape(layout)
    _check_axis("expand_dims", axis, len(shape) + 1)
    return _mapped(layout, (*shape[:axis], 1, *shape[axis:]), lambda b: (*b[:axis], 0, *b[axis:]))


def join(layout: LinearLayout) -> LinearLayout:
    """The join of two tensors of this layout, along a new last dimension of size 2.

    Ensures: split(join(l)) == l.
    Choice: the new register bit is the lowest, so elements of the two tensors alternate.

    >>> join(LinearLayout.identity_1d(4, "register", "dim0")).bases
    (('register', ((0, 1), (1, 0), (2, 0))),)
    """
    _check_register("join", layout)
    shape = _shape(layout)
    new = (*(0 for _ in shape), 1)
    bases = tuple(
        (name, ((new,) if name == REGISTER else ()) + tuple((*basis, 0) for basis in vectors))
        for name, vectors in layout.bases
    )
    return LinearLayout(bases, tuple(zip(dim_names(len(shape) + 1), (*shape, 2), strict=True)))


def join_backward(layout: LinearLayout) -> LinearLayout | None:
    """The layout of the two inputs whose join has this layout; None if they do not lie in the same threads."""
    return split(layout)


def split(layout: LinearLayout) -> LinearLayout | None:
    """The layout of the halves of a tensor whose last dimension has size 2.

    Requires: the last dimension has size 2. Ensures: None unless exactly one bit moves along the last
    dimension, it is a register bit, and it moves along no other dimension. Otherwise some thread would lack
    the other half of an element pair.

    >>> split(LinearLayout.from_bases([("register", [(1, 0), (0, 1)])], ["dim0", "dim1"])).bases
    (('register', ((1,),)),)
    """
    _check_register("split", layout)
    shape = _shape(layout)
    if not shape or shape[-1] != 2:
        raise ValueError(f"split: the last dimension of {list(shape)} must have size 2")
    movers = [(name, basis) for name, vectors in layout.bases for basis in vectors if basis[-1]]
    if len(movers) != 1 or movers[0][0] != REGISTER or any(movers[0][1][:-1]):
        return None
    bases = tuple((name, tuple(b[:-1] for b in vectors if not b[-1])) for name, vectors in layout.bases)
    return LinearLayout(bases, tuple(zip(dim_names(len(shape) - 1), shape[:-1], strict=True)))


def split_backward(layout: LinearLayout) -> LinearLayout:
    """The layout of a tensor whose halves have this layout; the choice is `join`'s."""
    return join(layout)


def reduce(layout: LinearLayout, axis: int) -> LinearLayout:
    """The result of a reduction along ``axis``: the slice, in all threads that take part.

    >>> reduce(LinearLayout.from_bases([("lane", [(0, 1), (1, 0)])], ["dim0", "dim1"]), 1).bases
    (('lane', ((0,), (1,))),)
    """
    _check_axis("reduce", axis, len(layout.out_dims))
    return slice_layout(layout, axis)


def same_but_for_register_copies(a: LinearLayout, b: LinearLayout) -> bool:
    """Whether the layouts differ at most in registers that hold copies.

    Encodings keep or drop such registers by rules of their own, so this is how a layout derived by a transfer
    function compares with one that an encoding states.

    >>> a = LinearLayout.from_bases([("register", [[0], [1]])], ["dim0"])
    >>> same_but_for_register_copies(a, LinearLayout.identity_1d(2, "register", "dim0"))
    True
    """
    if a.has_in_dim(REGISTER):
        a = a.remove_zero_bases(REGISTER)
    if b.has_in_dim(REGISTER):
        b = b.remove_zero_bases(REGISTER)
    return a == b
