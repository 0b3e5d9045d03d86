"""What the suite of whole kernels measures in its process, against a GPU that is played by numpy.

The played GPU computes what a captured call computes again at each replay, and its clock moves by what the
call is said to take. So what is shown is which results are compared, and which times are divided.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.kernels import cases as all_cases
from bench.kernels import measure, modes
from bench.kernels.case import TRITON, Case


class DType(str):
    @property
    def is_floating_point(self) -> bool:
        return self.startswith("float")


class Tensor(np.ndarray):
    """An array with as much of a tensor as is asked for."""

    dtype = property(lambda self: DType(np.asarray(self).dtype.name))

    def view(self, kind: Any) -> Any:
        return np.asarray(self).view(kind)

    def double(self) -> Any:
        return self.astype(np.float64)

    def clone(self) -> Any:
        return self.copy()

    def isfinite(self) -> Any:
        return np.isfinite(self)

    def nan_to_num(self) -> Any:
        return np.nan_to_num(np.asarray(self)).view(Tensor)

    def numel(self) -> int:
        return self.size

    def abs(self) -> Any:
        return abs(self)

    def untyped_storage(self) -> Any:
        return SimpleNamespace(fill_=np.asarray(self).view(np.uint8).fill)


class GPU:
    """Its clock in milliseconds, the graph that is being captured, and everything written between replays."""

    def __init__(self) -> None:
        self.now = 0.0
        self.capturing: Graph | None = None
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1
        self.now += 100


class Graph:
    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def replay(self) -> None:
        for call in self.calls:
            call()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> GPU:
    played = GPU()

    @contextmanager
    def capture(graph: Graph, pool: object) -> Iterator[None]:
        played.capturing = graph
        yield
        played.capturing = None

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing
            self.at = 0.0

        def record(self) -> None:
            self.at = played.now

        def elapsed_time(self, other: Event) -> float:
            return other.at - self.at

    torch = ModuleType("torch")
    stream = SimpleNamespace(wait_stream=lambda other: None)
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        CUDAGraph=Graph,
        graph=capture,
        graph_pool_handle=object,
        Event=Event,
        Stream=lambda: stream,
        stream=lambda _: nullcontext(),
        current_stream=lambda: stream,
        synchronize=lambda: None,
        empty_cache=lambda: None,
    )
    torch.Generator = lambda _: SimpleNamespace(manual_seed=lambda seed: None)  # type: ignore[attr-defined]
    torch.manual_seed = lambda seed: None  # type: ignore[attr-defined]
    torch.no_grad = nullcontext  # type: ignore[attr-defined]
    torch.uint8 = np.uint8  # type: ignore[attr-defined]
    torch.empty = lambda *_, **__: SimpleNamespace(zero_=played.flush)  # type: ignore[attr-defined]
    torch.equal = np.array_equal  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(measure, "_session", None)
    monkeypatch.setattr(measure, "_flush", None)
    return played


class Played:
    """A case that takes so long, and gives such results, in each mode."""

    def __init__(self, gpu: GPU, monkeypatch: pytest.MonkeyPatch, **case: Any) -> None:
        self.gpu = gpu
        self.mode = "stock"
        self.milliseconds: dict[str, float] = {}
        self.values: dict[str, Any] = {}
        self.made = 0
        played = Case("played", "g", TRITON, self.make, **case)
        monkeypatch.setattr(all_cases, "by_name", lambda name: played)
        monkeypatch.setattr(modes, "context", self.context)

    @contextmanager
    def context(self, mode: str, strict: bool = False) -> Iterator[list[Any]]:
        before, self.mode = self.mode, mode
        try:
            yield []
        finally:
            self.mode = before

    def make(self, torch: Any, inputs: Any) -> Any:
        self.made += 1
        return self.launch, ()

    def launch(self) -> list[Tensor]:
        mode = self.mode
        value = self.values.get(mode, np.arange(4, dtype=np.float32))
        out = np.zeros_like(value).view(Tensor)

        def compute() -> None:
            out[...] = value
            self.gpu.now += self.milliseconds.get(mode, 1.0)

        compute()
        if self.gpu.capturing is not None:
            self.gpu.capturing.calls.append(compute)
        return [out]


EFFORT = measure.Effort(turns=9, cold=5)


def test_times_are_of_one_call_and_ratios_of_stock(gpu: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(gpu, monkeypatch)
    played.milliseconds = {"stock": 0.125, "ours": 0.0625, "again": 0.125}
    found = measure.run("played", ["ours", "again"], EFFORT)
    assert found["calls"] == 4  # Of an eighth of a millisecond, to fill the time that a graph should take.
    assert found["modes"]["stock"]["microseconds"] == pytest.approx(125.0)
    assert found["modes"]["ours"]["ratio"] == pytest.approx([2.0, 2.0, 2.0])
    assert found["modes"]["again"]["ratio"] == pytest.approx([1.0, 1.0, 1.0])
    assert found["modes"]["ours"]["cold"]["ratio"] == pytest.approx([2.0, 2.0, 2.0])
    assert found["modes"]["stock"]["cold"]["microseconds"] == pytest.approx(125.0)
    assert gpu.flushes == 3 * (6 + 3)  # Five turns are made six, so that each of three is first twice.
    assert found["modes"]["ours"]["result"] == "identical" and found["modes"]["ours"]["deterministic"]


@pytest.mark.parametrize(
    ("stock", "ours", "case", "verdict"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), {}, "identical"),
        (np.float32([1, -2]), np.float32([1 + 1e-6, -2]), {}, "within tolerance"),
        (np.float32([1, 2]), np.float32([1.01, 2]), {}, "WRONG"),
        (np.float32([1, 2]), np.float32([1.01, 2]), {"tolerance": 0.02}, "within tolerance"),
        (np.float32([1, np.inf, -np.inf, np.nan]), np.float32([1, np.inf, -np.inf, np.nan]), {}, "identical"),
        (np.float32([1, np.inf]), np.float32([1 + 1e-6, np.inf]), {}, "within tolerance"),
        (np.float32([1, np.inf]), np.float32([1 + 1e-6, -np.inf]), {}, "WRONG"),
        (np.float32([np.nan]), -np.float32([np.nan]), {}, "within tolerance"),
        (np.float32([1, 2]), np.float32([1, np.nan]), {}, "WRONG"),
        (np.int32([1, 2]), np.int32([1, 3]), {}, "WRONG"),
        (np.int32([1, 2]), np.int32([1, 3]), {"slack": 1}, "within tolerance"),
        (np.int32([1, 2]), np.float32([1, 2]), {}, "WRONG"),
        (np.float32([1, 2]), np.float32([1, 2, 3]), {}, "WRONG"),
    ],
)
def test_results_are_compared_with_those_of_stock(
    gpu: GPU, monkeypatch: pytest.MonkeyPatch, stock: Any, ours: Any, case: dict[str, Any], verdict: str
) -> None:
    played = Played(gpu, monkeypatch, **case)
    played.values = {"stock": stock, "ours": ours}
    found = measure.run("played", ["ours"], EFFORT)
    assert found["modes"]["ours"]["result"] == verdict


def test_what_is_not_written_shows(gpu: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that held the right result before must not pass for one."""
    played = Played(gpu, monkeypatch)
    replay = Graph.replay
    monkeypatch.setattr(Graph, "replay", lambda self: None if gpu.now < 0 else replay(self))
    session = measure.Session(all_cases.by_name("played"), EFFORT)
    (right,) = session.results("stock")
    assert right.tolist() == [0, 1, 2, 3]
    gpu.now = -1e9  # From here on nothing is computed.
    assert session.results("stock")[0].tolist() != [0, 1, 2, 3]
    assert played.made == 1
