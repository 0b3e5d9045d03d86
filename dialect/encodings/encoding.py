"""Base classes of all encodings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from ..linear_layout import LANE, REGISTER, WARP, LinearLayout
from ..triton_versions import Release
from .syntax import Attribute, Fields, MalformedEncoding

__all__ = ["DISTRIBUTED_DIMS", "Build", "DotParent", "Encoding", "Space", "fields_of"]

Space = Literal["distributed", "shared"]

# In-dims of one CTA's part of a distributed layout, in Triton's order; the block follows.
DISTRIBUTED_DIMS = (REGISTER, LANE, WARP)


class Encoding(ABC):
    """One parsed encoding attribute; the subclasses are frozen dataclasses of the attribute's fields."""

    name: ClassVar[str]
    space: ClassVar[Space]

    @classmethod
    @abstractmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> Encoding:
        """Reads the fields; ``build`` turns a nested attribute into its encoding."""

    @abstractmethod
    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        """The layout of a tensor of this shape.

        Requires: every size is a power of two and the rank fits; raises `ValueError` otherwise.
        Ensures: equals Triton's ``toLinearLayout``, bases, order of dimensions and zero columns included.
        """

    @property
    @abstractmethod
    def rank(self) -> int | None:
        """The rank of the tensors that the encoding fits; None if it fits any."""


class Build(Protocol):
    """Turns attributes into encodings, by the rules of one release of Triton."""

    @property
    def release(self) -> Release:
        """The release whose rules hold."""

    def __call__(self, attribute: Attribute) -> Encoding:
        """The encoding that a nested attribute denotes."""


class DotParent(Encoding):
    """An encoding of a dot's result, which also determines the layouts of its operands."""

    @abstractmethod
    def operand_layout(self, operand: int, k_width: int, shape: Sequence[int]) -> LinearLayout:
        """The layout of operand 0 (M x K) or 1 (K x N)."""


def fields_of(attribute: Attribute) -> Fields:
    """The fields of an attribute that has no positional values."""
    if attribute.positional:
        raise MalformedEncoding(f"{attribute.name}: every value must have a name, as in 'order = [1, 0]'")
    return Fields(attribute.name, attribute.fields)
