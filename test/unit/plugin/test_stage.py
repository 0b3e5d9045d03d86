"""The plugin on stock Triton with the passes, planners and emission that it ships."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
import triton
import triton.language as tl
from fault_kernels import moved
from plugin_processes import python
from plugin_support import CUDA, HIP, assembly, compile_kernel, transpose
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.runtime import driver as driver_config
from triton.runtime.jit import MockTensor

import triton_linear
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.passes import attempts
from triton_linear.passes.conversions import select
from triton_linear.report import FallbackWarning, Outcome

pytestmark = pytest.mark.usefixtures("fresh")

AMPERE = GPUTarget("cuda", 80, 32)
STREAMS = Path(__file__).parents[3] / "examples" / "streaming_pass.py"
TARGETS = pytest.mark.parametrize("target", [AMPERE, CUDA, HIP], ids=["cuda80", "cuda90", "gfx942"])


@triton.jit
def matmul(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    a = tl.load(x + rows[:, None] * BN + columns[None, :]).to(tl.float16)
    tl.store(out + rows[:, None] * BM + rows[None, :], tl.dot(a, tl.trans(a)).to(tl.float16))


KERNELS = pytest.mark.parametrize("kernel", [support.row_sums, transpose, matmul], ids=lambda k: k.__name__)


@KERNELS
@TARGETS
def test_no_conversion_that_moves_data_is_left_to_triton(kernel: Any, target: GPUTarget) -> None:
    stock = compile_kernel(kernel, target)
    with triton_linear.enabled(strict=True) as reports:
        ours = compile_kernel(kernel, target)
    (report,) = reports
    assert report.seen == stock.asm["ttgir"].count("= ttg.convert_layout")
    assert report.left == ()
    assert all(Path(c.location.rpartition(":")[0]).name.endswith(".py") for c in report.conversions)
    if report.ours or report.folded:
        assert report.outcome is Outcome.CONVERTED
        assert assembly(ours) != assembly(stock)
    assert ours.asm["ttgir"] == stock.asm["ttgir"]
    assert "__ll_cvt" not in re.sub(r"!DI\w+\(.*\)", "", ours.asm["llir"])
    assert set(ours.metadata._fields) == set(stock.metadata._fields)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("passes", [(), (STREAMS,)], ids=["", "user-passes"])
def test_kernels_with_wmma_are_left_to_triton(warps: int, passes: tuple[Path, ...]) -> None:
    target = GPUTarget("hip", "gfx1100", 32)
    stock = compile_kernel(matmul, target, num_warps=warps)
    assert "#ttg.amd_wmma" in stock.asm["ttgir"]
    reason = "#ttg.amd_wmma is an encoding of GPUs that" if passes else "no table for hip:gfx1100; known: "
    with pytest.warns(FallbackWarning, match=reason) as caught, triton_linear.enabled(passes=passes) as reports:
        compiled = compile_kernel(matmul, target, num_warps=warps)
    assert assembly(compiled) == assembly(stock)
    assert [(report.outcome, report.passes, report.error) for report in reports] == [(Outcome.LEFT, (), None)]
    assert reports[0].remarks[0].startswith(reason)
    assert len(caught) == 1 and "\n" not in str(caught[0].message)


def test_line_information_stays() -> None:
    def lines(kernel: Any) -> set[str]:
        return set(re.findall(r"\.loc\s+\d+ (\d+)", assembly(kernel)))

    stock = lines(compile_kernel(transpose))
    with triton_linear.enabled(strict=True):
        ours = lines(compile_kernel(transpose))
    assert stock
    assert stock <= ours


def test_a_plan_that_is_not_proved_leaves_the_stock_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    stock, chosen = compile_kernel(transpose), select.select

    def careless(*arguments: Any) -> Any:
        found = chosen(*arguments)
        assert isinstance(found.plan, SharedPlan)
        return replace(found, plan=replace(found.plan, outputs=found.plan.outputs[::-1]))

    monkeypatch.setattr(select, "select", careless)
    refuted = (
        r"the plan 'cta-shared' of @__ll_cvt_0 is not proved: destination register 0 of lane 0 of warp 0 gets"
    )
    with pytest.warns(FallbackWarning, match=refuted), triton_linear.enabled():
        ours = compile_kernel(transpose)
    assert assembly(ours) == assembly(stock)
    with pytest.raises(ValueError, match=refuted), triton_linear.enabled(strict=True):
        compile_kernel(transpose, width=128)


PROCESS = """
import hashlib, sys, plugin_support as support, triton_linear
triton_linear.install(strict=True)
support.compile_kernel(support.double)
print("mlir" in sys.modules, end=" ")
kernel = support.compile_kernel()
print("mlir" in sys.modules, hashlib.sha256(support.assembly(kernel).encode()).hexdigest())
"""


def test_processes_make_the_same_code_import_mlir_late_and_exit_clean(tmp_path: Path) -> None:
    printed = set()
    for seed in ("1", "2"):
        done = python("-c", PROCESS, PYTHONHASHSEED=seed, TRITON_CACHE_DIR=str(tmp_path / seed))
        assert (done.returncode, done.stderr) == (0, "")
        printed.add(done.stdout)
    (output,) = printed
    assert output.startswith("False True ")


FIRST_COMPILE = """
import sys, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def transpose(source, destination, SIZE: tl.constexpr):
    index = tl.arange(0, SIZE)
    tile = tl.load(source + index[:, None] * SIZE + index[None, :])
    tl.store(destination + index[:, None] + index[None, :] * SIZE, tile)

def compiled(size):
    source = ASTSource(transpose, {"source": "*fp32", "destination": "*fp32"}, {"SIZE": size})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))

compiled(64)
before = set(sys.modules)
import triton_linear
print(*sorted(set(sys.modules) - before))
triton_linear.install(strict=True)
compiled(128)
assert triton_linear.last_report().ours
print(*sorted(set(sys.modules) - before))
"""
NEEDLESS = {
    "triton_linear": {"examples", "gluon", "tools"},
    "triton_linear.lowering": {"interpreter"},
    "mlir": {"ir", "dialects"},
}
"""What costs time to import and has no part in an ordinary compile."""


def test_a_first_compile_imports_only_what_it_needs(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    script.write_text(FIRST_COMPILE)
    settings = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = python(script, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    package, compiled = (set(line.split()) for line in done.stdout.splitlines())
    assert package == {"triton_linear"}
    assert {"mlir", "triton_linear.passes.pipeline"} <= compiled
    needless = {f"{parent}.{child}" for parent, children in NEEDLESS.items() for child in children}
    assert needless & compiled == set()
    roots = {name.split(".")[0] for name in compiled}
    assert not roots & {"highspy", "hypothesis", "IPython", "matplotlib", "pytest", "scipy", "sqlite3", "torch"}
    assert "numpy" not in roots, "it takes as long as the bindings"


def test_the_scratch_limit_reaches_the_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    run = attempts.rewrite

    def spy(module: Any, options: Any, *arguments: Any, **named: Any) -> Any:
        limits.append(options.scratch_limit)
        return run(module, options, *arguments, **named)

    monkeypatch.setattr(attempts, "rewrite", spy)
    for limit in (None, 4096):
        with triton_linear.enabled(strict=True, scratch_limit=limit):
            assert compile_kernel(transpose).metadata.shared > 0
    assert limits == [None, 4096]


def test_source_attributes_survive() -> None:
    """The module is parsed anew, so what is not an operation must come along: here the launch bounds."""
    signature = {"x": "*fp32", "out": "*fp32", "BM": "constexpr", "BN": "constexpr"}
    source = ASTSource(transpose, signature, constexprs={"BM": 32, "BN": 64})
    with triton_linear.enabled(strict=True):
        kernel = triton.compile(source, target=CUDA, options={"maxnreg": 64, "num_warps": 8})
    assert ".maxnreg 64" in assembly(kernel)
    assert re.search(r"\.reqntid 256\b", assembly(kernel))


def test_gluon_kernels_go_through_their_jit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_config, "_active", support.FakeDriver(CUDA))
    pointer = MockTensor(tl.float32)
    rows = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    columns = gl.BlockedLayout([4, 1], [4, 8], [1, 4], [0, 1])

    def warm_up() -> Any:
        return moved.warmup(pointer, pointer, 32, rows, columns, grid=(1,), num_warps=4)

    stock = warm_up()
    with triton_linear.enabled(strict=True, assign=False) as reports:
        ours = warm_up()
        assert warm_up() is ours
    assert warm_up() is stock
    (report,) = reports
    assert (report.kernel, report.seen, report.ours) == ("moved", 1, 1)
    assert assembly(ours) != assembly(stock)
