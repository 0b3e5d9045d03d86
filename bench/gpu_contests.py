"""Contests on a GPU: who wins, what launches take on the host, and that nothing is lost or done twice.

    python -m bench.gpu_contests [--output DIR]

Runs kernels with `install(wait=False)`: each launch is compared with what stock Triton's gives, to the bit,
while the contest runs and afterwards; also in two threads with streams of their own, in a CUDA graph that is
captured in the middle, and in two processes at once that share their cache, each on a GPU of its own if there
are two. Then both kernels are timed side
by side, and launches on the host.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import triton
import triton.language as tl

import triton_linear
from triton_linear import contest
from triton_linear.contests.launches import LaunchContest
from triton_linear.dialect import store
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import UnitArguments

from .harness import report, results
from .harness.contests import units_of
from .harness.options import Parser

LAUNCHES = 600
PATIENCE = 40.0
"""Seconds to wait for the worker."""


@triton.jit
def transposed(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    tl.store(out + j * n + i, tl.load(x + i * n + j))


@triton.jit
def row_sums(x, out, n, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for first in range(0, n, B):
        total += tl.load(x + row * n + first + tl.arange(0, B))
    tl.store(out + row, tl.sum(total, 0))


@triton.jit
def turned_and_counted(x, out, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.atomic_add(out + i * B + j, tl.load(x + i * B + j).trans())


@triton.jit
def halves(x, out, n: tl.int64, stride: tl.int64, B: tl.constexpr):
    """Its unit stride is annotated, so that stock Triton loads and stores element by element."""
    at = tl.program_id(0) * n + tl.arange(0, B) * stride
    tl.store(out + at, tl.load(x + at) / 2)


@triton.jit
def doubled(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at) * 2)


Arguments = tuple[Any, ...]
Case = tuple[Any, Callable[[], Arguments], tuple[int, ...], int]


def _bytes(n: int) -> Arguments:
    x = torch.randint(0, 127, (n, n), dtype=torch.int8, device="cuda")
    return x, torch.empty_like(x), n


def _rows(n: int) -> Arguments:
    return torch.randn(1024, n, device="cuda"), torch.empty(1024, device="cuda"), n


def _counts(n: int) -> Arguments:
    ones = torch.ones(n, n, dtype=torch.int32, device="cuda")
    return ones, torch.zeros_like(ones), n


def _halves(n: int) -> Arguments:
    x = torch.randn(n, 4096, device="cuda", dtype=torch.bfloat16)
    return x, torch.empty_like(x), x.stride(0), x.stride(1)


CASES: Mapping[str, Case] = {
    "transposed": (transposed, lambda: _bytes(4096), (32, 32), 128),
    "transposed, small": (transposed, lambda: _bytes(512), (4, 4), 128),
    "row sums": (row_sums, lambda: _rows(8192), (1024,), 1024),
    "halves": (halves, lambda: _halves(4096), (4096,), 4096),
    "counted": (turned_and_counted, lambda: _counts(128), (1,), 128),
    "doubled": (doubled, lambda: _bytes(1024), (1024,), 1024),
}


def digest(tensor: torch.Tensor) -> str:
    """The bits of a tensor."""
    return hashlib.sha256(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def kernel_of(function: Any) -> Any:
    """What Triton's cache has for a function that was compiled once."""
    (kernel,) = function.device_caches[torch.cuda.current_device()][0].values()
    return kernel


def contested(kernel: Any, units: UnitArguments) -> float:
    """Wait until launches take turns, or until it is known that both kernels are the same; the seconds."""
    _, name = contest.of_ours(kernel, Setting(Options(wait=False)), units)
    start = time.monotonic()
    while not isinstance(kernel._run, LaunchContest) and time.monotonic() < start + PATIENCE:
        if (store.read(name) or {}).get("differs") is False:
            break
        time.sleep(0.02)
    return time.monotonic() - start


def host_microseconds(launch: Callable[[], None], count: int = 200, runs: int = 5) -> float:
    """What a launch takes on the host; the least of some runs."""
    found = []
    for _ in range(runs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            launch()
        found.append((time.perf_counter() - start) / count)
    torch.cuda.synchronize()
    return 1e6 * min(found)


def without_plugin(name: str) -> float:
    """Microseconds that a launch takes on the host with stock Triton. Requires: the plugin is off."""
    function, make, grid, block = CASES[name]
    given = make()
    alone = triton.jit(function.fn)
    return host_microseconds(lambda: alone[grid](*given, B=block))


def examined(name: str, wait: float) -> dict[str, Any]:
    """One case from its first launch to the end of its contest."""
    function, make, grid, block = CASES[name]
    function = triton.jit(function.fn)  # with kernels of its own
    x, out, *sizes = make()

    def launch(target: torch.Tensor = out) -> None:
        function[grid](x, target, *sizes, B=block)

    launch()
    torch.cuda.synchronize()
    expected, reference = digest(out), out.clone()
    counts = name == "counted"
    launched = 1
    stock = kernel_of(function)
    units = units_of(function, (x, out, *sizes), {"B": block})
    found: dict[str, Any] = {"case": name, "compiled": round(contested(stock, units), 2) if wait else 0.0}
    found["contest"] = isinstance(stock._run, LaunchContest)
    wrong = 0
    if found["contest"]:
        found["host in contest"] = host_microseconds(launch, 4, 3)
        launched += 12
    graph, replayed = torch.cuda.CUDAGraph(), torch.empty_like(out)
    if not counts:
        with torch.cuda.graph(graph):
            launch(replayed)
    for _ in range(LAUNCHES):
        launch()
        launched += 1
        if not counts:
            wrong += not torch.equal(out, reference)
    streams = [torch.cuda.Stream() for _ in range(2)]

    def beside(stream: torch.cuda.Stream, target: torch.Tensor) -> None:
        with torch.cuda.stream(stream):
            for _ in range(100):
                launch(target)

    others = [torch.zeros_like(out) for _ in streams]
    torch.cuda.synchronize()  # they are zero before other streams begin
    threads = [threading.Thread(target=beside, args=pair) for pair in zip(streams, others, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    if counts:
        wrong += int((out != launched).sum()) + sum(int((other != 100).sum()) for other in others)
    else:
        wrong += sum(digest(other) != expected for other in others)
        graph.replay()
        torch.cuda.synchronize()
        wrong += digest(replayed) != expected
    winner = kernel_of(function)
    found |= {
        "wrong": wrong,
        "ended": not isinstance(winner._run, LaunchContest),
        "winner": "stock" if winner is stock else "ours",
        "host afterwards": host_microseconds(launch),
        "bits": expected,
    }
    found["ratio"] = ratio(launch) if not counts else None
    return found


def ratio(launch: Callable[[], None]) -> dict[str, float]:
    """Stock Triton's time divided by that of each other: ours with the same bits, and what was chosen."""
    from triton_linear.hook import pinned

    def microseconds(options: Options | None, mine: bool = True) -> float:
        if not mine:
            return float(triton.testing.do_bench(launch, warmup=10, rep=50))
        with pinned(options):
            return float(triton.testing.do_bench(launch, warmup=10, rep=50))

    exactly = Options(exact=True)
    turns = [(microseconds(None), microseconds(exactly), microseconds(None, False)) for _ in range(5)]
    stock, exact, chosen = (sorted(times)[2] for times in zip(*turns, strict=True))
    return {"exact": stock / exact, "chosen": stock / chosen}


def markdown(result: Mapping[str, Any]) -> str:
    """The page."""
    heads = "case | winner | ended | wrong: | stock / ours: | stock / chosen: | compiled, s: "
    heads += "| host, µs: | after: | without:"
    rows = []
    for each in result["cases"]:
        ratios = each["ratio"] or {}
        figures = [ratios.get("exact"), ratios.get("chosen"), each["compiled"], each.get("host in contest")]
        figures += [each["host afterwards"], each["host without"]]
        cells = ["" if figure is None else f"{figure:.2f}" for figure in figures]
        rows.append((each["case"], each["winner"], each["ended"], each["wrong"], *cells))
    agree = "the same bits in every launch" if result["processes agree"] else "OTHER BITS"
    where = f"{result['device']}, Triton {result['triton']}, {result['date']}"
    said = f"{where}. Two processes at once, on {result['gpus']}: {agree}."
    return report.page("# Contests", "", said, "", *report.table(heads, rows))


def run_cases(wait: float = PATIENCE) -> list[dict[str, Any]]:
    """All cases in this process."""
    torch.manual_seed(0)
    host = {name: without_plugin(name) for name in CASES}
    triton_linear.install(wait=False)
    return [examined(name, wait) | {"host without": host[name]} for name in CASES]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases, then twice in processes at once, and write the page."""
    parser = Parser("gpu_contests", __doc__, whole=True).output()
    parser.add_argument("--process", action="store_true", help="print what one process finds")
    options = parser.parse_args(argv)
    if options.process:
        print(json.dumps(run_cases()))
        return 0
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": cache}
        command = [sys.executable, "-m", "bench.gpu_contests", "--process"]
        gpus = torch.cuda.device_count()
        both = [
            subprocess.Popen(
                command,
                env=environment | {"CUDA_VISIBLE_DEVICES": str(rank % gpus)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        found = [json.loads(process.communicate()[0].splitlines()[-1]) for process in both]
    agree = [[case["bits"] for case in cases] for cases in found]
    wrong = sum(case["wrong"] for cases in found for case in cases)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        cases = run_cases()
    result = {
        **results.versions(),
        "device": torch.cuda.get_device_name(),
        "cases": cases,
        "gpus": "two GPUs" if gpus > 1 else "one GPU",
        "processes agree": agree[0] == agree[1] and wrong == 0,
    }
    print(results.save(options.output, "contests", markdown, result), end="")
    return int(any(case["wrong"] for case in cases) or not result["processes agree"])


if __name__ == "__main__":
    sys.exit(main())
