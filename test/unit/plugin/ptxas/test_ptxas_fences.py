"""PTX of a version that does not have the fence of exchanges across CTAs."""

from __future__ import annotations

from pathlib import Path

import pytest
import triton
from cluster_marks import ordered
from triton.backends.nvidia import compiler

import triton_linear
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.emit.machines import RELEASE
from triton_linear.ptxas.fences import RESTRICTED, WHOLE

ROWS = "sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[{}]]"
KERNEL = """module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
    "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%p: !tt.ptr<i32> {tt.divisibility = 16 : i32}) {
    %x = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, A>
    %y = ttg.convert_layout %x : tensor<512xi32, A> -> tensor<512xi32, B>
    %a = tt.splat %p : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>, B>
    %b = tt.addptr %a, %y : tensor<512x!tt.ptr<i32>, B>, tensor<512xi32, B>
    tt.store %b, %y : tensor<512x!tt.ptr<i32>, B>
    tt.return
  }
}
"""


def test_both_names_are_of_one_fence() -> None:
    assert RESTRICTED == RELEASE


@ordered
@pytest.mark.parametrize("occupancy", [False, True])
@pytest.mark.parametrize(("version", "fence", "other"), [(84, WHOLE, RELEASE), (86, RELEASE, WHOLE)])
def test_an_older_version_has_the_fence_of_all_memory(
    version: int, fence: str, other: str, occupancy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "ptx_get_version", lambda _: version)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    sides = (f"#ttg.blocked<{{{ROWS.format(block)}}}>" for block in (1, 0))
    text = KERNEL
    for name, side in zip("AB", sides, strict=True):
        text = text.replace(f", {name}>", f", {side}>")
    path = tmp_path / "kernel.ttgir"
    path.write_text(text)
    with triton_linear.enabled(strict=True, assign=False, occupancy=occupancy) as reports:
        kernel = triton.compile(
            str(path), target=gpu_target("cuda:90"), options={"num_warps": 4, "num_ctas": 2}
        )
    assert reports[0].conversions[0].lowering == "cluster-shared"
    ptx = kernel.asm["ptx"]
    assert f".version {version // 10}.{version % 10}" in ptx and fence in ptx and other not in ptx
