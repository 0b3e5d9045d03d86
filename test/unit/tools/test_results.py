"""Whether a variant computes what stock Triton's kernel does, on tensors of PyTorch where that is installed."""

from __future__ import annotations

import contextlib
import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest

from triton_linear.tools.measuring.results import Copies, NoCopy, Results

torch: Any = pytest.importorskip("torch")


def results(*tensors: Any) -> Results:
    copies: Any = SimpleNamespace(tensors=tensors)
    return Results(copies)


def difference(found: Any, expected: Any, before: Any) -> str:
    return results(found).difference(results(expected), results(before))


EMPTY = torch.zeros(64)


def test_the_same_bits_do_not_differ() -> None:
    odd = torch.tensor([float("nan"), float("inf"), -0.0])
    assert difference(odd, odd.clone(), torch.zeros(3)) == ""
    assert results(odd).same(results(odd.clone()))
    assert not results(torch.tensor([0.0])).same(results(torch.tensor([-0.0])))
    assert difference(torch.tensor([0.0]), torch.tensor([-0.0]), torch.ones(1)) == ""


@pytest.mark.parametrize(
    ("dtype", "small", "large"), [("float32", 1e-6, 2e-4), ("float16", 1e-3, 2e-2), ("bfloat16", 4e-3, 0.1)]
)
def test_rounding_is_tolerated_and_more_is_not(dtype: str, small: float, large: float) -> None:
    kind = getattr(torch, dtype)
    right = torch.arange(1, 65).to(kind)
    assert difference(right * (1 + small), right, EMPTY.to(kind)) == ""
    assert "in the mean" in difference(right * (1 + large), right, EMPTY.to(kind))


@pytest.mark.parametrize(
    ("apart", "said"), [(1.4e-4, ""), (1.8e-4, "a result of torch.float32 differs by 0.00018")]
)
def test_one_element_may_differ_by_several_times_the_mean(apart: float, said: str) -> None:
    right = torch.ones(1024)
    found = right.clone()
    found[5] += apart
    assert difference(found, right, EMPTY[:1].expand(1024)).startswith(said)
    assert bool(difference(found, right, EMPTY[:1].expand(1024))) == bool(said)


@pytest.mark.parametrize(("operand", "said"), [("bfloat16", ""), ("float32", "in the mean")])
def test_the_widest_tolerance_is_for_all_tensors(operand: str, said: str) -> None:
    """A kernel that multiplies matrices of bfloat16 rounds sums to that type before it multiplies again."""
    right, given = torch.ones(64), torch.ones(8, dtype=getattr(torch, operand))
    text = results(given, right * 1.002).difference(results(given, right), results(given, EMPTY))
    assert said in text and bool(said) == bool(text)


def test_integers_are_the_same_or_wrong() -> None:
    right = torch.arange(64)
    assert difference(right, right.clone(), right) == ""
    assert "int64" in difference(right + (right == 3), right, right)


def test_narrow_floats_lend_at_most_the_tolerance_of_bfloat16() -> None:
    right, given = torch.ones(64), torch.ones(8).to(torch.float8_e4m3fn)
    text = results(given, right * 1.02).difference(results(given, right), results(given, EMPTY))
    assert "in the mean" in text


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_squares_that_have_no_float_hide_nothing(size: float) -> None:
    right = torch.full((64,), size, dtype=torch.float64)
    assert "in the mean" in difference(2 * right, right, EMPTY.double())
    assert difference(right * (1 + 1e-14), right, EMPTY.double()) == ""


def test_what_only_the_variant_wrote_counts() -> None:
    right, found = torch.zeros(2048), torch.zeros(2048)
    right[:1024] = found[:1024] = 1000.0
    found[1024:] = 0.1
    assert "in the mean" in difference(found, right, torch.zeros(2048))


def test_what_a_buffer_held_does_not_hide_a_wrong_result() -> None:
    """The other half of the buffer is as it was, and huge."""
    before = torch.full((64,), 1e30)
    right, wrong = before.clone(), before.clone()
    right[:32], wrong[:32] = 1.0, 2.0
    assert "differ by" in difference(wrong, right, before)


def test_rounding_is_tolerated_where_the_launch_before_left_the_same() -> None:
    right = torch.tensor([4.0, 0.0])
    assert difference(torch.tensor([4.0, 1e-7]), right, right) == ""
    assert "differ by" in difference(torch.tensor([4.0, 1e-2]), right, right)


def test_numbers_that_are_none_are_the_same_or_wrong() -> None:
    nan, other = torch.full((4,), float("nan")), torch.full((4,), float("nan")).neg()
    assert difference(nan, other, torch.zeros(4)) == ""
    assert "infinite or no number" in difference(nan, torch.ones(4), torch.zeros(4))
    assert "infinite or no number" in difference(torch.full((4,), float("inf")), torch.ones(4), torch.zeros(4))


def test_small_results_beside_large_ones_are_judged_by_these() -> None:
    right = torch.tensor([1e4, 1e-3])
    assert difference(torch.tensor([1e4, 2e-3]), right, torch.zeros(2)) == ""
    assert "differ by" in difference(torch.tensor([1e4, 1e2]), right, torch.zeros(2))


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
