"""Workers and the processes around them: the same code as a compile here, forks, and exits in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from plugin_support import CUDA, HIP, compile_kernel, transpose
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from triton_linear import contest_job
from triton_linear.decisions import NO_DECISIONS, NONE
from triton_linear.hook import pinned
from triton_linear.setting import Options, Setting

EXACT = Options(exact=True, decisions=NONE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("target", [CUDA, HIP, GPUTarget("cuda", 100, 32), GPUTarget("hip", "gfx90a", 64)])
@pytest.mark.parametrize("options", [{}, {"num_warps": 8, "maxnreg": 64}])
def test_a_worker_compiles_what_a_compile_here_does(target: GPUTarget, options: dict[str, Any]) -> None:
    if target.backend == "hip":
        options.pop("maxnreg", None)
    stock = compile_kernel(transpose, target, **options)
    with pinned(EXACT):
        ours = compile_kernel(transpose, target, **options)
    backend = make_backend(target)
    key = contest_job.key_of(stock.hash, Setting(EXACT, decided=NO_DECISIONS))
    given = contest_job.job_of(stock, backend.parse_options(options), key, EXACT)
    answer = contest_job.answer_to(given)
    assert answer.failure == "" and answer.differs
    found = contest_job.found(stock, key)
    assert found.kernel == ours.kernel
    ignored = {"hash"}
    theirs, own = (
        {name: value for name, value in kernel.metadata._asdict().items() if name not in ignored}
        for kernel in (ours, found)
    )
    assert theirs == own


SCRIPT = """
import os, sys, threading
sys.path[:0] = {path!r}
from autotune_support import LaunchingDriver, pointers, transposed
from test_contests import SimulatedClock
from triton.runtime import driver
import triton_linear
from triton_linear import hook
from triton_linear.contest import COMMAND, Contests
from triton_linear.contests.workers import Workers

gpu = LaunchingDriver()
driver._active = gpu
triton_linear.install(wait=False, strict=True)
contests = Contests(Workers(COMMAND, dict(), 1), lambda backend: SimulatedClock(gpu, lambda code: 1.0))
hook._contests = lambda: contests
transposed[(4,)](*pointers(), N=64)
"""


def run(rest: str) -> str:
    """What a program prints."""
    program = SCRIPT.format(path=[path for path in sys.path if "test" in path]) + rest
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernels(cache: Path) -> int:
    """The kernels in Triton's cache."""
    return len(list(cache.glob("*/*.cubin")))


def test_a_program_that_ends_leaves_what_was_begun(cache: Path) -> None:
    """It does not wait; its worker finishes the kernel at hand."""
    run("import time; time.sleep(0.3)")
    until = time.monotonic() + 60
    while kernels(cache) < 2 and time.monotonic() < until:
        time.sleep(0.2)
    assert kernels(cache) == 2


def test_a_child_that_is_forked_in_the_middle_launches(cache: Path) -> None:
    printed = run("""
child = os.fork()
for _ in range(3):
    transposed[(4,)](*pointers(), N=64)
transposed[(4,)](*pointers(), N=128)
if child == 0:
    print("child", len(gpu.launched), flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print("parent", len(gpu.launched), status)
""")
    assert sorted(printed.splitlines()) == ["child 5", "parent 5 0"]
    assert knobs.cache.dir == str(cache)
