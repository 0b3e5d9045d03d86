"""What cases are given: bench.foreign's random tensors, at a server's sizes and of its types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ..foreign import case

UNTOUCHED = 1 << 20
"""Tensors with more elements are memory that nobody touches where no kernel reads them."""
PIECE = 1 << 26
"""So many elements at a time are drawn: random numbers are float32, whatever is wanted of them."""


class Inputs(case.Inputs):
    """Random tensors, page tables and sorted tokens; what is `empty` is zeros, so that what no kernel writes
    is the same whatever lay there."""

    def _untouched(self, shape: Sequence[int]) -> bool:
        return self.pretended and math.prod(shape) > UNTOUCHED

    def empty(self, *shape: int, dtype: str = "bfloat16") -> Any:
        made = super().empty(*shape, dtype=dtype)
        if not self.pretended:
            made.view(self.torch.uint8).zero_() if made.dim() else made.zero_()
        return made

    def normal(self, *shape: int, dtype: str = "bfloat16", grad: bool = False, scale: float = 1.0) -> Any:
        made = self.empty(*shape, dtype=dtype)
        if not self._untouched(shape):
            for piece in made.view(-1).split(PIECE):
                piece.copy_(self.torch.randn(piece.shape, device="cuda") * scale)
        return made.requires_grad_(grad)

    def fp8(self, *shape: int) -> Any:
        """Normal, rounded to the 8 bits that servers take."""
        return self.normal(*shape, dtype="float8_e4m3fn")

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Any:
        if self._untouched(shape):
            return self.empty(*shape, dtype=dtype)
        return super().uniform(*shape, low=low, high=high, dtype=dtype)

    def scales(self, *shape: int, dtype: str = "float32") -> Any:
        """What quantised values are multiplied with: positive, about as large as one another."""
        return self.uniform(*shape, low=0.01, high=0.02, dtype=dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Any:
        if self._untouched(shape):
            return self.empty(*shape, dtype=dtype)
        return super().integers(low, high, *shape, dtype=dtype)

    def int8(self, *shape: int) -> Any:
        """Quantised values that do not saturate."""
        return self.integers(-99, 99, *shape, dtype="int8")

    def bytes(self, *shape: int) -> Any:
        """Packed values: any bits do."""
        return self.integers(0, 255, *shape, dtype="uint8")

    def words(self, *shape: int) -> Any:
        """Packed values in words of 32 bits."""
        return self.integers(0, 1 << 30, *shape, dtype="int32")

    def full(self, value: Any, *shape: int, dtype: str = "int32") -> Any:
        return self.torch.full(shape, value, device="cuda", dtype=getattr(self.torch, dtype))

    def tensor(self, values: Any, dtype: str = "int32") -> Any:
        """Known values."""
        return self.torch.tensor(values, device="cuda", dtype=getattr(self.torch, dtype))

    def starts(self, lengths: Sequence[int], dtype: str = "int32") -> Any:
        """Where sequences that lie one after another begin, and where the last ends."""
        return self.tensor(list(accumulate(lengths, initial=0)), dtype)

    def order(self, count: int, of: int | None = None, dtype: str = "int64") -> Any:
        """Different integers below `of` (default: all below `count`), in any order."""
        return self.torch.randperm(of or count, device="cuda")[:count].to(getattr(self.torch, dtype))

    def slots(self, count: int, of: int) -> Any:
        """Different places of a state that has `of`; the first is nobody's."""
        return self.order(count, of - 1, "int32") + 1

    def pages(self, sequences: int, each: int, total: int) -> Any:
        """A table of pages: `each` for a sequence, all different, of a cache that has `total`."""
        return self.order(sequences * each, total, "int32").view(sequences, each)
