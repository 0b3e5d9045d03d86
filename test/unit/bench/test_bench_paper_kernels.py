"""The figure of whole kernels, without a GPU: cases, kernels, what is compiled and cached, the report."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from paper_no_gpu import no_gpu  # noqa: E402

from bench.kernels import dry, measure, modes  # noqa: E402
from bench.paper import compared, kernels, kernels_dry  # noqa: E402
from bench.paper.kernel_case import Case, cases, families  # noqa: E402
from bench.paper.kernels_report import PAPER_COUNTS, report  # noqa: E402
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, Span, installed_release  # noqa: E402
from triton_linear.examples.spec import gpu_target  # noqa: E402

ADDRESSES_CONVERTED = installed_release() in Span((3, 7))
"""Triton converts the addresses that it makes of loaded indices; before 3.7 it converts the indices."""
WELFORD_STAYS = installed_release() in REDUCTIONS_CONVERT
"""The plugin leaves the reductions whole, so that there are no conversions of partial results."""

OF_TRITONBENCH = {
    *("gemm", "bf16xint16_gemm", "fp8_gemm", "int4_gemm", "grouped_gemm", "gather_gemv"),
    *("template_attention", "flex_attention", "welford", "layer_norm", "rms_norm", "softmax"),
    *("cross_entropy", "fused_linear_cross_entropy", "jsd", "kl_div"),
    *("embedding", "rope", "geglu", "swiglu", "low_mem_dropout", "vector_add"),
}


def of_key(key: str) -> Case:
    return next(case for case in cases() if case.key == key)


# The cases.


def test_every_kernel_has_three_sizes_or_more_and_a_small_one() -> None:
    assert OF_TRITONBENCH.issubset(families()) and PAPER_COUNTS.keys() <= families().keys()
    assert all(len(family.sizes) >= 3 and family.small for family in families().values())
    keys = [case.key for case in cases()]
    assert len(set(keys)) == len(keys) >= 75
    assert of_key("gemm/4096x4096x1024xpersistent").size[-1] == ("persistent", True)
    assert pickle.loads(pickle.dumps(cases())) == cases()


def test_cases_are_declared_without_pytorch() -> None:
    program = "import sys; sys.modules['torch'] = None; from bench.paper.kernels import TABLE"
    program += "; TABLE.cases()[0].work()"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_kernels_are_right_in_tritons_interpreter() -> None:
    pytest.importorskip("torch")
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "bench.paper.interpreted"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    errors = json.loads(run.stdout)
    assert {name.split()[0] for name in errors} == families().keys()
    assert {name: error for name, error in errors.items() if not error <= 1} == {}


# What is compiled.


@pytest.mark.parametrize(
    ("key", "row"),
    [
        (
            "embedding/4096x32000x768",
            "0/0/2 | 1 cta-shared, 1 noop" if ADDRESSES_CONVERTED else "0/0/1 | 1 cta-shared",
        ),
        (
            "welford/16384x4096",
            f"0/0/2 | {'2 noop' if WELFORD_STAYS else '1 cta-shared, 4 noop'}",
        ),
        ("vector_add/1048576", "0/0/0 | none"),
        ("gather_gemv/1024", "0/0/2 | 2 cta-shared"),
        ("gemm/512x512x512", "0/0/1 | 1 warp-shared"),
    ],
)
def test_kernels_compile_without_a_gpu(key: str, row: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels_dry.main(["--only", f"^{key}$"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"| {key} | {row} |"


def test_sizes_that_share_a_kernel_are_compiled_once() -> None:
    same = kernels_dry.same_kernels("^embedding/")
    assert [len(group) for group in same.values()] == [4]
    assert len(kernels_dry.same_kernels("^rms_norm/")) == 4


def test_a_kernel_that_does_not_fit_fails_the_dry_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels_dry, "SHARED", 1023)
    assert kernels_dry.main(["--only", "^embedding/4096x"]) == 1
    assert "stock: 1024 bytes of shared memory" in capsys.readouterr().err
    failed = mock.Mock(side_effect=ValueError("no such layout"))
    monkeypatch.setattr(dry.triton, "compile", failed)
    assert kernels_dry.main(["--only", "^vector_add/1048576"]) == 1
    assert "no such layout" in capsys.readouterr().err


def test_operations_are_counted_as_the_paper_does() -> None:
    text = """
    %a = ttg.local_alloc %x : (tensor<1xf16>) -> !ttg.memdesc<1xf16>
    %b = ttg.local_alloc : () -> !ttg.memdesc<1xf16>
    ttg.local_store %x, %b : tensor<1xf16>
    %c = ttg.local_load %b : tensor<1xf16>
    %d = ttg.convert_layout %c : tensor<1xf16>"""
    assert kernels.counts([text, text]) == {"load": 2, "store": 4, "convert": 2}


# The run, on a GPU that is not there.


def test_a_run_loads_what_was_prepared_and_judges_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    small = Case("embedding", (("tokens", 256), ("words", 50), ("width", 128)))
    with no_gpu(tmp_path):
        assert kernels.prepare(small) == {}
        cached = {path.name for path in tmp_path.iterdir()}
        record = kernels.run(small)
        assert {path.name for path in tmp_path.iterdir()} == cached
    assert record["kernel"] == "embedding" and record["size"] == dict(small.size)
    found = record["modes"]
    assert found.keys() == {"stock", "ours", *compared.PARTS, "again"}
    assert found["stock"]["conversions"] == {}
    also = {"noop": 1} if ADDRESSES_CONVERTED else {}
    assert found["ours"]["conversions"] == {"cta-shared": 1} | also
    assert [kernel["name"] for kernel in found["ours"]["kernels"]] == ["embedding_kernel"]
    parts = {f"stock/{part}" for part in compared.PARTS}
    assert record["ratios"].keys() == {"stock/ours", "stock/again", *parts}
    assert record["ratios"]["stock/ours"] == [1.0, 1.0, 1.0]
    assert record["counts"] == {"load": 0, "store": 0, "convert": 1 + ADDRESSES_CONVERTED}
    # Nothing was computed: the same bits in every mode, and not those of the reference.
    assert found["ours"]["result"] == "identical"
    assert {found[mode]["reference"] for mode in ("stock", "ours")} == {"WRONG"}


def test_a_mode_that_does_not_compile_is_told_and_no_hindrance(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    small = Case("vector_add", (("count", 4096),))
    context = modes.context

    def fails(mode: str) -> Any:
        if mode == modes.BOUND:
            raise modes.Unavailable("bound: no such option")
        if mode == modes.OURS:
            raise ValueError("no plan")
        return context(mode)

    with no_gpu(tmp_path), mock.patch.object(modes, "context", fails):
        wrong = kernels.prepare(small)
        assert wrong == {"ours": "ValueError: no plan", "bound": "Unavailable: bound: no such option"}
        record = kernels.run(small)
    assert record["modes"]["ours"]["error"] == "ValueError: no plan"
    assert record["modes"]["bound"] == {"unavailable": "bound: no such option"}
    parts = set(compared.PARTS) - {modes.BOUND}
    assert record["ratios"].keys() == {"stock/again", *(f"stock/{part}" for part in parts)}


def test_a_launch_is_specialised_as_the_source_that_is_compiled_without_a_gpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import triton

    for key in ("template_attention/4x16x512x64", "gather_gemv/1024"):
        work = of_key(key).work()
        with no_gpu(tmp_path), measure.loaded() as loaded:
            work.warm(torch)
            (kernel,) = work.kernels
            triton.compile(kernel.source(), target=gpu_target("cuda:90"), options=dict(kernel.options))
        assert loaded[0].hash == loaded[1].hash


# The report.


def record(key: str, ours: float, legacy: float, **more: Any) -> tuple[str, dict[str, Any]]:
    def ratio(value: float) -> list[float]:
        return [value - 0.01, value, value + 0.01]

    case = of_key(key)
    good = {"microseconds": 10.0, "result": "identical", "reference": "within tolerance", "deterministic": True}
    found: dict[str, Any] = {mode: {**good, "fell_back": []} for mode in ("stock", "ours", "legacy")}
    return key, {
        "kernel": case.kernel,
        "size": dict(case.size),
        "modes": found,
        "ratios": {
            "stock/ours": ratio(ours),
            "legacy/ours": ratio(ours * legacy),
            "legacy/stock": ratio(legacy),
            "stock/again": ratio(1.0),
        },
        "counts": {"load": 1, "store": 2, "convert": 3},
        "tolerance": 1e-3,
        **more,
    }


def test_a_row_has_the_mean_and_the_range_of_its_sizes() -> None:
    part = report(dict([record("gather_gemv/1024", 1.0, 1.0), record("gather_gemv/2048", 1.21, 1.1)]))
    row = "| gather_gemv | 2 | 10 to 10 | 1.100 (1.000 to 1.210) | 1.154 (1.000 to 1.331) |"
    assert f"{row} 1.049 (1.000 to 1.100) | 3 | 2 of 2 |" in part.markdown
    assert "| all | 2 | | 1.100 (1.000 to 1.210) | 1.154 (1.000 to 1.331) |" in part.markdown
    assert "| all that have a conversion | 2 | | 1.100 (1.000 to 1.210) |" in part.markdown
    assert "| the paper, GH200 | 265 | | | | 1.07 (0.96 to 1.40) | | |" in part.markdown
    assert "| gather_gemv | 2 | 2/4/6 | 0/0/8 |" in part.markdown
    assert "Stock Triton a second time is 0.990 to 1.010" in part.markdown
    assert part.shortfalls == ("legacy/ours is 1.331 at most, where the paper has 1.40",)
    assert "gemm/512x512x512" in part.markdown.partition("Not run: ")[2]


def test_what_is_slower_is_listed_with_the_noise() -> None:
    part = report(
        dict(
            [
                record("gather_gemv/1024", 0.97, 1.2),
                record("rope/1x2048x32x8x128", 0.99, 0.96),
                record("gemm/512x512x512", 0.98, 1.6),
            ]
        )
    )
    slow = [
        "gather_gemv/1024: stock/ours 0.970 (0.960 to 0.980); stock/again 1.000 (0.990 to 1.010)",
        "rope/1x2048x32x8x128: legacy/ours 0.950 (0.940 to 0.960); stock/again 1.000 (0.990 to 1.010)",
    ]
    assert part.shortfalls == tuple(slow)
    assert all(f"- {line}" in part.markdown for line in slow)


def test_what_went_wrong_is_told() -> None:
    key, bad = record("gemm/512x512x512", 1.5, 1.5)
    bad["modes"]["ours"] |= {"result": "WRONG", "apart": 0.5, "deterministic": False, "fell_back": ["no plan"]}
    bad["modes"]["stock"] |= {"reference": "WRONG", "reference_apart": 0.25}
    bad["modes"]["legacy"] = {"unavailable": "no such option"}
    part = report({key: bad, "rope/1x2048x32x8x128": {"error": "CUDA error"}})
    assert part.shortfalls == (
        f"{key}, stock: 0.25 from the reference, where 0.001 is allowed",
        f"{key}, ours: not the results of stock Triton, apart by 0.5",
        f"{key}, ours: two runs differ",
        f"{key}, ours: fell back, no plan",
        "rope/1x2048x32x8x128: CUDA error",
    )
    assert "Modes left out:\n\n- no such option" in part.markdown
    assert "| rope | 0 | failed |" in part.markdown


def test_the_figure_has_a_bar_for_each_ratio_of_each_kernel() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    part = report(dict([record("gather_gemv/1024", 1.0, 1.0), record("rope/1x2048x32x8x128", 1.21, 1.1)]))
    assert part.figure is not None
    part.figure(axis)
    assert [label.get_text() for label in axis.get_yticklabels()] == ["gather_gemv", "rope"]
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names[-3:] == ["stock / ours", "legacy / ours", "legacy / stock"]
    report({}).figure(Figure().subplots())  # type: ignore[misc]


def test_kernels_without_conversions_are_left_out_of_one_mean() -> None:
    without = record("rope/1x2048x32x8x128", 1.0, 1.0, counts={"load": 0, "store": 0, "convert": 0})
    part = report(dict([record("gather_gemv/1024", 1.44, 1.0), without]))
    assert "| all | 2 | | 1.200 (1.000 to 1.440) |" in part.markdown
    assert "| all that have a conversion | 1 | | 1.440 |" in part.markdown
