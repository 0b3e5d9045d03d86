"""Workers and the processes around them: the same code as a compile here, forks, and exits in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugin_support import CUDA, HIP, compile_kernel, transpose
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from triton_linear import contest_job
from triton_linear.contests import workers
from triton_linear.contests.workers import Lost, Workers, _Process, command
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
    assert isinstance(given, contest_job.Job)
    assert contest_job._answer(given).differs
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
from contests_support import SimulatedClock
from triton.runtime import driver
import triton_linear
from triton_linear import hook
from triton_linear.contest import Contests
from triton_linear.contests.workers import Workers

gpu = LaunchingDriver()
driver._active = gpu
triton_linear.install(wait=False, strict=True)
contests = Contests(Workers(count=1), lambda backend: SimulatedClock(gpu, lambda code: 1.0))
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


def test_what_lies_in_the_current_folder_is_not_imported(cache: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pickle.py").write_text("raise SystemExit(open('imported', 'w').write('x'))")
    with pytest.raises(Lost):
        Path("sitecustomize.py").write_text("")
        _Process(lambda connection: (sys.executable, "-c", "raise SystemExit")).ask(None)
    process = _Process(command)
    assert isinstance(process.ask(None), contest_job.Answer)
    process.end()
    assert not Path("imported").exists()


def test_the_surroundings_of_a_job_are_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/their/ptxas")
    monkeypatch.setitem(
        vars(knobs.nvidia), "disable_ptxas_opt", True
    )  # set as a knob, it is in the environment too
    surroundings = contest_job.Surroundings.here()
    monkeypatch.delitem(vars(knobs.nvidia), "disable_ptxas_opt")
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    monkeypatch.setenv("TRITON_OTHER", "1")
    assert isinstance(surroundings, contest_job.Surroundings)
    before, groups = (
        dict(os.environ),
        {name: dict(vars(getattr(knobs, name))) for name in contest_job._groups()},
    )
    try:
        surroundings.enter()
        assert os.environ["TRITON_PTXAS_PATH"] == "/their/ptxas" and "TRITON_OTHER" not in os.environ
        assert knobs.nvidia.disable_ptxas_opt is True
        other = replace(surroundings, sources="other")
        with pytest.raises(RuntimeError, match="another Triton"):
            other.enter()
    finally:
        os.environ.clear()
        os.environ.update(before)
        for name, values in groups.items():
            vars(getattr(knobs, name)).clear()
            vars(getattr(knobs, name)).update(values)


@pytest.mark.parametrize(
    "program", ["exit 1", "cat /dev/null", "echo not an answer >&{connection}", "sleep 60", "sleep 60 & exit 1"]
)
def test_a_process_that_dies_or_hangs_is_lost(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    process = _Process(lambda connection: ("bash", "-c", program.format(connection=connection)))
    start = time.monotonic()
    with pytest.raises(Lost):
        process.ask({"a": "job"})
    process.end()
    assert time.monotonic() - start < 10


def test_after_a_few_losses_none_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    pool = Workers(lambda *_: ("bash", "-c", f"echo begun >> {starts}; echo why >&2; exit 1"), count=1)
    answers: list[object] = []
    for count in range(6):
        pool.submit("job", answers.append)
        until = time.monotonic() + 20
        while len(answers) <= min(count, 2) and time.monotonic() < until:
            time.sleep(0.01)
    time.sleep(0.5)  # for those that should not come
    assert len(starts.read_text().split()) == 3 == len(answers)
    assert all("why" in str(answer) for answer in answers)


def test_a_command_that_is_not_there_is_lost() -> None:
    answered = threading.Event()
    answers: list[object] = []
    Workers(lambda *_: ("/nonexistent",), count=1).submit(
        "job", lambda answer: (answers.append(answer), answered.set())
    )
    assert answered.wait(20) and isinstance(answers[0], Lost)
