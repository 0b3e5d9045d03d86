"""Copies of the arguments of a launch, without a GPU."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import pytest

from triton_linear.tools.support.copies import Copies, NoCopy


class FakeTensor:
    """A flat tensor of bytes on a storage that others may share; `set_` as PyTorch has it."""

    device = types.SimpleNamespace(type="cuda")
    dtype = "uint8"

    def __init__(self, storage: bytearray | None = None, offset: int = 0, size: int = 0) -> None:
        self.storage, self.offset, self.length = storage, offset, size

    def untyped_storage(self) -> Any:
        storage = self.storage
        assert storage is not None
        return types.SimpleNamespace(data_ptr=lambda: id(storage), nbytes=lambda: len(storage), storage=storage)

    def storage_offset(self) -> int:
        return self.offset

    def size(self) -> tuple[int]:
        return (self.length,)

    def stride(self) -> tuple[int]:
        return (1,)

    def set_(self, storage: Any, offset: int, size: tuple[int], stride: tuple[int]) -> FakeTensor:
        return FakeTensor(storage.storage, offset, *size)

    def clone(self) -> FakeTensor:
        return FakeTensor(bytearray(self.bytes), 0, self.length)

    def copy_(self, other: FakeTensor) -> None:
        self.write(other.bytes)

    @property
    def bytes(self) -> bytes:
        assert self.storage is not None
        return bytes(self.storage[self.offset : self.offset + self.length])

    def write(self, content: bytes) -> None:
        assert self.storage is not None
        self.storage[self.offset : self.offset + self.length] = content


@pytest.fixture
def tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much of PyTorch as copying asks for."""
    torch: Any = types.ModuleType("torch")
    torch.Tensor, torch.uint8 = FakeTensor, "uint8"
    torch.no_grad = contextlib.nullcontext
    torch.empty = lambda *_, **__: FakeTensor()
    torch.cuda = types.SimpleNamespace(OutOfMemoryError=MemoryError)
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_copies_share_what_the_arguments_share_and_nothing_with_them(tensors: None) -> None:
    storage = bytearray(b"abcdefgh")
    left, right, other = (
        FakeTensor(storage, 0, 6),
        FakeTensor(storage, 4, 4),
        FakeTensor(bytearray(b"xyz"), 0, 3),
    )
    copies = Copies((left, (right, 7), other, 5), ("*i8", ("*i8", "i32"), "*i8", "constexpr"))
    one, (two, seven), three, five = copies.arguments
    assert [one.bytes, two.bytes, seven, three.bytes, five] == [b"abcdef", b"efgh", 7, b"xyz", 5]
    two.write(b"1234")
    three.write(b"567")
    assert one.bytes == b"abcd12"
    assert (bytes(storage), other.bytes) == (b"abcdefgh", b"xyz")
    copies.restore()
    assert [one.bytes, two.bytes, three.bytes] == [b"abcdef", b"efgh", b"xyz"]


def test_what_cannot_be_copied_is_named(tensors: None) -> None:
    on_the_host = FakeTensor(bytearray(b"a"), 0, 1)
    on_the_host.device = types.SimpleNamespace(type="cpu")
    for argument, type_, why in ((1 << 40, "*fp32", "bare address"), (on_the_host, "*i8", "not on the GPU")):
        with pytest.raises(NoCopy, match=why):
            Copies((argument,), (type_,))
    with pytest.raises(NoCopy, match="1 arguments, and its signature has 2"):
        Copies((1,), ("i32", "i32"))
    assert Copies((None,), ("*fp32",)).arguments == (None,)


def test_copies_that_do_not_fit_are_none(tensors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def clone(self: FakeTensor) -> FakeTensor:
        raise MemoryError

    monkeypatch.setattr(FakeTensor, "clone", clone)
    with pytest.raises(NoCopy, match="no room"):
        Copies((FakeTensor(bytearray(b"a"), 0, 1),), ("*i8",))
