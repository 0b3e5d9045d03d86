"""Layouts that the author of a Gluon kernel wrote stay, unless somebody asks that they be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
from fault_kernels import ttgir
from plugin_support import CUDA, assembly, compile_kernel, row_sums
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

import triton_linear
from triton_linear.dialect import ll
from triton_linear.report import Outcome
from triton_linear.setting import Options, Setting

pytestmark = pytest.mark.usefixtures("fresh")

ROWS = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([4, 1], [4, 8], [1, 4], [0, 1])
MEMORY = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
TEXT = "layouts are those that the author of this Gluon kernel wrote"


@gluon.jit
def there_and_back(x, out, N: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr, memory: gl.constexpr):
    """Two conversions that another layout would spare, a sum across warps, and an access with conflicts."""
    i, j = gl.arange(0, N, gl.SliceLayout(1, rows)), gl.arange(0, N, gl.SliceLayout(0, rows))
    at = i[:, None] * N + j[None, :]
    tile = gl.exp(gl.convert_layout(gl.load(x + at), columns))
    staged = gl.allocate_shared_memory(gl.float32, [N, N], memory)
    staged.store(tile)
    tile += staged.permute([1, 0]).load(columns)
    tile += gl.expand_dims(gl.sum(tile, 1), 1)
    gl.store(out + at, gl.convert_layout(tile, rows))


def compiled(target: GPUTarget = CUDA, **options: Any) -> tuple[triton_linear.Report, Any, str]:
    constants = {"N": 64, "rows": ROWS, "columns": COLUMNS, "memory": MEMORY}
    if target.warp_size == 64:
        constants["rows"] = gl.BlockedLayout([1, 4], [16, 4], [4, 1], [1, 0])
        constants["columns"] = gl.BlockedLayout([4, 1], [4, 16], [1, 4], [0, 1])
    signature = {"x": "*fp32", "out": "*fp32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(there_and_back, signature, constants)
    with triton_linear.enabled(strict=True, **options) as reports:
        kernel = triton.compile(source, target=target)
    (report,) = reports
    return report, kernel, assembly(kernel)


@pytest.mark.parametrize("target", [CUDA, GPUTarget("hip", "gfx942", 64)], ids=str)
def test_layouts_of_gluon_kernels_stay(target: GPUTarget, tmp_path: Path) -> None:
    report, _, _ = compiled(target, dump=tmp_path)
    assert report.outcome is Outcome.CONVERTED
    assert (report.seen, report.ours, report.avoided, len(report.made)) == (2, 2, 0, 0)
    assert [remark for remark in report.remarks if remark.startswith(TEXT)]
    (after,) = tmp_path.glob("*.after.ttgir")
    text = after.read_text()
    assert not any(mark in text for mark in (ll.ASSIGNED, ll.SPLIT, ll.WIDENED))


def test_they_change_where_that_is_asked_for() -> None:
    stay = compiled()
    asked = compiled(gluon=True)
    assert asked[0].avoided or asked[0].made
    assert not any(remark.startswith(TEXT) for remark in asked[0].remarks)
    assert asked[2] != stay[2]


@pytest.mark.parametrize(
    ("gluon", "changed"),
    [(False, False), ("", False), ("other", False), ("other:there*", True), (["there*"], True), ("*", True)],
)
def test_patterns_name_kernels(gluon: Any, changed: bool) -> None:
    report, _, _ = compiled(gluon=gluon)
    stays = any(remark.startswith(TEXT) for remark in report.remarks)
    assert stays != changed


def test_kernels_of_both_settings_are_kept_apart() -> None:
    prints = [Setting(Options(gluon=given)).fingerprint for given in ("", "*", "mine")]
    assert len(set(prints)) == 3
    assert compiled()[1].hash != compiled(gluon=True)[1].hash


def test_kernels_of_triton_are_none_of_it() -> None:
    texts = []
    for options in ({}, {"gluon": True}):
        with triton_linear.enabled(strict=True, **options) as reports:
            texts.append(assembly(compile_kernel(row_sums)))
        assert reports[0].outcome is Outcome.CONVERTED
        assert not any(remark.startswith(TEXT) for remark in reports[0].remarks)
    assert texts[0] == texts[1]


def test_a_hook_that_names_no_language_means_triton() -> None:
    """Only Gluon is told apart; whatever else calls the stages gets what Triton's kernels get."""
    from triton.compiler.compiler import make_backend

    with triton_linear.enabled(strict=True, occupancy=False) as reports:
        backend = make_backend(CUDA)
        backend.hash()
        stages: dict[str, Any] = {}
        options = backend.parse_options({"num_warps": 4})
        backend.add_stages(stages, options, None)
        module = ttgir("in_branches", "cuda:90")
        stages["llir"](module, {"target": CUDA, **options.__dict__})
    assert reports
    assert not any(remark.startswith(TEXT) for remark in reports[0].remarks)


@pytest.mark.parametrize("given", [1, None])
def test_what_is_no_pattern_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=f"gluon takes patterns, got {given}"):
        triton_linear.install(gluon=given)
    with pytest.raises(ValueError, match="gluon takes patterns without commas"):
        triton_linear.install(gluon="a,b")
