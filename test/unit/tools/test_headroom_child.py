"""The child that measures headroom, without a GPU: one launch, and copies of what it is given."""

from __future__ import annotations

import contextlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from measuring_support import FakeCuda, cuda
from plugin_support import compile_kernel, double, row_sums

from triton_linear.tools.measuring import child as headroom_child
from triton_linear.tools.measuring import headroom, rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.support.copies import Copies, NoCopy
from triton_linear.tools.support.launches import Launch

__all__ = ["cuda"]

# --- the child --------------------------------------------------------------------------------------------


def visited(tmp_path: Path, kernel: Any, **plan: Any) -> list[dict[str, Any]]:
    """The records of a child that is shown one launch of a kernel."""
    path = tmp_path / "records.jsonl"
    child = headroom_child.Child(MeasuringPlan(str(path), "script.py", [], seconds=0, **plan))
    behind = child.visit(Launch(compile_kernel(kernel), (4, 1, 1), ("x", "out", 32, 64)))
    if behind is not None:
        behind()
    return rounds.read_records(path)


def test_a_kernel_is_timed_in_the_modes_of_the_plan(tmp_path: Path, cuda: FakeCuda) -> None:
    records = visited(tmp_path, row_sums, modes=["ours", "free"])
    assert (records[0]["name"], records[0]["seen"], records[0]["grid"]) == ("row_sums", 1, [4, 1, 1])
    assert [record["begin"] for record in records if "begin" in record] == ["ours", "free"]
    ratios = {record["mode"]: record["ratio"] for record in records if "ratio" in record}
    assert ratios["free"] > 1.0
    (kernel,) = headroom.kernels_of(records)
    assert kernel.headroom == ratios["free"]
    assert [one.left_out for one in kernel.conversions] == [True]
    assert kernel.conversions[0].ours in ("shuffle", "warp-shared", "cta-shared")


def test_a_kernel_without_conversions_is_timed_once(tmp_path: Path, cuda: FakeCuda) -> None:
    records = visited(tmp_path, double, modes=["ours"])
    assert [record["begin"] for record in records if "begin" in record] == ["stock"]
    (kernel,) = headroom.kernels_of(records)
    assert (kernel.speedup, kernel.headroom, kernel.share) == (1.0, 1.0, None)


def test_what_is_to_be_skipped_is_not_run(tmp_path: Path, cuda: FakeCuda) -> None:
    (first, *_) = visited(tmp_path, row_sums)
    plan = {"modes": ["ours", "free"], "skip": [[first["kernel"], "free"]]}
    records = visited(tmp_path, row_sums, **plan)
    assert [record["begin"] for record in records if "begin" in record] == ["ours"]


def test_nothing_is_timed_while_a_graph_is_captured(tmp_path: Path, cuda: FakeCuda) -> None:
    cuda.capturing = True
    assert visited(tmp_path, row_sums, modes=["ours"]) == []


def test_a_failure_that_the_gpu_survives_is_recorded(
    tmp_path: Path, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("no room\nat all")

    monkeypatch.setattr(headroom_child, "again", fail)
    records = visited(tmp_path, row_sums, modes=["ours", "free"])
    problems = {record["mode"]: record["problem"] for record in records if "problem" in record}
    assert problems == dict.fromkeys(("ours", "free"), "ValueError: no room")


def test_a_failure_that_the_gpu_does_not_survive_ends_the_child(
    tmp_path: Path, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ending(BaseException):
        pass

    def end(status: int) -> None:
        raise Ending(status)

    def fault(*_: object) -> Any:
        cuda.broken = "CUDA error: an illegal memory access was encountered"
        return lambda: 1

    monkeypatch.setattr(headroom_child.os, "_exit", end)
    monkeypatch.setattr(headroom_child, "again", fault)
    with pytest.raises(Ending, match=str(headroom_child.FAULT)):
        visited(tmp_path, row_sums, modes=["free"])
    (problem,) = (r for r in rounds.read_records(tmp_path / "records.jsonl") if "problem" in r)
    assert (problem["mode"], "illegal memory access" in problem["problem"]) == ("free", True)


# --- copies -----------------------------------------------------------------------------------------------


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
