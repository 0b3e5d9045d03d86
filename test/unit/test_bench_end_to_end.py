"""The bench of whole kernels, without a GPU: what it knows before it runs, its order of turns and its table."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import triton
from triton_linear.examples import specs
from triton_linear.examples.spec import gpu_target

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench import end_to_end  # noqa: E402

TARGET = "cuda:90"


def test_every_example_is_timed_at_several_sizes() -> None:
    kernels = [workload.kernel for workload in end_to_end.workloads()]
    assert set(kernels) == {spec.name for spec in specs(gpu_target(TARGET))}
    assert all(kernels.count(kernel) >= 2 for kernel in kernels)
    names = [workload.name for workload in end_to_end.workloads()]
    assert len(set(names)) == len(names)


def test_occupancy_is_what_the_driver_says() -> None:
    """Against what CUDA's driver answered on an H200 for every kernel of the suite of conversions."""
    report = json.loads((ROOT / "bench" / "results" / "conversions.json").read_text())
    assert report["target"] == TARGET
    multiprocessor = end_to_end.MULTIPROCESSORS[90]
    checked = 0
    for case in report["cases"]:
        for facts in case["methods"].values():
            if "resident" in facts:
                found = multiprocessor.resident(facts["registers"], facts["shared"], case["warps"])
                assert found == facts["resident"], (case["name"], facts["registers"], facts["shared"])
                checked += 1
    assert checked > 300


def test_occupancy_has_each_of_its_limits() -> None:
    multiprocessor = end_to_end.MULTIPROCESSORS[80]
    assert multiprocessor.resident(registers=16, shared=0, warps=1) == 32
    assert multiprocessor.resident(registers=16, shared=0, warps=8) == 8
    assert multiprocessor.resident(registers=255, shared=0, warps=4) == 2
    assert multiprocessor.resident(registers=16, shared=81 << 10, warps=4) == 2
    assert multiprocessor.resident(registers=16, shared=82 << 10, warps=4) == 1


def test_a_dry_run_tells_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert end_to_end.main(["--dry", TARGET, "--only", "^transpose8", "--output", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "end_to_end_dry.json").read_text())
    (run,) = report["runs"]
    assert run["name"] == "transpose8"
    assert sum(run["conversions"].values()) == 1
    assert run["stock"]["shared"] > 0 and run["plugin"]["registers"] > 0
    assert "| transpose8 |" in capsys.readouterr().out


class FakeTorch:
    """Graphs that take the time that the context they were captured in takes."""

    def __init__(self, clock: dict[str, float]) -> None:
        self.clock, self.mode, self.now, self.replayed = clock, "stock", 0.0, []
        fake = self

        class Graph:
            def __init__(self) -> None:
                self.mode = fake.mode

            def replay(self) -> None:
                fake.replayed.append(self.mode)
                fake.now += fake.clock[self.mode]

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = fake.now

            def elapsed_time(self, other: Event) -> float:
                return other.at - self.at

        self.module = ModuleType("torch")
        self.module.cuda = SimpleNamespace(  # type: ignore[attr-defined]
            CUDAGraph=Graph,
            Event=Event,
            graph=lambda graph: nullcontext(),
            synchronize=lambda: None,
        )

    @contextmanager
    def plugin(self) -> Any:
        self.mode = "plugin"
        yield []
        self.mode = "stock"


class Tensor:
    """Which mode made it."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def clone(self) -> Tensor:
        return self


@pytest.mark.parametrize("same", [True, False])
def test_turns_alternate_and_ratios_are_of_stock(same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTorch({"stock": 3.0, "plugin": 2.0})
    monkeypatch.setitem(sys.modules, "torch", fake.module)
    monkeypatch.setattr(end_to_end, "modes", lambda: [("stock", nullcontext), ("plugin", fake.plugin)])
    monkeypatch.setattr(end_to_end, "same_bits", lambda a, b: same or a.mode == b.mode)
    monkeypatch.setattr(triton.testing, "do_bench", lambda *a, **k: 0.5)
    workload = end_to_end.Workload("f", {"n": 1}, lambda *_: lambda: {"out": Tensor(fake.mode)})
    found = end_to_end.measure(workload, gpu_target(TARGET), turns=3)
    assert found["launches"] == 4
    assert found["microseconds"] == {"stock": 750.0, "plugin": 500.0, "stock again": 750.0}
    assert found["stock_over_plugin"] == [1.5] * 3 and found["stock_over_stock"] == [1.0] * 3
    assert found["same_bits"] is same
    assert fake.replayed.count("plugin") == 5 and len(fake.replayed) == 15
    assert {fake.replayed[n] for n in range(0, 15, 3)} == {"stock", "plugin"}


def test_losers_come_first() -> None:
    resources = {"registers": 1, "spilled_bytes": 0, "shared": 0, "ctas": 1}
    run = {"microseconds": dict.fromkeys(end_to_end.MODES, 1.0), "stock": resources, "plugin": resources}
    run |= {"conversions": {"shuffle": 2}, "stock_over_stock": (0.99, 1.0, 1.01)}
    runs = [
        run | {"name": "winner", "stock_over_plugin": (1.1, 1.2, 1.3), "same_bits": True},
        run | {"name": "loser", "stock_over_plugin": (0.8, 0.9, 0.92), "same_bits": False},
    ]
    assert [r["name"] for r in sorted(runs, key=end_to_end.sort_key)] == ["loser", "winner"]
    head = {"device": "a GPU", "dry": False, "triton": "3", "triton_linear": "0", "date": "today"}
    text = end_to_end.markdown(head | {"runs": runs})
    assert (
        "| loser | 1.0 | 1.0 | 0.900 ± 0.060 | 1.000 ± 0.010 | DIFFERENT | 2 shuffle | 1 | 0 | 0 | 1 |" in text
    )
