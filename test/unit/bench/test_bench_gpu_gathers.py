"""The GPU check of gathers across CTAs, without a GPU: its kernels, what they must give, and how it judges."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cluster_marks import ordered
from module_machine import Machine

from bench.fuzz.pairs import drawn_layout
from bench.fuzz.random_layouts import Pair
from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.gather.request import stays_in_cta
from triton_linear.tools.support.functions import LOWERING, lower_kernel, sink

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from fake_gpu import FakeGpu  # noqa: E402

from bench.conversions import driver  # noqa: E402
from bench.gpu_random import gathers, run  # noqa: E402
from bench.gpu_random.gathers import GLOBAL, GatherCase, gather_cases  # noqa: E402
from bench.gpu_random.kernels import LOOP_STEPS, Body, Words, flat, module_text  # noqa: E402
from bench.gpu_random.report import RIGHT, gathers_markdown  # noqa: E402
from triton_linear.tools.support.isolated import Lost  # noqa: E402

TARGET = "cuda:90"
ROWS = "#ttg.linear<{register = [[4, 0]], lane = [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]], warp = [], "
A = ROWS + "block = [[0, 8]]}>"
B = A.replace("[[4, 0]]", "[[0, 8]]").replace("block = [[0, 8]]", "block = [[4, 0]]")


def case(element: str = "i16", b: str = B, axis: int = 1) -> GatherCase:
    """Two CTAs with 8 columns of 16 each, the index as well, or with 4 rows of 8 each."""
    return GatherCase(5, Pair((8, 16), element, A, b, "by hand"), 1, True, 2, axis=axis)


CASES = [case("i8"), case("i16", A), case("f32"), case("i64", axis=0)]
assert "block = [[4, 0]]" in B and "register = [[0, 8]]" in B


def loop_text(one: GatherCase, method: str) -> str:
    """The module of a case without inline assembly: source, index and its result are arguments and a sink."""
    body, indices = Body(one), Body(gathers._of_indices(one), gathers.INDEX)
    indices.lines = body.lines
    types = body.tensor(body.bits, one.pair.source), indices.tensor("i32", one.pair.destination)
    writer = (gathers._ThroughGlobal if method == GLOBAL else gathers._Gathering)(one, body, indices)
    drained: list[str] = []
    writer.body.drain = lambda value, encoding: drained.append(value)  # type: ignore[method-assign]
    body.add(f"arith.constant {LOOP_STEPS} : i32")
    writer.write("%source", "%index")
    if method != GLOBAL:
        body.lines.append(sink(drained[0], body.tensor(body.bits, one.pair.destination), "result"))
    text = module_text(one, TARGET, [("scratch", body.bits)], body.lines).replace("%steps", "%v0")
    return text.replace("%v0: i32", f"%source: {types[0]}, %index: {types[1]}")


def with_registers(tensors: Any, one: GatherCase, encoding: str) -> Words:
    return one.registers(encoding, flat(tensors).astype(np.uint64))


def test_the_same_seed_gives_the_same_cases_of_every_kind() -> None:
    cases = gather_cases(1, 60, (2, 4, 8))
    assert cases == gather_cases(1, 60, (2, 4, 8)) != gather_cases(2, 60, (2, 4, 8))
    kinds = {(one.ctas, one.element.bits) for one in cases}
    assert kinds == {(ctas, bits) for ctas in (2, 4, 8) for bits in (8, 16, 32, 64)}
    assert len({one.name for one in cases}) == 60
    sizes = {one.size for one in cases}
    assert (
        min(sizes) >= gathers.LEAST_SIZE and len(sizes) > 4 and {len(one.pair.shape) for one in cases} == {1, 2}
    )
    assert len({one.pair.source == one.pair.destination for one in cases}) == 2
    for one in cases:
        sides = [drawn_layout(one.pair, side) for side in (one.pair.source, one.pair.destination)]
        assert not stays_in_cta(*sides, one.axis)


def test_indices_are_of_the_whole_axis_where_timed_too() -> None:
    one = case()
    for words in (one.inputs()[1], one.timed_inputs()[1]):
        assert words is not None
        assert [len(set(cluster.ravel().tolist())) for cluster in words] == [16] * len(words)
    assert one.timed_inputs()[0] is None


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.pair.element)
def test_what_is_expected_is_what_each_index_names(one: GatherCase) -> None:
    """Iteration by iteration and element by element, from the registers that the kernel is given."""
    cluster, bits = 3 % len(one.patterns()), one.element.bits
    elements, index = {}, {}
    sides = [drawn_layout(one.pair, side) for side in (one.pair.source, one.pair.destination)]
    places = [
        [
            [tuple(layout.apply({"register": r, "lane": t, "warp": 0, "block": c}).values()) for r in range(2)]
            for c in range(2)
            for t in range(32)
        ]
        for layout in sides
    ]
    for layout, registers, found in zip(places, one.inputs(), (elements, index), strict=True):
        for thread, held in enumerate(layout):
            found |= {at: int(registers[cluster, thread, r]) for r, at in enumerate(held)}
    assert len(elements) == len(index) == 8 * 16
    for thread, held in enumerate(places[1]):
        for register, at in enumerate(held):
            number = index[at]
            for step in range(LOOP_STEPS + 1):
                row = list(at)
                row[one.axis] = number
                added = sum(range(step))
                value = (elements[tuple(row)] + added) % (1 << bits)
                number = (number + (value >> bits - 1)) % one.size
            assert one.expected()[cluster, thread, register] == value


@ordered
@pytest.mark.parametrize("one", CASES, ids=lambda one: one.pair.element)
def test_the_loop_gives_what_is_expected(one: GatherCase) -> None:
    """Run in the interpreter by both CTAs."""
    kernel = lower_kernel(loop_text(one, "ours"), "kernel.ttgir", TARGET, LOWERING)
    assert [gather.kind for gather in kernel.gathers] == ["gather-shared"] * 2
    inputs, expected = one.inputs(), one.expected()
    for cluster in (0, len(expected) - 1):
        registers = [list(given[cluster].T[:, None]) for given in inputs]
        outcome = kernel.run([0, *registers], ctas=2)
        given, undefined = outcome.sinks["result"]
        assert not undefined.any() and not outcome.races
        assert np.array_equal(one.masked(given[:, 0]), expected[cluster].T)


@pytest.mark.parametrize(
    "one", [*CASES, *gather_cases(3, 4, (4,))], ids=lambda one: f"{one.index}{one.pair.element}"
)
def test_the_way_through_global_memory_gives_what_is_expected(one: GatherCase) -> None:
    """Run on whole tensors; each cluster has buffers of its own."""
    text = loop_text(one, GLOBAL)
    assert text.count("ttng.cluster_barrier") == 2  # one in the loop
    root = bridge.text_to_upstream(text.replace("ttng.cluster_barrier\n", "\n"), bridge.upstream_context())
    function = next(op for op in operations(root.operation) if op.name == "tt.func")
    cluster = len(one.patterns()) - 1
    tensors = [
        gathers.by_coordinates(one.patterns(), one.pair.shape)[cluster],
        one.indices(len(one.patterns()))[cluster],
    ]
    machine = Machine(program=(cluster, 0, 0))
    with np.errstate(over="ignore"):
        machine.call(function, [1 << 20, *(tensor.astype(np.uint64).view(np.int64) for tensor in tensors)])
    last = [op for op in operations(root.operation) if op.name == "tt.load"][-1]
    results = machine.now[last.results[0]].astype(np.int64).view(np.uint64)
    found = with_registers(one.masked(results)[None], one, one.pair.destination)
    assert np.array_equal(found[0], one.expected()[cluster])
    assert machine.memory.addresses.min() == (1 << 20) + cluster * one.scratch
    assert machine.memory.addresses.max() == (1 << 20) + (cluster + 1) * one.scratch - one.element.bits // 8
    assert one.scratch * 8 == 2 * one.element.bits * np.prod(one.pair.shape)


BINARY = run.Binary(b"cubin", "convert", 0, 10, ("gather-shared",), 0.1)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu(case())
    monkeypatch.setattr(driver, "_library", lambda: fake)
    monkeypatch.setattr(driver, "device", lambda: None)
    return fake


class InProcess:
    """A `Child` that answers here."""

    def ask(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def test_one_wrong_element_is_seen_by_each_method(gpu: FakeGpu) -> None:
    wrong = iter([False, True, True])  # ours, stock Triton's, through global memory

    def broken(out: Words, counters: Any) -> None:
        out[1, 40, 1] ^= np.uint64(next(wrong))

    gpu.broken = broken
    built = dict.fromkeys(gpu.case.methods, BINARY)
    record = run.judge(gpu.case, BINARY, BINARY, run.run)
    assert record["outcome"] == run.STOCK_WRONG and run.is_timed(gpu.case, record["outcome"])
    child: Any = InProcess()
    assert run.others(child, gpu.case, built, dry=False) == {GLOBAL: "wrong"}
    gpu.broken = lambda out, counters: None
    assert run.others(child, gpu.case, built, dry=False) == {GLOBAL: RIGHT}
    assert run.others(child, gpu.case, built | {GLOBAL: Lost("too slow")}, dry=False) == {GLOBAL: "too slow"}


def test_what_is_timed_is_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def clocked(one: GatherCase, binaries: dict[str, run.Binary]) -> tuple[dict[str, float], float | None]:
        asked.append(list(binaries))
        if broken & set(binaries):
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        return {name: {"stock": 1.0, "ours": 2.0, GLOBAL: 6.0}[name] for name in binaries}, 1.0

    monkeypatch.setattr(run, "clocked", clocked)
    built, child = dict.fromkeys(case().methods, BINARY), InProcess()
    broken: set[str] = set()

    def timed(outcome: str, through: str = RIGHT) -> dict[str, Any]:
        return run.timed(child, case(), built, {"outcome": outcome, GLOBAL: through})  # type: ignore[arg-type]

    assert timed(run.STOCK_WRONG) | {"iteration": 0} == {"iteration": 0, "ratio": 0.5, "global ratio": 3.0}
    assert "ratio" not in timed(run.STOCK_CRASHES) and "global ratio" not in timed(run.STOCK_WRONG, "wrong")
    broken = {"stock"}
    assert timed(run.STOCK_WRONG)["global ratio"] == 3.0
    assert asked[-2:] == [["stock", "ours", GLOBAL], ["ours", GLOBAL]]
    broken = {"ours"}
    assert "ILLEGAL_ADDRESS" in timed(run.STOCK_WRONG)["not timed"]


class Timed(FakeGpu):
    """Counts launches, and looks at what they are given."""

    launches: list[tuple[int, int]]

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, count: Any, *rest: Any) -> int:
        count._obj.value = 5
        return 0

    def cuLaunchKernel(self, function: Any, ctas: int, *rest: Any) -> int:
        *memory, steps = rest[-2][:8]
        addresses = [ctypes.cast(p, ctypes.POINTER(ctypes.c_uint64)).contents.value for p in memory]
        source, filled, index, moved, out, drained, scratch = (self.memory[each] for each in addresses)
        registers = self.case.timed_inputs()[1]
        assert registers is not None and not any(source) and len(source) == len(out)
        clusters = np.frombuffer(index, np.uint64).reshape(-1, *registers.shape[1:])
        assert len(clusters) * self.case.ctas == ctas and len(scratch) == len(clusters) * self.case.scratch
        assert all((given == registers[n % len(registers)]).all() for n, given in enumerate(clusters))
        assert not any((*filled, *moved, *drained))
        self.launches.append((ctas, ctypes.cast(steps, ctypes.POINTER(ctypes.c_int32)).contents.value))
        return 0


def test_launches_that_are_timed_have_random_indices_and_the_gpu_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = case()
    fake = Timed(one)
    fake.launches = []
    monkeypatch.setattr(driver, "_library", lambda: fake)
    for module in (driver, run):
        monkeypatch.setattr(module, "device", lambda: SimpleNamespace(multiprocessors=9))
    seconds = run._seconds

    def takes(kernel: Any, ctas: int, buffers: Any, steps: int) -> float:
        """A microsecond an iteration, and more than a millisecond at the first launch of each length."""
        seconds(kernel, ctas, buffers, steps)
        return 1e-6 * steps + 2e-3 * (len(fake.launches) < 7)

    monkeypatch.setattr(run, "_seconds", takes)
    found, decided = run.clocked(one, dict.fromkeys(one.methods, BINARY))
    assert found == dict.fromkeys(one.methods, pytest.approx(1e-6)) and decided == pytest.approx(1)
    assert fake.launches == [(44, steps) for _ in range(3 * run.TURNS) for steps in run.STEPS]

    monkeypatch.setattr(run, "_seconds", lambda *rest: 1e-3)
    with pytest.raises(ValueError, match="stock: 4200 iterations took no longer than 200"):
        run.clocked(one, dict.fromkeys(one.methods, BINARY))


@ordered
def test_a_dry_run_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--count", "2", "--clusters", "2,4", "--gathers", "--dry", TARGET, "--output", str(tmp_path)]
    assert run.main(options) == 0
    report = json.loads((tmp_path / "gpu_gathers_dry.json").read_text())
    assert [r["outcome"] for r in report["records"]] == [run.VERIFIED] * 2
    assert [r[GLOBAL] for r in report["records"]] == ["compiled"] * 2
    assert all(r["plans"] == ["gather-shared"] * 2 for r in report["records"])
    assert "2 verified. Through global memory: 2 compiled." in capsys.readouterr().out


def test_the_report_has_both_ratios() -> None:
    shared = {"plans": ["gather-shared"], "outcome": run.STOCK_WRONG}
    records = [
        shared | {"name": "000 a, 2 CTAs", GLOBAL: RIGHT, "ratio": 0.5, "global ratio": 2.0},
        shared | {"name": "001 b, 4 CTAs", GLOBAL: "wrong", "ratio": 1.5},
        shared | {"name": "002 c, 4 CTAs", GLOBAL: RIGHT, "not timed": "RuntimeError: no"},
    ]
    text = gathers_markdown(
        {"device": "a GPU", "triton": "3.9.0", "triton_linear": "0", "date": "today", "seed": 1,
         "seconds": {"compile": 1, "run": 2}, "records": records}
    )  # fmt: skip
    assert "of 3 random gathers across CTAs 3 right, where stock Triton is wrong" in text
    assert "Through global memory: 2 right, 1 wrong." in text
    assert "| 2 CTAs | 1 | 2.000 |" in text and "| 4 CTAs | 1 | 1.500 |" in text
    assert "- 000 a, 2 CTAs: 0.500" in text and "- 002 c, 4 CTAs: RuntimeError: no" in text


def test_gathers_are_of_clusters() -> None:
    with pytest.raises(SystemExit):
        run.parse(["--gathers"])
