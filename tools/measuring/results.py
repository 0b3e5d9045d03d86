"""Compare the results of two kernels."""

from __future__ import annotations

from typing import Any

from triton_linear.tools.support.copies import Copies

TOLERANCE = {
    "torch.float64": 1e-9,
    "torch.float32": 1e-4,
    "torch.float16": 2e-2,
    "torch.bfloat16": 4e-2,
}
"""The tolerance for sums of floats in another order, relative to the element's magnitude or, if that is
larger, to the root mean square of its tensor."""
OTHER_FLOATS = 0.25
"""The tolerance for floats of eight bits and fewer."""


class Results:
    """The present contents of the tensors of `copies`, after a launch."""

    def __init__(self, copies: Copies) -> None:
        self._tensors = [tensor.clone() for tensor in copies.tensors]

    def difference(self, expected: Results, before: Results) -> str:
        """How these results differ from `expected` beyond tolerance, in words; empty if they do not.

        before: the contents before the launch. The magnitude of a tensor is computed from the elements that
        the launch changed, because the rest of a buffer may hold anything; if none changed, from all
        elements.
        """
        triples = zip(self._tensors, expected._tensors, before._tensors, strict=True)
        return next(filter(None, (_difference(*triple) for triple in triples)), "")

    def same(self, expected: Results) -> bool:
        """Whether the results are bit for bit equal."""
        return all(map(_same, self._tensors, expected._tensors))


def _bits(tensor: Any) -> Any:
    """The elements as integers of their size."""
    import torch

    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(kinds.get(tensor.element_size(), torch.uint8))


def _same(found: Any, expected: Any) -> bool:
    import torch

    return not found.numel() or torch.equal(_bits(found), _bits(expected))


def _root_mean_square(values: Any) -> float:
    """The root mean square; 0 for no values."""
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _difference(found: Any, expected: Any, before: Any) -> str:
    import torch

    if _same(found, expected):
        return ""
    if not found.dtype.is_floating_point:
        return f"a result of {found.dtype} differs"
    first, second = (tensor.contiguous().to(torch.float64) for tensor in (found, expected))
    known = torch.isfinite(first) & torch.isfinite(second)
    odd = ~known & ~((first == second) | (torch.isnan(first) & torch.isnan(second)))
    if bool(odd.any()):
        return f"a result of {found.dtype} is infinite or no number where it was not"
    written = second[known & (_bits(expected) != _bits(before))]
    magnitude = _root_mean_square(written if written.numel() else second[known])
    first, second = first[known], second[known]
    if not first.numel():
        return ""
    size = second.abs().clamp(min=max(magnitude, 1e-300))
    worst = float(((first - second).abs() / size).max())
    if worst <= TOLERANCE.get(str(found.dtype), OTHER_FLOATS):
        return ""
    return f"a result of {found.dtype} differs by {worst:.3g} of its magnitude"
