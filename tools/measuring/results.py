"""Copy the arguments of a kernel, so that it can be run again, and compare the results of two kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

TOLERANCE = {"torch.float64": 1e-10, "torch.float32": 2e-5, "torch.float16": 2e-3, "torch.bfloat16": 1e-2}
"""The tolerance by the type of an element, for sums of floats in another order: the largest root mean square
of a tensor's differences, relative to that of the tensor. For f16 and bf16 it is one or two roundings; for f32
what a product of tf32 makes of a sum in another order, simulated for 1024 terms (1.7e-5)."""
OTHER_FLOATS = 0.125
"""The tolerance for floats of eight bits and fewer: a rounding of e4m3."""
ONE_ELEMENT = 8.0
"""How many times that much one element may differ, relative to its magnitude or, if that is larger, to the root
mean square of its tensor. The largest of a million errors with a normal distribution is five times their root
mean square; sums that cancel have larger ones."""


class Results:
    """The present contents of the tensors of `copies`, after a launch."""

    def __init__(self, copies: Copies) -> None:
        self._tensors = [tensor.clone() for tensor in copies.tensors]

    def difference(self, expected: Results, before: Results) -> str:
        """How these results differ from `expected` beyond tolerance, in words; empty if they do not.

        A tensor's tolerance is that of its type or, if that is wider, of another tensor's, up to that of bf16:
        a kernel may round to a narrow type what it then stores in a wide one, such as operands of a matrix
        multiplication.

        before: the contents before the launch. Root mean squares are over the elements of a tensor that the
        launch changed, because the rest of a buffer may hold anything; if none changed, over all elements.
        """
        widest = min(max(map(_tolerance, self._tensors), default=0.0), TOLERANCE["torch.bfloat16"])
        triples = zip(self._tensors, expected._tensors, before._tensors, strict=True)
        return next(filter(None, (_difference(*triple, widest) for triple in triples)), "")

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


def _tolerance(tensor: Any) -> float:
    return TOLERANCE.get(str(tensor.dtype), OTHER_FLOATS) if tensor.dtype.is_floating_point else 0.0


def _difference(found: Any, expected: Any, before: Any, widest: float) -> str:
    import torch

    if _same(found, expected):
        return ""
    if not found.dtype.is_floating_point:
        return f"a result of {found.dtype} differs"
    tolerance = max(widest, _tolerance(found))
    first, second = (tensor.contiguous().to(torch.float64) for tensor in (found, expected))
    known = torch.isfinite(first) & torch.isfinite(second)
    odd = ~known & ~((first == second) | (torch.isnan(first) & torch.isnan(second)))
    if bool(odd.any()):
        return f"a result of {found.dtype} is infinite or no number where it was not"
    if not bool(known.any()):
        return ""
    largest = max(float(tensor[known].abs().max()) for tensor in (first, second)) or 1.0
    # The squares of what is divided by it are finite.
    apart, size = (first - second).abs_().div_(largest), second.abs().div_(largest)
    changed = [known & (_bits(tensor) != _bits(before)) for tensor in (expected, found)]
    written = changed[0] if bool(changed[0].any()) else known
    judged = written | changed[1]
    magnitude = max(_root_mean_square(size[written]), 1e-300)
    mean = _root_mean_square(apart[judged]) / magnitude
    if mean > tolerance:
        return f"results of {found.dtype} differ by {mean:.3g} of their magnitude in the mean"
    worst = float((apart / size.clamp(min=magnitude))[known].max())
    if worst > ONE_ELEMENT * tolerance:
        return f"a result of {found.dtype} differs by {worst:.3g} of its magnitude"
    return ""


class NoCopy(Exception):
    """A kernel's arguments cannot be copied; the message says why."""


class Copies:
    """`arguments` with every tensor copied, and the initial contents of the copies.

    Whole storages are copied: views that share a storage still share one, at the same offsets.
    """

    def __init__(self, arguments: Sequence[Any], types: Sequence[Any]) -> None:
        import torch

        self._torch: Any = torch
        self._storages: dict[int, tuple[Any, Any]] = {}
        self.tensors: list[Any] = []
        """The copies of all tensors in the arguments, also of those nested in other arguments."""
        if len(arguments) != len(types):
            raise NoCopy(f"it was launched with {len(arguments)} arguments, and its signature has {len(types)}")
        try:
            with torch.no_grad():
                self.arguments = tuple(self._copied(*pair) for pair in zip(arguments, types, strict=True))
        except torch.cuda.OutOfMemoryError as error:
            raise NoCopy("there is no room for two copies of its arguments") from error

    def restore(self) -> None:
        """Restore the initial contents of the copies."""
        with self._torch.no_grad():
            for initial, used in self._storages.values():
                used.copy_(initial)

    def _copied(self, argument: Any, type_: Any = "") -> Any:
        if isinstance(argument, self._torch.Tensor):
            return self._tensor(argument)
        if isinstance(argument, tuple | list):
            types = type_ if isinstance(type_, tuple | list) else [""] * len(argument)
            values = [self._copied(*pair) for pair in zip(argument, types, strict=True)]
            return type(argument)(*values) if hasattr(argument, "_fields") else type(argument)(values)
        if hasattr(argument, "block_shape") and hasattr(argument, "base"):  # a TensorDescriptor
            return dataclasses.replace(argument, base=self._copied(argument.base))
        if hasattr(argument, "data_ptr"):
            if not hasattr(argument, "base"):
                raise NoCopy(f"it takes a {type(argument).__name__}, which cannot be copied")
            return type(argument)(self._copied(argument.base), argument.dtype)
        if str(type_).startswith("*") and argument is not None:
            raise NoCopy("it takes a bare address")
        return argument

    def _tensor(self, tensor: Any) -> Any:
        torch = self._torch
        if tensor.device.type != "cuda":
            raise NoCopy("it takes a tensor that is not on the GPU")
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._storages:
            size = (storage.nbytes(),)
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, size, (1,))
            self._storages[address] = (whole.clone(), whole.clone())
        used = self._storages[address][1].untyped_storage()
        place = (tensor.storage_offset(), tensor.size(), tensor.stride())
        copied = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(used, *place)
        self.tensors.append(copied)
        return copied
