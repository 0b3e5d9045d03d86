"""Mixed precision, mxfp4 and shuffles of the reproduction: cases, kernels and reports, without a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench.conversions.build import layouts  # noqa: E402
from bench.kernels import modes  # noqa: E402
from bench.kernels.measure import Inputs, loaded  # noqa: E402
from bench.paper import mixed, mxfp4, shuffles  # noqa: E402
from bench.paper.table import Part, Table  # noqa: E402
from triton_linear.dialect.linear_layout import LANE, REGISTER  # noqa: E402
from triton_linear.dialect.triton_versions import WIDE_DOUBLES_REFUSED, installed_release  # noqa: E402

TARGET = "cuda:90"
TABLES = (mixed.TABLE, mxfp4.TABLE, shuffles.TABLE)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


# Cases.


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_keys_are_unique(table: Table) -> None:
    keys = [case.key for case in table.cases()]
    assert len(set(keys)) == len(keys)


def test_mixed_precision_has_the_papers_count_in_equal_shares() -> None:
    cases = mixed.cases()
    assert len(cases) == mixed.PAPER["linear"] == 784
    assert set(Counter(case.pair for case in cases).values()) == {49}


def test_shuffles_differ_in_as_many_bits_as_they_say() -> None:
    """Of the index bits that registers hold in A, as many are lanes' in B."""
    exchanges = [case for case in shuffles.cases() if case.kind == "exchange"]
    assert {case.number for case in exchanges} == {1, 2, 3, 4}
    for case in exchanges:
        a, b = layouts(shuffles.timed_case(case))
        for dim in (REGISTER, LANE):
            here, there = ({side.basis(dim, bit) for bit in range(side.in_dim_bits(dim))} for side in (a, b))
            assert len(here - there) == case.number


def test_every_size_and_width_has_shuffles_of_every_kind() -> None:
    found = {(case.size, case.bits, case.kind) for case in shuffles.cases()}
    kinds = ("exchange", "vector", "transpose")
    assert found == {(s, b, k) for s in shuffles.SIZES for b in shuffles.WIDTHS for k in kinds}


# What Triton 3.0.0 does.


def test_the_record_of_triton_3_0_is_of_these_cases() -> None:
    record = mixed.old()
    assert record["triton"] == "3.0.0"
    assert set(record["compiled"]) <= {case.key for case in mixed.cases()}
    assert len(record["compiled"]) + sum(record["errors"].values()) == 784


# Kernels.


def test_results_in_the_interpreter() -> None:
    pytest.importorskip("torch")
    script = Path(__file__).parents[1] / "support" / "paper_interpreted.py"
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert found["ran"] > 50
    assert not found["mixed"]
    assert len(found["mxfp4"]) == 6
    assert all(facts["right"] for facts in found["mxfp4"].values()), found["mxfp4"]


def test_the_unpacking_is_exact_in_bf16() -> None:
    """As `half_byte` does it, for each of the sixteen; the interpreter has no bf16."""
    pytest.importorskip("torch")
    import torch

    bits = torch.arange(16, dtype=torch.int32)
    placed = (((bits & 8) << 12) | ((bits & 7) << 6)).to(torch.uint16).view(torch.bfloat16)
    values = (placed * torch.tensor(2.0**126, dtype=torch.bfloat16)).double()
    packed = torch.arange(16, dtype=torch.uint8).repeat(1, 2) | (
        torch.arange(16, dtype=torch.uint8) << 4
    ).repeat(1, 2)
    exponents = torch.full((1, 2), 127, dtype=torch.uint8)
    assert torch.equal(mxfp4.weights(packed, exponents)[0, ::2][:16], values)


def test_columns_are_shuffled_within_their_block() -> None:
    pytest.importorskip("torch")
    import torch

    x = torch.arange(2 * mxfp4.BLOCK_K).reshape(1, -1)
    moved = mxfp4.shuffled(x)[0]
    blocks = moved.reshape(2, -1)
    assert torch.equal(blocks.sort(dim=1).values.flatten(), x[0])
    # What a thread of the operand has, two columns in every eight, lies side by side before.
    assert blocks[0][[0, 1, 8, 9, 16, 17]].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("way", modes.WAYS)
@pytest.mark.parametrize(
    ("integer", "floating", "m", "n"), [("i8", "f16", 1, 1), ("i64", "f64", 16, 32), ("i16", "f8", 64, 64)]
)
def test_mixed_precision_compiles(way: str, integer: str, floating: str, m: int, n: int) -> None:
    assert mixed.compiled(mixed.Mixed(integer, floating, m, n), way, TARGET) is None


@pytest.mark.parametrize("integer", ["i8", "i16"])
def test_doubles_with_short_integers_compile_with_the_plugin(integer: str) -> None:
    """Triton picks the layout of f64 by the width of the integers, and has no code for those before 3.9."""
    case = mixed.Mixed(integer, "f64", 16, 32)
    refused = "RuntimeError: PassManager::run failed" if installed_release() in WIDE_DOUBLES_REFUSED else None
    assert mixed.compiled(case, "stock", TARGET) == refused
    assert mixed.compiled(case, "ours", TARGET) == refused


@pytest.mark.parametrize("way", modes.WAYS)
def test_mxfp4_compiles_to_wgmma_by_every_route(way: str) -> None:
    for route in mxfp4.ROUTES:
        ptx = mxfp4.compiled(mxfp4.Product("f16", route, 16), way, TARGET).asm["ptx"]
        assert "wgmma.mma_async" in ptx


def test_shuffling_widens_the_loads_of_weights() -> None:
    """16 bytes of a row lie side by side in a thread, where one does without. The plugin lets those without be:
    they are used one by one."""

    def narrow(route: str, way: str) -> int:
        ptx = mxfp4.compiled(mxfp4.Product("bf16", route, 16), way, TARGET).asm["ptx"]
        return len(re.findall(r"ld\.shared\.b8", ptx))

    assert narrow("unpacked", "ours") == narrow("unpacked", "stock") == 32
    assert narrow("shuffled", "ours") == narrow("shuffled", "stock") == 0


def test_what_prepare_compiles_is_what_run_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for tensors have the hashes of those that were compiled for types."""
    pytest.importorskip("torch")
    import torch
    from triton.runtime import driver

    from bench.foreign.pretend import Driver
    from triton_linear.examples.spec import gpu_target

    monkeypatch.setattr(driver, "_active", Driver(gpu_target(TARGET)))
    case = mxfp4.Product("e5m2", "shuffled", 16)
    with loaded() as prepared:
        mxfp4.prepare(case)
    function, constants = mxfp4.kernel(case)
    function.device_caches.clear()
    _, arguments = mxfp4.make(case, torch, Inputs("cpu"))
    out = torch.empty((16, mxfp4.WIDTH), dtype=torch.bfloat16)
    with loaded() as launched:
        for way in modes.WAYS:
            with modes.context(way, strict=True):
                function.warmup(
                    *arguments, out, grid=(1,), **constants, num_warps=case.tile[2], num_stages=mxfp4.STAGES
                )
    assert len({kernel.hash for kernel in prepared}) == 2
    assert [kernel.hash for kernel in launched] == [kernel.hash for kernel in prepared]


def test_methods_of_a_shuffle_are_what_they_are_called() -> None:
    case = shuffles.Conversion("transpose", 128, 16)
    found = {one.method: one for one in shuffles.built(case, TARGET, verify=True)}
    assert not any(one.error for one in found.values())
    for method in (shuffles.SHUFFLE, *shuffles.SHARED):
        assert {facts["kind"] for facts in found[method].conversions} == {method.partition(":")[2]}
        assert set(found[method].verified) == {"ok"}
    assert found[shuffles.SHUFFLE].ptx.get("st.shared", 0) == 0 < found[shuffles.SHUFFLE].ptx["shfl"]


def test_what_is_built_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    case = shuffles.Conversion("exchange", 64, 32, 1)
    made = shuffles.kept(case, TARGET)
    assert [one.method for one in made] == list(case.methods)
    monkeypatch.setattr(shuffles, "built", lambda case, target: [])
    assert shuffles.kept(case, TARGET) == made
    assert shuffles.kept(shuffles.Conversion("exchange", 64, 8, 1), TARGET) == []


# Reports.


def drawn(part: Part) -> Any:
    """The axes of its figure."""
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert part.figure is not None
    part.figure(axes)
    return axes


def mixed_records() -> dict[str, Any]:
    """Stock fails one, ours another in a different manner, the rest passes."""
    good = {way: {"compiled": True, "right": True} for way in (*modes.WAYS, modes.BASELINE)}
    records: dict[str, Any] = {case.key: good for case in mixed.cases()}
    bad = {"compiled": False, "right": False, "error": "RuntimeError: no"}
    records["i8 x f16, 1x1"] = good | {"stock": bad}
    records["i64 x f8, 2x4"] = good | {"ours": {"compiled": True, "right": False}}
    return records


def test_report_of_mixed_precision() -> None:
    part = mixed.report(mixed_records())
    rows = {line.split("|")[1].strip(): line for line in part.markdown.splitlines() if line.startswith("| ")}
    assert rows["i8 x f16"].endswith("| 48 | 49 | 49 |")
    assert rows["all"].endswith("| 783 | 784 | 783 |")
    assert "| 366 |" in rows["the paper"]
    assert "stock, 1 cases: `RuntimeError: no`" in part.markdown
    assert list(part.shortfalls) == ["1 cases fail: wrong result"]
    assert len(drawn(part).patches) == 6
    without = {
        key: {way: found for way, found in record.items() if way != modes.BASELINE}
        for key, record in mixed_records().items()
    }
    part = mixed.report(without)
    assert "compiles | stock | ours |" in part.markdown and len(drawn(part).patches) == 5


def test_report_of_mixed_precision_says_what_is_missing() -> None:
    records = mixed_records()
    del records["i8 x f16, 1x1"]
    records["i8 x f16, 1x2"] = {"error": "CUDA error"}
    shortfalls = mixed.report(records).shortfalls
    assert "1 of 784 cases have not run" in shortfalls
    assert "1 cases fail: CUDA error" in shortfalls


def times(stock: float, ours: float, legacy: float) -> dict[str, Any]:
    return {
        "ways": {
            way: {"right": True, "microseconds": taken, "kernels": []}
            for way, taken in (("stock", stock), ("ours", ours), ("legacy", legacy))
        }
    }


def test_report_of_mxfp4() -> None:
    records = {case.key: times(10, 10, 15) for case in mxfp4.cases()}
    records["bf16-shuffled-64"] = times(10, 5, 12)
    records["f16-scaled-16"] = times(8, 10, 9)
    records["f16-scaled-64"]["ways"]["ours"] = {"error": "RuntimeError: no"}
    del records["e4m3-scaled-16"]
    records["e5m2-scaled-16"] = {"error": "gone"}
    part = mxfp4.report(records)
    row = next(line for line in part.markdown.splitlines() if line.startswith("| bf16 | 64 |"))
    cells = "10.0 us, 1.00, 1.50 | 10.0 us, 1.00, (1.50) | 5.0 us, 2.00, (2.40)"
    assert row == f"| bf16 | 64 | {cells} | 2.00 | 3.00 |"
    assert "Against stock: 0.80 (f16-scaled-16) to 2.00 (bf16-shuffled-64)" in part.markdown
    assert "Against legacy: 0.90 (f16-scaled-16) to 1.50 (" in part.markdown
    assert "at best 1.50 times legacy, not 1.87" in part.shortfalls
    found = "\n".join(part.shortfalls)
    assert "slower than stock by over 2 % in 1 of 57: f16-scaled-16 0.80" in found
    assert "f16-scaled-64 ours: RuntimeError: no" in found
    assert "1 of 60 cases have not run" in part.shortfalls
    assert "e5m2-scaled-16: gone" in found
    assert len(drawn(part).lines) == 10  # six of f8, two scaled, and two that go across


def shuffle_record(
    shuffle: float, warp: float, cta: float, stock: float, before: float | None
) -> dict[str, Any]:
    taken = {"forced:shuffle": shuffle, "forced:warp-shared": warp, "forced:cta-shared": cta, "stock": stock}
    if before is not None:
        taken["before"] = before
    facts = {
        method: {
            "error": None,
            "right": True,
            "conversions": [],
            "throughput": {"clocks": clocks},
            "latency": {"clocks": 2 * clocks},
        }
        for method, clocks in taken.items()
    }
    facts["ours"] = facts["forced:shuffle"] | {"conversions": ["shuffle", "shuffle"]}
    return {"methods": facts}


def test_report_of_shuffles() -> None:
    records = {case.key: shuffle_record(10, 30, 20, 10, 45) for case in shuffles.cases()}
    records["transpose-0-64x8"] = shuffle_record(10, 8, 9, 5, 20)
    part = shuffles.report(records)
    row = next(line for line in part.markdown.splitlines() if line.startswith("| 64 x 8 |"))
    assert row == "| 64 x 8 | 0.80-2.00 | 0.50-1.00 | 2.00-4.50 |"
    assert "4.50 against before linear layouts (throughput)" in part.markdown
    total = len(records)
    assert f"the faster in throughput in {total - 1} of {total} pairs" in part.markdown
    lost = f"slower than our best shared memory in 1 of {total} pairs (throughput), at worst 0.80"
    assert lost in part.shortfalls
    assert not any("nowhere" in line for line in part.shortfalls)
    assert len(drawn(part).collections) == 3


def test_wrong_shuffles_have_no_time() -> None:
    record = shuffle_record(10, 30, 20, 10, 45)
    record["methods"]["forced:cta-shared"]["right"] = False
    assert shuffles.ratio(record, "shared", "latency") == 3.0
    key = shuffles.cases()[0].key
    shortfalls = shuffles.report({key: record}).shortfalls
    assert f"{key} forced:cta-shared: wrong" in shortfalls
    assert "62 of 63 pairs have not run" in shortfalls


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_report_of_nothing_is_none_of_success(table: Table) -> None:
    part = table.report({})
    assert any("not run" in line for line in part.shortfalls)
    drawn(part)


def test_tables_declare_themselves() -> None:
    assert [(table.name, table.timed, table.gpu) for table in TABLES] == [
        ("mixed", False, True),
        ("mxfp4", True, True),
        ("shuffles", True, True),
    ]
    assert mxfp4.TABLE.prepare is not None and shuffles.TABLE.prepare is not None
