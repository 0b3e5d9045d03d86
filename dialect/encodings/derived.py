"""Encodings derived from a parent encoding: ``#ttg.slice`` and ``#ttg.dot_op``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..linear_layout import REGISTER, LinearLayout, dim_names
from ..records import dataclass
from .encoding import Build, DotParent, Encoding, Space, fields_of
from .syntax import Attribute, MalformedEncoding, UnknownEncoding
from .tile import check_shape

__all__ = ["DotOperand", "Slice", "slice_layout"]


def slice_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout of the result of a reduction along dimension ``axis``.

    Ensures: every basis loses its coordinate ``axis``; bases of registers that become zero are removed.

    >>> parent = LinearLayout.from_bases([("register", [(0, 1), (1, 0)])], ["dim0", "dim1"])
    >>> slice_layout(parent, 1).bases
    (('register', ((1,),)),)
    """
    rank = len(layout.out_dims)
    bases = []
    for name, vectors in layout.bases:
        kept = [(*basis[:axis], *basis[axis + 1 :]) for basis in vectors]
        bases.append((name, tuple(b for b in kept if name != REGISTER or any(b))))
    sizes = [size for index, (_, size) in enumerate(layout.out_dims) if index != axis]
    return LinearLayout.fitted(tuple(bases), tuple(zip(dim_names(rank - 1), sizes, strict=True)))


@dataclass(frozen=True)
class Slice(Encoding):
    """The parent's layout without one dimension: the layout of the result of a reduction."""

    name: ClassVar[str] = "#ttg.slice"
    space: ClassVar[Space] = "distributed"

    dim: int
    parent: Encoding

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> Slice:
        fields = fields_of(attribute)
        result = cls(fields.integer("dim"), build(fields.attribute("parent")))
        fields.finish()
        parent = result.parent
        if parent.space != "distributed":
            raise MalformedEncoding(f"{cls.name}: the parent must be distributed, got {parent.name}")
        if parent.rank is not None and result.dim >= parent.rank:
            raise MalformedEncoding(
                f"{cls.name}: dim {result.dim} is not a dimension of the parent {parent.name} "
                f"of rank {parent.rank}"
            )
        return result

    @property
    def rank(self) -> int | None:
        return None if self.parent.rank is None else self.parent.rank - 1

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        whole = (*shape[: self.dim], 1, *shape[self.dim :])
        return slice_layout(self.parent.to_linear_layout(whole), self.dim)


@dataclass(frozen=True)
class DotOperand(Encoding):
    """The operand of a dot whose result has the encoding ``parent``."""

    name: ClassVar[str] = "#ttg.dot_op"
    space: ClassVar[Space] = "distributed"

    op_idx: int
    parent: DotParent
    k_width: int

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> DotOperand:
        fields = fields_of(attribute)
        op_idx = fields.integer("opIdx")
        if op_idx > 1:
            raise MalformedEncoding(f"{cls.name}: 'opIdx' must be 0 or 1, got {op_idx}")
        parent = build(fields.attribute("parent"))
        if not isinstance(parent, DotParent):
            raise UnknownEncoding(f"{cls.name}: no operand layout is known for the parent {parent.name}")
        k_width = fields.integer("kWidth", 0)
        fields.finish()
        return cls(op_idx, parent, k_width)

    @property
    def rank(self) -> int | None:
        return self.parent.rank

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        return self.parent.operand_layout(self.op_idx, self.k_width, shape)
