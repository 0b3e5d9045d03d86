"""`triton-linear headroom` without a GPU: its children played by others, its figures made up."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import triton
from plugin_support import CUDA, FakeDriver, compile_kernel, double, row_sums
from rich.console import Console
from triton.backends.nvidia import driver as nvidia
from triton.compiler.compiler import CompiledKernel
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Config
from triton.runtime.jit import MockTensor
from triton_linear.tools import headroom, headroom_child, headroom_figures
from triton_linear.tools.cli import main
from triton_linear.tools.copies import Copies, NoCopy
from triton_linear.tools.errors import ToolError
from triton_linear.tools.headroom import Ended, Plan
from triton_linear.tools.launches import Launch, Watch, again
from triton_linear.tools.modes import MODES, mode
from triton_linear.tools.timing import Timings, side_by_side

# --- the timing core --------------------------------------------------------------------------------------


class Drifting:
    """A clock of a GPU that gets slower from one measurement to the next."""

    def __init__(self, speeds: dict[Callable[[], object], float]) -> None:
        self.speeds = speeds
        self.measured = 0
        self.rows: list[int] = []

    def time(self, launch: Callable[[], object], before: Callable[[], object] | None, row: int) -> float:
        if before is not None:
            before()
        for _ in range(row):
            launch()
        self.rows.append(row)
        self.measured += 1
        return self.speeds[launch] * (1 + self.measured / 50)


def test_drift_does_not_show_in_ratios() -> None:
    calls: list[str] = []
    slow, fast = lambda: calls.append("slow"), lambda: calls.append("fast")
    clock = Drifting({slow: 300.0, fast: 150.0})
    timings = side_by_side({"a": slow, "b": fast}, clock, before=lambda: calls.append("before"), seconds=0)
    assert timings.ratio("a", "b") == pytest.approx(2.0, rel=0.03)
    assert clock.rows == [1] * len(clock.rows)
    assert calls[::2] == ["before"] * (len(calls) // 2)
    # After two for warming up each: five turns, whose order changes.
    assert calls[1::2][4:] == ["slow", "fast", "fast", "slow", "slow", "fast", "fast", "slow", "slow", "fast"]


@pytest.mark.parametrize(("in_a_row", "row"), [(True, 10), (False, 1)])
def test_short_kernels_are_launched_in_a_row_unless_they_must_not(in_a_row: bool, row: int) -> None:
    launch: Callable[[], None] = lambda: None  # noqa: E731
    clock = Drifting({launch: 2.0})
    side_by_side({"a": launch}, clock, seconds=0, in_a_row=in_a_row)
    assert clock.rows[2:] == [row] * 5


def test_a_ratio_is_the_median_of_the_turns_ratios() -> None:
    timings = Timings({"a": (10.0, 20.0, 90.0), "b": (10.0, 10.0, 10.0)})
    assert timings.ratio("a", "b") == 2.0


# --- modes ------------------------------------------------------------------------------------------------


def test_modes_compile_each_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert set(MODES) == {"stock", "ours", "lower", "assign", "free"}
    made: dict[str, str] = {}
    for name in ("stock", "ours", "free", "free:0", "free:7"):
        with mode(name) as reports:
            made[name] = compile_kernel(row_sums, CUDA).asm["ptx"]
        assert [report.free for report in reports] == {"stock": [], "ours": [0]}.get(
            name, [int(name != "free:7")]
        )
    assert made["stock"] == made["free:7"] != made["ours"]
    assert made["free"] == made["free:0"] != made["ours"]


@pytest.mark.parametrize("name", ["", "fast", "ours:1"])
def test_there_is_no_other_mode(name: str) -> None:
    with pytest.raises(ValueError, match="no mode"):
        mode(name)


# --- launches ---------------------------------------------------------------------------------------------


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[tuple[Any, ...]]]:
    """What a GPU that is not there is asked to launch; Triton is as it was afterwards."""
    found: list[tuple[Any, ...]] = []

    def launch(self: Any, *arguments: Any) -> None:
        found.append(arguments)

    def init_handles(self: Any) -> None:
        self._run, self.module, self.function = nvidia.CudaLauncher.__new__(nvidia.CudaLauncher), 1, 2

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(nvidia.CudaLauncher, "__call__", launch)
    monkeypatch.setattr(CompiledKernel, "_init_handles", init_handles)
    monkeypatch.setattr(CompiledKernel, "__init__", CompiledKernel.__init__)
    monkeypatch.setattr(Autotuner, "_bench", Autotuner._bench)
    monkeypatch.setattr(driver, "_active", FakeDriver(CUDA))
    row_sums.device_caches.clear()
    yield found
    row_sums.device_caches.clear()


def arguments() -> tuple[MockTensor, MockTensor]:
    return MockTensor(triton.language.float32), MockTensor(triton.language.float32)


def test_every_way_to_launch_is_seen_and_counted(launched: list[tuple[Any, ...]]) -> None:
    seen: list[Launch] = []
    order: list[str] = []

    def visit(launch: Launch) -> Callable[[], None]:
        seen.append(launch)
        order.append(f"before {len(launched)}")
        return lambda: order.append(f"behind {len(launched)}")

    watch = Watch(visit)
    watch.start()
    x, out = arguments()
    for _ in range(3):
        row_sums[(4,)](x, out, 32, 64)
    row_sums[(5, 2)](x, out, 32, 64)
    compiled = compile_kernel(row_sums)
    compiled[(7, 1, 1)](x, out)
    assert [launch.grid for launch in seen] == [(4, 1, 1), (5, 2, 1), (7, 1, 1)]
    assert order == ["before 0", "behind 1", "before 3", "behind 4", "before 4", "behind 5"]
    assert sorted(watch.counts.values()) == [1, 1, 3]
    assert seen[0].arguments == (x, out, 32, 64)
    assert seen[0].types == ("*fp32", "*fp32", "constexpr", "constexpr")
    assert seen[0].kernel.asm["ttgir"].count("ttg.convert_layout") == 1


def test_launches_that_choose_a_configuration_are_not_shown(launched: list[tuple[Any, ...]]) -> None:
    grids: list[tuple[int, ...]] = []

    def visit(launch: Launch) -> Callable[[], None]:
        grids.append((launch.kernel.metadata.num_warps, *launch.grid))
        return lambda: None

    watch = Watch(visit)
    watch.start()

    def bench(call: Callable[[], None], quantiles: Sequence[float]) -> list[float]:
        call()
        return [1.0 + len(launched)] * 3

    configs = [Config({"BN": 64}, num_warps=warps) for warps in (2, 4)]
    tuned = triton.autotune(configs, key=[], do_bench=bench)(row_sums)
    compile_kernel()  # the choosers are patched when a kernel is made
    tuned[(4,)](*arguments(), BM=32)
    assert len(launched) == 3
    assert grids == [(2, 4, 1, 1)]


def test_a_visitor_can_wait_for_the_next_launch(launched: list[tuple[Any, ...]]) -> None:
    visits: list[str] = []
    watch = Watch(lambda launch: visits.append(launch.key))  # type: ignore[func-returns-value]
    watch.start()
    for _ in range(2):
        row_sums[(4,)](*arguments(), 32, 64)
    assert len(visits) == 2
    assert len(set(visits)) == 1


def test_a_kernel_made_anew_is_launched_alike(launched: list[tuple[Any, ...]]) -> None:
    seen: list[Launch] = []
    watch = Watch(lambda launch: seen.append(launch) or (lambda: None))  # type: ignore[func-returns-value]
    watch.start()
    row_sums[(4,)](*arguments(), 32, 64)
    free, reports = headroom_child.compiled(seen[0].kernel, "free")
    assert [report.free for report in reports] == [1]
    stock, reports = headroom_child.compiled(seen[0].kernel, "stock")
    assert reports == []
    assert stock.hash == seen[0].kernel.hash != free.hash
    assert stock.asm["ptx"] == seen[0].kernel.asm["ptx"] != free.asm["ptx"]
    with watch.aside():
        again(free, seen[0], ("copy", "copy", 32, 64))()
    first, second = launched
    assert first[:3] == second[:3] == (4, 1, 1)
    assert second[-4:] == ("copy", "copy", 32, 64)
    assert second[6:9] == (None, None, None)  # no launch metadata, no hooks: nobody is told
    assert len(seen) == 1


# --- the child --------------------------------------------------------------------------------------------


class FakeCuda(types.ModuleType):
    """As much of `torch.cuda` as the child asks for; `broken` is what the GPU says from then on."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")
        self.capturing = False
        self.broken = ""

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_device(self) -> int:
        return 0

    def synchronize(self) -> None:
        if self.broken:
            raise RuntimeError(self.broken)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCuda:
    """A child's surroundings: copies are the arguments, and a launch takes as long as its code is."""
    torch = types.ModuleType("torch")
    torch.cuda = FakeCuda()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))

    class Same:
        def __init__(self, arguments: Any, types: Any) -> None:
            self.arguments = arguments

        def restore(self) -> None:
            pass

    class Lines:
        def __init__(self, flush: bool) -> None:
            pass

        def time(self, launch: Any, before: Any, row: int) -> float:
            return float(launch())

    def lines(kernel: Any, launch: Any, arguments: Any) -> Callable[[], int]:
        return lambda: len(kernel.asm["ptx"].splitlines())

    monkeypatch.setattr(headroom_child, "Copies", Same)
    monkeypatch.setattr(headroom_child, "GpuClock", Lines)
    monkeypatch.setattr(headroom_child, "again", lines)
    return torch.cuda  # type: ignore[no-any-return]


def visited(tmp_path: Path, kernel: Any, **plan: Any) -> list[dict[str, Any]]:
    """The records of a child that is shown one launch of a kernel."""
    path = tmp_path / "records.jsonl"
    child = headroom_child.Child(Plan(str(path), "script.py", [], seconds=0, **plan))
    behind = child.visit(Launch(compile_kernel(kernel), (4, 1, 1), ("x", "out", 32, 64)))
    if behind is not None:
        behind()
    return headroom.read_records(path)


def test_a_kernel_is_timed_in_the_modes_of_the_plan(tmp_path: Path, cuda: FakeCuda) -> None:
    records = visited(tmp_path, row_sums, modes=["ours", "free"], each=True)
    assert (records[0]["name"], records[0]["seen"], records[0]["grid"]) == ("row_sums", 1, [4, 1, 1])
    assert [record["begin"] for record in records if "begin" in record] == ["ours", "free", "free:0"]
    ratios = {record["mode"]: record["ratio"] for record in records if "ratio" in record}
    assert ratios["free"] == ratios["free:0"] > 1.0
    (kernel,) = headroom_figures.kernels_of(records)
    assert [(one.left_out, one.headroom) for one in kernel.conversions] == [(True, ratios["free"])]
    assert kernel.conversions[0].ours in ("shuffle", "warp-shared", "cta-shared")


def test_a_kernel_without_conversions_is_timed_once(tmp_path: Path, cuda: FakeCuda) -> None:
    records = visited(tmp_path, double, modes=["ours"])
    assert [record["begin"] for record in records if "begin" in record] == ["stock"]
    (kernel,) = headroom_figures.kernels_of(records)
    assert (kernel.speedup, kernel.headroom, kernel.share) == (1.0, 1.0, None)


def test_what_is_to_be_skipped_is_not_run(tmp_path: Path, cuda: FakeCuda) -> None:
    (first, *_) = visited(tmp_path, row_sums)
    plan = {"modes": ["ours", "free"], "skip": [[first["kernel"], "free"]]}
    records = visited(tmp_path, row_sums, each=True, **plan)
    assert [record["begin"] for record in records if "begin" in record] == ["ours", "free:0"]


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
    (problem,) = (r for r in headroom.read_records(tmp_path / "records.jsonl") if "problem" in r)
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


# --- the children that go wrong ---------------------------------------------------------------------------

PROGRAM = Plan("", "script.py", [])


def of(key: str, mode: str, ratio: float) -> list[dict[str, Any]]:
    """The records of one comparison."""
    times = {"stock": 10.0, mode: 10.0 / ratio}
    return [
        {"kernel": key, "begin": mode},
        {"kernel": key, "mode": mode, "ratio": ratio, "microseconds": times},
    ]


class Played:
    """Children that time kernels "a" and "b", and go wrong at what `wrong` says, each time they come to it."""

    def __init__(self, wrong: dict[tuple[str, str], Ended], problem: str = "") -> None:
        self.wrong = wrong
        self.problem = problem
        self.plans: list[Plan] = []
        self.loud: list[bool] = []

    def __call__(self, plan: Plan, loud: bool) -> Ended:
        self.plans.append(plan)
        self.loud.append(loud)
        with open(plan.records, "a") as file:
            for key in ("a", "b"):
                new = {"kernel": key, "name": key, "grid": [1, 1, 1], "warps": 4, "seen": 1}
                print(json.dumps(new), file=file)
                for mode_ in plan.modes:
                    if [key, mode_] in plan.skip:
                        continue
                    if (key, mode_) in self.wrong:
                        print(json.dumps({"kernel": key, "begin": mode_}), file=file)
                        if self.problem:
                            said = {"kernel": key, "mode": mode_, "problem": self.problem}
                            print(json.dumps(said), file=file)
                        print('{"kernel": "cut o', end="", file=file)
                        return self.wrong[key, mode_]
                    for record in of(key, mode_, {"ours": 1.25, "free": 2.0}[mode_]):
                        print(json.dumps(record), file=file)
            print(json.dumps({"launches": {"a": 3, "b": 5}}), file=file)
        return Ended(0)


@pytest.mark.parametrize(
    ("ended", "said", "expected"),
    [
        (Ended(headroom_child.FAULT), "RuntimeError: illegal memory access", "illegal memory access"),
        (Ended(headroom_child.FAULT), "", "faulted"),
        (Ended(-signal.SIGSEGV), "", "crashed with SIGSEGV"),
        (Ended(-signal.SIGKILL, too_long=True), "", "did not end"),
    ],
)
def test_a_fault_costs_one_figure(tmp_path: Path, ended: Ended, said: str, expected: str) -> None:
    play = Played({("a", "free"): ended}, said)
    records, status = headroom.measure(PROGRAM, False, tmp_path, play)
    assert status == 0
    assert play.loud == [True, False, False]
    kernels = {kernel.name: kernel for kernel in headroom_figures.kernels_of(records)}
    assert (kernels["a"].speedup, kernels["a"].headroom) == (1.25, None)
    assert expected in kernels["a"].problems["free"]
    assert (kernels["b"].speedup, kernels["b"].headroom, kernels["b"].launches) == (1.25, 2.0, 5)
    assert kernels["b"].share == pytest.approx(0.4)


def test_a_fault_of_ours_costs_one_figure_too(tmp_path: Path) -> None:
    play = Played({("b", "ours"): Ended(headroom_child.FAULT), ("b", "free"): Ended(headroom_child.FAULT)})
    records, status = headroom.measure(PROGRAM, False, tmp_path, play)
    assert status == 0
    kernels = {kernel.name: kernel for kernel in headroom_figures.kernels_of(records)}
    assert (kernels["b"].speedup, kernels["b"].headroom) == (None, None)
    assert (kernels["a"].speedup, kernels["a"].headroom) == (1.25, 2.0)
    assert [plan.modes for plan in play.plans] == [["ours"]] * 2 + [["free"]] * 2


def test_a_program_that_crashes_by_itself_is_not_run_again(tmp_path: Path) -> None:
    def crash(plan: Plan, loud: bool) -> Ended:
        Played({})(plan, loud)
        return Ended(-signal.SIGSEGV)

    records, status = headroom.measure(PROGRAM, False, tmp_path, crash)
    assert status == -signal.SIGSEGV
    assert len(headroom_figures.kernels_of(records)) == 2


def test_a_child_that_does_not_end_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    begun = json.dumps({"kernel": "a", "begin": "free"})
    script.write_text(
        "import json, sys, time\n"
        "plan = json.load(open(sys.argv[1]))\n"
        f"open(plan['records'], 'a').write('{begun}\\n')\n"
        "time.sleep(600)\n"
    )
    records = tmp_path / "records.jsonl"
    records.touch()
    plan = Plan(str(records), "script.py", [])
    ended = headroom.run_child(plan, False, (sys.executable, str(script)), patience=0.5)
    assert ended.too_long
    assert headroom.unfinished(headroom.read_records(records), ended) == ("a", "free")


def test_a_long_program_is_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("import time\ntime.sleep(1.5)\nraise SystemExit(3)\n")
    records = tmp_path / "records.jsonl"
    records.touch()
    plan = Plan(str(records), "script.py", [])
    assert headroom.run_child(plan, False, (sys.executable, str(script)), patience=0.1) == Ended(3)


def test_the_child_becomes_the_program(tmp_path: Path) -> None:
    """A program that launches nothing, run by the child itself; its end is recorded whatever it is."""
    script = tmp_path / "program.py"
    script.write_text("import sys\nassert __name__ == '__main__'\nsys.exit(len(sys.argv))\n")
    records = tmp_path / "records.jsonl"
    records.touch()
    assert headroom.run_child(Plan(str(records), str(script), ["--a", "b"]), True) == Ended(3)
    assert headroom.read_records(records) == [{"launches": {}}]


# --- what is printed --------------------------------------------------------------------------------------

MMA = (
    "tensor<64x32xf16, #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], "
    "instrShape = [16, 8]}>>"
)
BLOCKED = (
    "tensor<64x32xf16, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>>"
)


def made_up() -> list[dict[str, Any]]:
    """A kernel worth looking at, a faster one that faulted, and one without conversions."""
    places = [
        ["k.py:3", MMA, BLOCKED, "cta-shared", ""],
        ["k.py:9", BLOCKED, MMA, "triton", "it is an address"],
    ]
    free = [[*places[0][:3], "free", ""], [*places[1][:3], "triton", "it leads to an address [x]"]]
    names = (("a", "matmul", 2), ("b", "softmax", 1), ("c", "add", 0))
    return [
        *({"kernel": k, "name": n, "grid": [8, 2, 1], "warps": 4, "seen": seen} for k, n, seen in names),
        {"kernel": "a", "mode": "ours", "conversions": places},
        *of("a", "ours", 1.25),
        *of("b", "ours", 1.0),
        *of("c", "stock", 1.0),
        {"launches": {"a": 100, "b": 1, "c": 10, "d": 5}},
        {"kernel": "a", "mode": "free", "conversions": free},
        *of("a", "free", 2.0),
        *of("a", "free:0", 1.6),
        {"kernel": "b", "begin": "free"},
        {"kernel": "b", "mode": "free", "problem": "faulted"},
        {"launches": {"a": 1}},
    ]


def test_figures_are_put_together() -> None:
    a, c, b = headroom_figures.kernels_of(made_up())
    assert (a.name, b.name, c.name) == ("matmul", "softmax", "add")
    assert (a.launches, a.microseconds, a.total, a.to_save) == (100, 10.0, 1000.0, 500.0)
    assert a.saved == pytest.approx(200.0)
    assert [(one.ours, one.left_out, one.headroom) for one in a.conversions] == [
        ("cta-shared", True, 1.6),
        ("triton", False, None),
    ]
    assert b.problems == {"free": "faulted"}
    total = headroom_figures.Sum.of([a, b, c])
    assert (total.total, total.known, total.to_save) == (1110.0, 1100.0, 500.0)


def test_what_is_noise_has_no_share() -> None:
    kernel = headroom_figures.Kernel("k", "k", (1, 1, 1), 4, 1, 1, 10.0, speedup=1.1, headroom=1.001)
    assert kernel.share is None


def test_the_table_and_the_sentence() -> None:
    kernels = headroom_figures.kernels_of(made_up())
    console = Console(width=160)
    with console.capture() as captured:
        console.print(headroom_figures.table_of(kernels, "some GPU", each=True))
    lines = [line.split() for line in captured.get().splitlines()]
    assert lines[4][:7] == ["matmul", "8x2x1", "100", "10.0", "1.250", "2.000", "40%"]
    text = captured.get()
    assert "1 cta-shared, 1 left; 1 not free" in text
    assert "k.py:3 64x32xf16" in text
    assert "1.600" in text
    assert "kept" in text
    assert "it leads to an address [x]" in text
    assert "free: faulted" in text
    assert headroom_figures.sentence(kernels) == (
        "3 kernels, 111 launches, 1.110 ms in stock Triton (1 kernel without all figures, 1% of the time): "
        "without its layout conversions it would be 45.5% less, and ours takes off 18.2%, 40% of what there is "
        "to take"
    )


def chosen(tmp_path: Path, **options: Any) -> Any:
    defaults = {"script": "s.py", "arguments": ["x"], "json": tmp_path / "figures.json", "conversions": False}
    return types.SimpleNamespace(**{**defaults, **options})


def test_json_has_what_the_table_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headroom.show(made_up(), 0, "some GPU", chosen(tmp_path)) == 0
    found = json.loads((tmp_path / "figures.json").read_text())
    assert (found["device"], found["command"]) == ("some GPU", ["s.py", "x"])
    first = found["kernels"][0]
    assert (first["kernel"], first["stock_over_free"], first["share_taken"]) == (
        "matmul",
        2.0,
        pytest.approx(0.4),
    )
    assert found["kernels"][2]["problems"] == {"free": "faulted"}
    assert found["microseconds"]["saved_if_conversions_were_free"] == 500.0
    assert "matmul" in capsys.readouterr().out


def test_a_program_that_fails_has_its_figures_and_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToolError, match="ended with status 3; the figures are for what it did before"):
        headroom.show(made_up(), 3, "some GPU", chosen(tmp_path))
    assert "matmul" in capsys.readouterr().out


@pytest.mark.parametrize(("status", "why"), [(0, "program ended without"), (1, "with status 1 without")])
def test_a_program_that_launches_nothing(tmp_path: Path, status: int, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        headroom.show([{"launches": {}}], status, "some GPU", chosen(tmp_path))


# --- the command line -------------------------------------------------------------------------------------


def test_bad_input_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, binary = tmp_path / "text.md", tmp_path / "binary"
    text.write_text("It's no program\n")
    binary.write_bytes(bytes(range(256)))
    cases = {
        str(tmp_path / "missing.py"): "cannot open script: No such file",
        str(tmp_path): "is a folder, and not a Python script",
        str(text): "is not a Python script",
        str(binary): "is not a Python script",
    }
    for script, message in cases.items():
        assert main(["headroom", script, "--json", "passed on"]) == 1
        errors = capsys.readouterr().err
        assert message in errors
        assert "Traceback" not in errors
        assert errors.count("error:") == 1


def test_without_a_gpu_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n")
    for code, why in (
        ("import sys; sys.exit('PyTorch finds none')", "finds none"),
        ("import os; os.abort()", "crashed"),
    ):
        monkeypatch.setattr(headroom, "_GPU", code)
        assert main(["headroom", str(script)]) == 1
        captured = capsys.readouterr()
        assert "headroom needs a GPU" in captured.err
        assert why in captured.err
        assert captured.out == ""


def test_figures_must_have_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    assert main(["headroom", "--json", str(tmp_path / "no" / "x.json"), str(script)]) == 1
    assert "no such folder" in capsys.readouterr().err


def test_options_behind_the_script_are_the_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    plans: list[Plan] = []

    def measure(plan: Plan, each: bool, folder: Path) -> tuple[list[dict[str, Any]], int]:
        plans.append(plan)
        return made_up(), 0

    monkeypatch.setattr(headroom, "gpu_name", lambda: "some GPU")
    monkeypatch.setattr(headroom, "measure", measure)
    assert main(["headroom", "--seconds", "2", str(script), "--seconds", "3", "-m", "x"]) == 0
    assert plans[0].arguments == ["--seconds", "3", "-m", "x"]
    assert (plans[0].seconds, plans[0].module) == (2.0, False)
