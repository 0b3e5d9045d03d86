"""Compiles the kernels of a case with stock Triton and with the plugin, and launches none.

Runs in a process of its own, with a GPU that is not there (`pretend`). What it compiles stays in Triton's
cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton import knobs
from triton.compiler import ASTSource

import triton_linear
from triton_linear.examples.spec import gpu_target
from triton_linear.report import Outcome, Report

from ..harness import contests
from ..kernels import modes
from . import launches
from .suite import Suite

TRITON_KEY = "BENCH_TRITON_KEY"
"""The variable with Triton's part of each key in its cache. Wheels of one release for two Pythons have two; to
compile here and measure there, it is the same in both places."""
_warm: set[str] = set()


@triton.jit
def transposed(source, destination, N: tl.constexpr, PROCESS: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())


def warm(target: str) -> None:
    """What the first compile of a process takes, stock Triton's and the plugin's: paid before any is timed."""
    if target in _warm:
        return
    _warm.add(target)
    signature = {"source": "*fp16", "destination": "*fp16", "N": "constexpr", "PROCESS": "constexpr"}
    for size in (32, 64):
        # Another process's kernel in the cache would warm nothing here.
        source = ASTSource(transposed, signature, constexprs={"N": size, "PROCESS": os.getpid()})
        if size == 32:
            triton.compile(source, target=gpu_target(target))
        with triton_linear.enabled():
            triton.compile(source, target=gpu_target(target))


def start(suite: Suite, site: str, cache: str) -> None:
    """Ready a process that compiles; it must not take a GPU that is there for the one that it plays."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    ready(suite, site, cache)


def ready(suite: Suite, site: str, cache: str) -> None:
    """Let this process import the packages, and compile into a cache."""
    warnings.simplefilter("ignore")
    os.environ["TRITON_CACHE_DIR"] = cache
    Path(cache).mkdir(parents=True, exist_ok=True)
    if key := os.environ.get(TRITON_KEY):
        triton.runtime.cache.triton_key = lambda: key
    os.environ["FLAGGEMS_CACHE_DIR"] = f"{cache}/flag_gems{os.getpid()}"
    suite.enter(Path(site))
    import torch

    torch.set_num_threads(1)


def processor_seconds() -> float:
    """Of this process and those that it waited for, the assembler's: a machine that is busy does not show."""
    spent = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def error_of(problem: BaseException) -> str:
    """In one line, without what nobody reads."""
    text = re.sub(r"\s+", " ", str(problem)).strip()
    return f"{type(problem).__name__}: {text}"[:600]


def fate(report: Report | None) -> dict[str, Any]:
    """What became of a kernel's conversions, by the plugin's report; None: another case compiled it before."""
    if report is None:
        return {"cached": True}
    reasons = Counter(conversion.detail for conversion in report.left)
    kinds = Counter(conversion.lowering for conversion in report.conversions if conversion.ours)
    found: dict[str, Any] = {
        "seen": report.seen,
        "ours": report.emitted,
        "noop": report.noop,
        "folded": report.folded,
        "left": dict(reasons),
        "kinds": dict(kinds),
        "outcome": report.outcome.value,
    }
    if report.outcome is Outcome.LEFT and not report.conversions and report.seen:
        found["left"] = {"; ".join(report.remarks) or "the report gives no reason": report.seen}
    return found


def facts(kernel: Any) -> dict[str, Any]:
    """What is known of a compiled kernel."""
    return {
        "shared": kernel.metadata.shared,
        "warps": kernel.metadata.num_warps,
        "conversions": len(re.findall(r"\bttg\.convert_layout\b", kernel.asm["ttgir"])),
    }


def key_of(name: str, ttgir: str) -> str:
    """Names one specialisation of a kernel, whatever the process: its TTGIR without locations."""
    bare = re.sub(r"loc\([^)]*\)|#loc\d*( = .*)?", "", ttgir)
    return f"{name}#{hashlib.sha256(bare.encode()).hexdigest()[:10]}"


def plugin(mode: str = modes.OURS) -> AbstractContextManager[list[Report]]:
    """The plugin, on. Strict, lest stock Triton be taken for it; one setting for all, for caches go by it."""
    return modes.context(mode, strict=True)


class Both:
    """Takes launches, and compiles each specialisation of a kernel once with each."""

    def __init__(self, dump: str | None, stock_alone: bool = False, beside: Sequence[str] = ()) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._dump, self._stock_alone, self._beside = dump, stock_alone, beside
        self._seen: set[str] = set()

    def __call__(self, launch: launches.Launch) -> Any:
        _ = launch.kernel.cache_key  # Made once, for whoever compiles first.
        begun = processor_seconds()
        found_in_cache: list[bool] = []
        try:
            with knobs.compilation.scope():
                knobs.compilation.listener = lambda *, cache_hit, **_: found_in_cache.append(cache_hit)
                stock = launch.compiled()
        except Exception as problem:
            self.rows.setdefault(f"{launch.name}#", {"kernel": launch.name, "stock_error": error_of(problem)})
            return None
        seconds = processor_seconds() - begun
        if stock is None or stock.hash in self._seen:
            return stock
        self._seen.add(stock.hash)
        key = key_of(launch.name, stock.asm["ttgir"])
        row = {"kernel": launch.name, "key": key, "stock": facts(stock)}
        if not any(found_in_cache):
            row["stock"]["seconds"] = round(seconds, 4)
        self.rows[key] = row
        if self._dump is not None:
            stem = re.sub(r"\W+", "_", key)
            Path(self._dump, f"{stem}.ttgir").write_text(stock.asm["ttgir"])
        row |= {"ours": {"cached": True}} if self._stock_alone else self._ours(launch)
        for mode in () if self._stock_alone else self._beside:
            try:
                if mode == modes.CONTEST:
                    contests.prepare(stock, contests.units_of(launch.kernel, launch.args, launch.kwargs))
                    continue
                with plugin(mode):
                    launch.compiled()
            except Exception as problem:  # what fails, fails again where it is measured
                row.setdefault("failed", {})[mode] = error_of(problem)
        return stock

    def _ours(self, launch: launches.Launch) -> dict[str, Any]:
        begun = processor_seconds()
        reports: list[Report] = []
        try:
            with knobs.compilation.scope(), plugin() as reports:
                knobs.compilation.always_compile = True  # what an earlier run has kept has no report
                ours = launch.compiled()
        except Exception as problem:
            inner = next((report.traceback for report in reports if report.traceback), None)
            return {
                "ours": {"error": error_of(problem), "traceback": (inner or traceback.format_exc())[-3000:]}
            }
        seconds = processor_seconds() - begun
        report = next((each for each in reports if each.kernel == ours.name), None)
        spent = {} if report is None else {key: round(value, 4) for key, value in report.seconds.items()}
        return {
            "ours": facts(ours) | fate(report) | {"seconds": round(seconds, 4), "phases": spent},
        }


def run(
    suite: Suite,
    name: str,
    target: str,
    rank: str,
    dump: str | None = None,
    stock_alone: bool = False,
    beside: Sequence[str] = (),
) -> dict[str, Any]:
    """The record of a case: its kernels, each compiled with both, and why it ended if it did not end well.

    Other modes `beside` these are compiled for who measures them.
    """
    from . import pretend

    warm(target)
    begun = time.perf_counter()
    both = Both(dump, stock_alone, beside)
    record: dict[str, Any] = {"case": name, "target": target}
    with pretend.gpu(gpu_target(target)), launches.configured(rank):
        try:
            with launches.caught(both):  # what makes inputs may launch kernels too
                call = suite.case(name).make(suite.inputs(pretended=True))
                launches.without_kernel_caches()
                call()
        except (Exception, SystemExit) as problem:
            record["error"] = error_of(problem)
            record["traceback"] = traceback.format_exc()[-3000:]
            record["at_import"] = isinstance(problem, ImportError)
    record["kernels"] = list(both.rows.values())
    record["seconds"] = round(time.perf_counter() - begun, 2)
    return record
