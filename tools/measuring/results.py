"""Whether a kernel computes what another one did."""

from __future__ import annotations

from typing import Any

from triton_linear.tools.support.copies import Copies

TOLERANCE = {
    "torch.float64": 1e-9,
    "torch.float32": 1e-4,
    "torch.float16": 2e-2,
    "torch.bfloat16": 4e-2,
}
"""What a result may be off where sums of floats are added in another order, as a part of its magnitude or, if
that is more, of the root mean square of its tensor."""
OTHER_FLOATS = 0.25
"""The same for floats of eight bits and fewer."""


class Results:
    """What a launch has left in the tensors that it was given: `copies`, as they are now."""

    def __init__(self, copies: Copies) -> None:
        self._tensors = [tensor.clone() for tensor in copies.tensors]

    def difference(self, expected: Results, before: Results) -> str:
        """In what they differ beyond tolerance from others of the same kernel, in words; "" if in nothing.

        before: what was there. How large results are is told by what was written: a buffer may hold anything.
        Where nothing has changed a launch before has left the same, and all of it counts.
        """
        triples = zip(self._tensors, expected._tensors, before._tensors, strict=True)
        return next(filter(None, (_difference(*triple) for triple in triples)), "")

    def same(self, expected: Results) -> bool:
        """Whether they are the same to the last bit."""
        return all(map(_same, self._tensors, expected._tensors))


def _bits(tensor: Any) -> Any:
    """The elements as integers of their size."""
    import torch

    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(kinds.get(tensor.element_size(), torch.uint8))


def _same(found: Any, expected: Any) -> bool:
    import torch

    return not found.numel() or torch.equal(_bits(found), _bits(expected))


def _usual(values: Any) -> float:
    """Their root mean square; 0 of none."""
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
    usual = _usual(written if written.numel() else second[known])
    first, second = first[known], second[known]
    if not first.numel():
        return ""
    size = second.abs().clamp(min=max(usual, 1e-300))
    worst = float(((first - second).abs() / size).max())
    if worst <= TOLERANCE.get(str(found.dtype), OTHER_FLOATS):
        return ""
    return f"a result of {found.dtype} differs by {worst:.3g} of its magnitude"
