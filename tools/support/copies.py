"""Copy a kernel's arguments, so that the kernel can be run again without changing the program's data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


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
