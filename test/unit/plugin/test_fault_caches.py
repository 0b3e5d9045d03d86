"""Compiles from many threads, compiles that are killed, and caches that cannot be written to or are broken."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
from fault_kernels import lowered
from plugin_processes import printed
from plugin_support import CUDA, HIP, assembly, compile_kernel, transpose
from triton import knobs
from triton.runtime import cache

import triton_linear
from triton_linear import hook
from triton_linear.report import FallbackWarning, Outcome
from triton_linear.setting import Options

pytestmark = pytest.mark.usefixtures("fresh")

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"


# Threads

KERNELS = (transpose, support.row_sums)
SETTINGS = (None, Options(strict=True), Options(strict=True, assign=False), Options(strict=True, lower=False))


def llir(kernel: Any, target: Any, options: Options | None) -> str:
    with hook.pinned(options):
        return lowered(support.source(kernel, 32), target, {}, None).llir


def test_eight_threads_make_what_one_does() -> None:
    """Different kernels for two vendors under different settings, while a ninth turns the plugin on and off."""
    jobs = [(kernel, target, options) for kernel in KERNELS for target in (CUDA, HIP) for options in SETTINGS]
    alone = [llir(*job) for job in jobs]
    assert len(set(alone)) >= len(alone) / 2  # the settings make a difference
    done, start = threading.Event(), threading.Barrier(9)

    def toggle() -> int:
        start.wait()
        turns = 0
        while not done.wait(0.001):
            triton_linear.install(strict=True)
            triton_linear.uninstall()
            turns += 1
        return turns

    def work(first: int) -> list[str]:
        start.wait()
        return [llir(*jobs[place]) for place in range(first, len(jobs), 8)]

    with ThreadPoolExecutor(9) as pool:
        turns = pool.submit(toggle)
        try:
            together = list(pool.map(work, range(8)))
        finally:
            done.set()
        assert turns.result() > 3
    for first, made in enumerate(together):
        assert made == alone[first::8]


def test_eight_threads_compile_one_kernel_into_one_cache() -> None:
    with triton_linear.enabled(strict=True):
        expected = assembly(compile_kernel(transpose, width=32))
        with knobs.compilation.scope():
            knobs.compilation.always_compile = True
            with ThreadPoolExecutor(8) as pool:
                every = list(pool.map(lambda _: assembly(compile_kernel(transpose, width=32)), range(8)))
        assert set(every) == {expected}
        before = triton_linear.last_report()
        assert assembly(compile_kernel(transpose, width=32)) == expected
        assert triton_linear.last_report() is before


# Processes that end half-way, or may not write

PROCESS = """
import os, resource, signal, sys, tempfile, traceback
import plugin_support as support
import triton_linear
from plugin_support import transpose
from triton.runtime import cache
from triton_linear import hook, stage
from triton_linear.passes import attempts
from triton_linear.ptxas import registers
from triton_linear.lowering.emit import embed
from triton_linear.passes.conversions.select import SelectLowering

def make():
    kernel = support.compile_kernel(transpose, width=32)
    report = triton_linear.last_report()
    return support.assembly(kernel), kernel.asm["cubin"], report and report.outcome.value

def fresh_cache(mode=0o755):
    folder = tempfile.mkdtemp()
    os.chmod(folder, mode)
    os.environ["TRITON_CACHE_DIR"] = folder
    return folder

def child(action):
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        try:
            action()
        except BaseException as error:
            print(type(error).__name__, end=" ", flush=True)
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

fresh_cache()
stock = make()[:2]
triton_linear.install(strict=STRICT)
fresh_cache()
ours = make()
assert ours[2] == "converted" and ours[:2] != stock
"""

KILLED = """
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

replace, replaced = os.replace, []
def die_at(name):
    def dying(old, new):
        if os.fspath(new).endswith(name):
            die()
        replace(old, new)
    return dying

for owner, name, value in (
    (SelectLowering, "__call__", die),
    (attempts, "embed", die),
    (registers.Assembler, "code", die),
    (os, "replace", die_at(".ttgir")),
    (os, "replace", die_at(".cubin")),
    (os, "replace", die_at("__grp__transpose.json")),
):
    folder = fresh_cache()
    def compile_and_die():
        setattr(owner, name, value)
        make()
    status = child(compile_and_die)
    left = sum(len(files) for _, _, files in os.walk(folder))
    before = triton_linear.last_report()
    again = make()
    assert triton_linear.last_report() is not before, "a kernel that was never finished came out of the cache"
    print(status, left > 0, again == ours)
"""


def run(code: str, strict: bool = True) -> str:
    path = os.pathsep.join([str(SUPPORT), str(HERE), os.environ.get("PYTHONPATH", "")])
    return printed("-W", "ignore", "-c", PROCESS.replace("STRICT", str(strict)) + code, PYTHONPATH=path)


def test_a_compile_that_is_killed_leaves_nothing_wrong() -> None:
    assert run(KILLED).splitlines() == ["-9 True True"] * 6


SMALL_FILES = """
import warnings
from fault_kernels import lowered

def limited(bytes_):
    def action():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = lowered(source, support.CUDA, {}, None)
        print(triton_linear.last_report().outcome.value, len(caught), made.llir == plain, end=" ", flush=True)
    return action

source = support.source(transpose, 32)
triton_linear.uninstall()
plain = lowered(source, support.CUDA, {}, None).llir
triton_linear.install()
for bytes_ in (1000, 12000, 1 << 20):
    print(child(limited(bytes_)))
"""


def test_files_that_may_not_grow() -> None:
    """LLVM ends a process that cannot write, so nothing of ours has it write where that is so."""
    assert run(SMALL_FILES, strict=False).splitlines() == [
        "failed 1 True 0",
        "failed 1 True 0",
        "converted 0 False 0",
    ]


# Files that cannot be made, and broken ones


def failing(
    number: int, real: Callable[..., Any], when: Callable[..., bool] = lambda *_: True
) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if when(*arguments):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    return call


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOSYS])
def test_no_file_in_memory(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules cross between the two MLIRs in such files."""
    stock = compile_kernel(transpose, width=32)
    with monkeypatch.context() as broken:
        broken.setattr(os, "memfd_create", failing(number, os.memfd_create))
        with pytest.warns(FallbackWarning, match=os.strerror(number)) as caught, triton_linear.enabled():
            kept = compile_kernel(transpose, width=32)
    assert len(caught) == 1 and "bug" not in str(caught[0].message)
    assert kept.asm["ptx"] == stock.asm["ptx"]


@pytest.mark.parametrize(("number", "suffix"), [(errno.EROFS, ".ttgir"), (errno.ENOSPC, ".cubin")])
def test_a_full_or_read_only_disk_is_tritons_error(
    suffix: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is Triton's, and the error the one that is seen without the plugin; later all is well."""
    with warnings.catch_warnings(), triton_linear.enabled() as reports:
        warnings.simplefilter("error")
        with monkeypatch.context() as broken:
            real = os.replace
            full = failing(number, real, lambda old, new: str(new).endswith(suffix))
            broken.setattr(cache.os, "replace", full)
            with pytest.raises(OSError, match=os.strerror(number)):
                compile_kernel(transpose, width=32)
        kernel = compile_kernel(transpose, width=32)
    assert reports[-1].outcome is Outcome.CONVERTED
    with triton_linear.enabled(), knobs.compilation.scope():
        knobs.compilation.always_compile = True
        assert assembly(compile_kernel(transpose, width=32)) == assembly(kernel)
