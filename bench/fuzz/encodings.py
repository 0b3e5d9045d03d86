"""The layouts of drawn encodings, and operations on the texts of encodings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.lowering.plan.element import element_type

PLACES = (REGISTER, LANE, WARP, BLOCK)

Vector = tuple[int, ...]
Bases = Mapping[str, Sequence[Vector]]


def is_linear(encoding: str) -> bool:
    """Whether an encoding lists its basis vectors."""
    return encoding.startswith("#ttg.linear<")


def bases_of(encoding: str) -> dict[str, list[Vector]]:
    """The basis vectors that a `#ttg.linear` lists.

    >>> bases_of("#ttg.linear<{register = [], lane = [[1, 0], [0, 2]], warp = [], block = []}>")["lane"]
    [(1, 0), (0, 2)]
    """
    return {
        name: [tuple(vector) for vector in json.loads(re.findall(rf"{name} = (\[[^a-z]*\])", encoding)[0])]
        for name in PLACES
    }


def linear_text(bases: Bases) -> str:
    """The `#ttg.linear` that lists these basis vectors."""
    rows = ", ".join(f"{name} = {[list(v) for v in bases.get(name, ())]}" for name in PLACES)
    return f"#ttg.linear<{{{rows}}}>"


def layout_drawn(encoding: str, shape: Sequence[int], element: str) -> LinearLayout:
    """The layout of an encoding in LLVM IR. That of a `#ttg.linear` is made from its bases, without the
    package's parser.
    """
    if not is_linear(encoding):
        return encodings.held_layout_of(encoding, tuple(shape), element_type(element).bits)
    bases = list(bases_of(encoding).items())
    return encodings.held(LinearLayout.from_bases(bases, dim_names(len(shape)), shape))


def transposed(encoding: str, order: Sequence[int]) -> str:
    """A `#ttg.linear` of the transpose, whose dimension i is the tensor's dimension `order[i]`.

    >>> text = linear_text({"register": [(1, 2, 4)]})
    >>> bases_of(transposed(text, (2, 0, 1)))["register"]
    [(4, 1, 2)]
    """
    bases = bases_of(encoding)
    return linear_text({name: [tuple(v[d] for d in order) for v in rows] for name, rows in bases.items()})


def reshaped(encoding: str, shape: Sequence[int], to: Sequence[int]) -> str:
    """A `#ttg.linear` of a tensor of `shape`, as it is after a reshape to shape `to`; the last dimension is
    fastest.

    >>> text = linear_text({"register": [(1, 0), (0, 2)]})
    >>> bases_of(reshaped(text, (2, 4), (4, 2)))["register"]
    [(2, 0), (1, 0)]
    """

    def place(vector: Vector) -> Vector:
        number = 0
        for by, size in zip(vector, shape, strict=True):
            number = number * size + by
        found: list[int] = []
        for size in reversed(to):
            found.append(number % size)
            number //= size
        return tuple(reversed(found))

    return linear_text({name: [place(v) for v in rows] for name, rows in bases_of(encoding).items()})
