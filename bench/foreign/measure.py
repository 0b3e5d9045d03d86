"""Launches the kernels of a case with stock Triton and with the plugin. Runs in the process that has the GPU.

An operator runs once with stock Triton. Of each specialisation of a kernel its first launch is kept, with
copies of all memory that it was given. Then the launch is repeated alone, from the same memory: twice with
stock Triton, which shows what the order of atomics decides, and with the plugin. Times are those of CUDA graphs
in turns.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from triton import knobs

from ..harness import contests
from ..harness.child import told
from ..harness.turns import calls_for, captured, replay, summary
from ..kernels import measure as kernels
from ..kernels import modes
from ..kernels.case import TRITON
from ..kernels.case import Case as Compared
from . import compiled, launches
from .case import tensors
from .suite import Suite

_CHOICES = (modes.STOCK, modes.OURS)
MOST_BYTES = 8 << 30
"""Copies that are kept of one case; kernels launched after that are not measured."""


def cards() -> list[str]:
    """The GPUs that there are for this process, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return named.split(",") if named else []
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def start(suite: Suite, site: str, cache: str, card: str) -> dict[str, Any]:
    """Ready the process, with that GPU alone; gives what there is to know of it. Raises where there is none."""
    os.environ["CUDA_VISIBLE_DEVICES"] = card
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    compiled.ready(suite, site, cache)
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": torch.cuda.get_device_name(),
        "target": f"cuda:{properties.major}{properties.minor}",
        "torch": torch.__version__,
        "driver": torch.version.cuda,
    }


def given_tensors(launch: launches.Launch) -> list[Any]:
    """The tensors that a kernel gets, those of descriptors, tuples and flag_gems' views among them."""
    import torch

    found: list[Any] = []
    for value in (*launch.args, *launch.kwargs.values()):
        for each in tensors([getattr(value, "base", value)]):
            tensor = each if isinstance(each, torch.Tensor) else getattr(each, "_base", None)
            if tensor is not None and all(tensor is not other for other in found):
                found.append(tensor)
    return found


class Memory:
    """The memory that a launch may read or write, as it was before."""

    def __init__(self, launch: launches.Launch) -> None:
        self.tensors = given_tensors(launch)
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in self.tensors}
        self._storages = list(storages.values())
        self._before = [storage.clone() for storage in self._storages]

    @property
    def bytes(self) -> int:
        return sum(storage.nbytes() for storage in self._storages)

    def restore(self) -> None:
        for storage, before in zip(self._storages, self._before, strict=True):
            storage.copy_(before)

    def read(self) -> list[Any]:
        return [each.detach().clone() for each in self.tensors]


@dataclass
class Kept:
    """The first launch of a specialisation, and its memory."""

    key: str
    launch: launches.Launch
    memory: Memory

    @property
    def tunes(self) -> bool:
        """True if the kernel has an autotuner of several configurations, and may be repeated."""
        return id(self.launch.kernel.fn) in launches.tuned and not self.counts

    @property
    def counts(self) -> bool:
        """True if it counts in memory: it may leave its bounds if it goes on from where it stopped."""
        ttgir = self.launch.compiled().asm["ttgir"]
        return any(name in ttgir for name in ("atomic", "atom.global", "red.global", "async_tma_reduce"))


class Keeper:
    """Takes launches, lets them run, and keeps the first of each specialisation."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.left_out = 0
        self.hits: list[bool] = []
        """Whether each kernel came from the cache."""
        self._seen: set[str] = set()

    def __call__(self, launch: launches.Launch) -> Any:
        with knobs.compilation.scope():
            knobs.compilation.listener = lambda *, cache_hit, **_: self.hits.append(cache_hit)
            kernel = launch.compiled()
        if kernel.hash not in self._seen:
            self._seen.add(kernel.hash)
            if sum(each.memory.bytes for each in self.kept) < MOST_BYTES:
                key = compiled.key_of(launch.name, kernel.asm["ttgir"])
                self.kept.append(Kept(key, launch, Memory(launch)))
            else:
                self.left_out += 1
        return launch.run()


def verdict(
    stock: Sequence[Any], again: Sequence[Any], ours: Sequence[Any], tolerance: float | None = None
) -> dict[str, Any]:
    """Whether results are the same, and if not whether rounding or the order of atomics explains it.

    `identical`: the same bits. `varies`: stock Triton's own results differ from run to run, and ours are no
    farther from them than the tolerance or four times that. `within tolerance`, `WRONG`: as it says. What a
    kernel does with narrow floats it rounds to them, whatever it stores: of all types of its tensors the widest
    tolerance is for all results.
    """
    if tolerance is None:
        usual = kernels.TOLERANCES
        tolerance = max((usual.get(str(each.dtype).removeprefix("torch."), 0.0) for each in stock), default=0.0)
    compared = Compared("", "", TRITON, lambda torch, inputs: (lambda: None, ()), tolerance)
    found = kernels.compare(compared, stock, ours)
    noise = kernels.compare(compared, stock, again)
    if noise["result"] != "identical":
        found["noise"] = noise.get("apart")
        near = found.get("apart", math.inf) <= 4 * noise.get("apart", math.inf)
        if found["result"] != "WRONG" or near:
            found["result"] = "varies"
    return found


def context(mode: str, plugin: bool = True) -> AbstractContextManager[Any]:
    """In the block kernels compile as `mode` says, from the cache that compiling filled; without the `plugin`
    all modes are stock Triton."""
    return compiled.plugin(mode) if plugin and mode not in (modes.STOCK, modes.AGAIN) else nullcontext()


def _settled(kept: Kept, stock: Any) -> tuple[dict[str, Any], Any]:
    """Repeat a launch until its contest has ended, each time from the same memory if it counts there, and once
    more; how it ended, and the kernel.

    Of a kernel that tunes itself, the autotuner measures each configuration with stock Triton and with the
    plugin: here the one that is taken, unless that is stock Triton's, which enters a contest. stock: the kernel
    of stock Triton's.
    """
    import torch

    if kept.tunes:
        chosen = min(_CHOICES, key=lambda mode: _tuned_time(kept, mode))
        if chosen != modes.STOCK:
            with context(chosen):
                kept.memory.restore()
                return {"calls": 0, "contests": 0, "open": 0, "tuned": chosen}, kept.launch.run()
    before = kept.memory.restore if kept.counts else (lambda: None)
    # Compiled for a GPU that was not there, the launch may have been another.
    units = contests.units_of(kept.launch.kernel, kept.launch.args, kept.launch.kwargs)
    contests.prepare(stock, units)
    # As in a process of its own, which finds on disk which sizes are decided.
    kept.launch.kernel.device_caches.clear()

    def call() -> list[Any]:
        before()
        return [kept.launch.run()]

    ended = contests.settle(call)
    kept.memory.restore()
    (kernel,) = call()
    torch.cuda.synchronize()
    return ended | {"winner": contests.winner_of(stock, kernel, units)}, kernel


def _tuned_time(kept: Kept, mode: str) -> float:
    """Milliseconds of a launch by Triton's benchmarker, as its autotuner takes them."""
    import triton.testing

    with context(mode):
        return float(triton.testing.do_bench(kept.launch.run, warmup=10, rep=50, return_mode="median"))


def compare(
    kept: Kept, turns: int, tolerance: float | None, plugin: bool = True, beside: Sequence[str] = ()
) -> dict[str, Any]:
    """The row of one kernel: whether results agree, and times; of other modes `beside` them too."""
    import torch

    results, facts, ended, stock = {}, {}, dict[str, Any](), None
    for mode in (modes.STOCK, modes.AGAIN, modes.OURS, *beside):
        kept.memory.restore()
        try:
            with context(mode, plugin):
                kernel = kept.launch.run()
                torch.cuda.synchronize()
                stock = stock or kernel
                if mode == modes.CONTEST:
                    ended, kernel = _settled(kept, stock)
        except Exception as problem:
            if kernels.lost(problem):
                raise
            key = "stock_error" if mode in (modes.STOCK, modes.AGAIN) else "error"
            return {"key": kept.key, "kernel": kept.launch.name, key: compiled.error_of(problem)}
        results[mode] = kept.memory.read()
        facts[mode] = {"registers": kernel.n_regs, "spilled": kernel.n_spills, "shared": kernel.metadata.shared}
    row: dict[str, Any] = {"key": kept.key, "kernel": kept.launch.name}
    row |= verdict(results[modes.STOCK], results[modes.AGAIN], results[modes.OURS], tolerance)
    row["facts"] = {mode: facts[mode] for mode in (modes.STOCK, modes.OURS)}
    row["beside"] = {
        mode: verdict(results[modes.STOCK], results[modes.AGAIN], results[mode], tolerance)
        | {"facts": facts[mode]}
        for mode in beside
    }
    if modes.CONTEST in beside:
        row["beside"][modes.CONTEST] |= ended
    results.clear()
    kept.memory.restore()
    graphs, calls = {}, 1
    once = kept.counts
    before = kept.memory.restore if once else None
    for mode in (modes.STOCK, modes.OURS, *beside):
        with context(ended.get("tuned", mode) if mode == modes.CONTEST else mode, plugin):
            if once:
                kept.memory.restore()
            elif mode == modes.STOCK:
                single, _ = captured(kept.launch.run)
                calls = calls_for(min(replay({"": [single]}, 3)[""]))
            graphs[mode] = [captured(kept.launch.run, calls)[0]]
    times = summary(replay(graphs, turns, before), calls)
    row["microseconds"] = times[modes.STOCK]["microseconds"]
    row["ratio"] = times[modes.OURS]["ratio"]
    for mode in beside:
        row["beside"][mode]["ratio"] = times[mode]["ratio"]
    return row


def run(
    suite: Suite, name: str, rank: str, turns: int, plugin: bool = True, beside: Sequence[str] = ()
) -> dict[str, Any]:
    """The record of a case; without the `plugin` stock Triton is on all sides. Raises Failed."""
    return told(_run, suite, name, rank, turns, plugin, tuple(beside))


def _run(suite: Suite, name: str, rank: str, turns: int, plugin: bool, beside: Sequence[str]) -> dict[str, Any]:
    import torch

    begun = time.perf_counter()
    case = suite.case(name)
    call: Callable[[], Any] = case.make(suite.inputs())
    launches.without_kernel_caches()
    keeper = Keeper()
    record: dict[str, Any] = {"kernels": []}
    with launches.configured(rank):
        try:
            with launches.caught(keeper):
                call()
            torch.cuda.synchronize()
        except Exception as problem:
            if kernels.lost(problem):
                raise
            record["stopped"] = compiled.error_of(problem)  # What it launched until then is compared.
        for kept in keeper.kept:
            try:
                record["kernels"].append(compare(kept, turns, case.tolerance, plugin, beside))
            except Exception as problem:
                if kernels.lost(problem):
                    raise
                failed = {"key": kept.key, "kernel": kept.launch.name, "error": compiled.error_of(problem)}
                record["kernels"].append(failed)
    record["left_out"], record["compiled"] = keeper.left_out, keeper.hits.count(False)
    record["seconds"] = round(time.perf_counter() - begun, 2)
    del keeper, call
    gc.collect()
    torch.cuda.empty_cache()
    return record
