"""Checks on a GPU that torch.compile uses kernels of the setting in force, whatever is in its caches.

    python3 bench/torch_compile_check.py [--output DIR] [--dry]

Lanes run side by side, each with a cache folder of its own. In a lane, fresh processes run one after
another: stock, with the plugin, stock, with the plugin. Lanes differ in who compiles (the process, or
Inductor's workers), in who launches (Triton's launcher or Inductor's static one) and in how the plugin is
turned on (the variable TRITON_LINEAR, or a call). One more lane turns it on and off in a single process with
workers that were there before. Two lanes of one process each say which kernels are stock and which are ours.

torch_compile.json in DIR has everything that was found. The exit status is 1 unless every check passed; without
PyTorch or a GPU nothing is checked. `--dry` shows the processes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import triton_linear

STARTUP = Path(triton_linear.__path__[0], "startup")
ORDER = ("stock", "plugin", "stock", "plugin")
TOGGLES = ("stock", "enabled", "stock", "install", "stock")
PATIENCE = 240.0  # Seconds after which a process counts as hung.


@dataclass(frozen=True)
class Lane:
    """How the processes of one cache folder compile and launch."""

    name: str
    threads: int = 1
    static: bool = True
    by: str = "variable"
    phases: tuple[tuple[str, ...], ...] = tuple((setting,) for setting in ORDER)


ANCHORS = tuple(Lane(f"only {setting}", phases=((setting,),)) for setting in ("stock", "plugin"))
LANES = (
    Lane("in process"),
    Lane("in process, Triton's launcher", static=False, by="call"),
    Lane("workers", threads=4),
    Lane("workers, Triton's launcher", threads=4, static=False, by="call"),
    Lane("toggling, workers", threads=4, by="call", phases=(TOGGLES,)),
)


def environment(lane: Lane, setting: str, cache: str) -> dict[str, str]:
    """That of a process: a setting by variable needs the start-up file, as `pip install` puts it in place."""
    variables = {k: v for k, v in os.environ.items() if k not in ("TRITON_LINEAR", "TRITON_CACHE_DIR")}
    variables |= {
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TORCHINDUCTOR_COMPILE_THREADS": str(lane.threads),
        "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": str(int(lane.static)),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
    }
    if lane.by == "variable":
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(STARTUP), os.environ.get("PYTHONPATH"))))
        if setting == "plugin":
            variables["TRITON_LINEAR"] = "1"
    return variables


# In a process


def compiled_functions() -> list[tuple[str, Callable[[Any], Any], Any, dict[str, object]]]:
    """Name, function, argument and Inductor's options. Each of the kernels has a conversion in stock Triton."""
    import torch

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(1), device="cuda").half()

    def softmax(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.float(), -1).half()

    def transposed(x: torch.Tensor) -> torch.Tensor:
        return softmax(x).t().contiguous()

    return [
        ("row sums", lambda x: x.float().sum(-1), draw(4096, 32), {}),
        (
            "softmax, transposed",
            lambda x: torch.softmax(x.float(), -1).half().t().contiguous(),
            draw(1024, 512),
            {},
        ),
        ("sums both ways", lambda x: x.float().sum(0) + x.float().amax(), draw(512, 512), {}),
        (
            "softmax, autotuned",
            softmax,
            draw(2048, 256),
            {"max_autotune_pointwise": True, "max_autotune": True},
        ),
    ]


def launched() -> set[tuple[str, str]]:
    """Fills up with (name, Triton's hash) of each kernel that Inductor launches from here on."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    seen: set[tuple[str, str]] = set()
    stock = CachingAutotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = stock(self, *args, **kwargs)
        for launcher in self.launchers:
            seen.add((str(self.inductor_meta.get("kernel_name")), str(launcher.cache_hash)))
        return result

    CachingAutotuner.run = run
    return seen


@contextlib.contextmanager
def under(setting: str, by: str, reports: list[Any]) -> Iterator[None]:
    """The setting of one phase; one by variable is there already and only gets a listener."""
    if setting == "stock":
        yield
    elif setting == "enabled":
        with triton_linear.enabled(on_report=reports.append):
            yield
    else:
        if by == "variable":
            import triton  # noqa: F401
            from triton_linear import hook

            assert hook._state.installed is not None, "TRITON_LINEAR had no effect"
        triton_linear.install(on_report=reports.append)
        yield
        triton_linear.uninstall()


def phase(setting: str, lane: Lane, kernels: set[tuple[str, str]]) -> dict[str, Any]:
    """Compile and run every function once under one setting; what was launched and what caches said."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.async_compile import AsyncCompile

    torch._dynamo.reset()
    counters.clear()
    kernels.clear()
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    before = made(cache)
    reports: list[Any] = []
    wrong = []
    start = time.perf_counter()
    with under(setting, lane.by, reports):
        if lane.threads > 1:
            AsyncCompile.wait_pool_ready()
        for name, function, argument, options in compiled_functions():
            result = torch.compile(function, options=options)(argument)
            torch.cuda.synchronize()
            if not torch.allclose(result, function(argument), rtol=2e-3, atol=2e-3):
                wrong.append(name)
        parallel = lane.threads > 1 and bool(AsyncCompile.use_process_pool())
    return {
        "setting": setting,
        "kernels": sorted(kernels),
        "wrong": wrong,
        "reports": [f"{r.kernel}: {r.outcome.value}, {r.ours} of {r.seen} ours" for r in reports],
        "ours": sum(r.ours for r in reports),
        "made": sorted(made(cache) - before),
        "graph hits": counters["inductor"]["fxgraph_cache_hit"]
        + counters["aot_autograd"]["autograd_cache_hit"],
        "graph misses": counters["inductor"]["fxgraph_cache_miss"],
        "parallel": parallel,
        "seconds": round(time.perf_counter() - start, 1),
    }


def made(cache: Path) -> set[str]:
    """Triton's hashes of the kernels in a cache folder, also of those that lost when they were autotuned."""
    return {path.parent.name for path in cache.rglob("*.cubin")}


def process(lane: Lane, settings: tuple[str, ...]) -> None:
    """What one process does: a line of JSON for each phase."""
    import torch._inductor.async_compile  # before the plugin, in the lane that turns it on and off

    if lane.threads > 1 and len(settings) > 1:
        torch._inductor.async_compile.AsyncCompile.wait_pool_ready()
    kernels = launched()
    for setting in settings:
        print(json.dumps(phase(setting, lane, kernels)), flush=True)


# From outside


def run_lane(lane: Lane) -> list[dict[str, Any]]:
    """The phases of all processes of a lane, in order; a process that fails ends it."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        for settings in lane.phases:
            start = time.perf_counter()
            try:
                done = subprocess.run(
                    command(lane, settings), env=environment(lane, settings[0], cache),
                    capture_output=True, text=True, timeout=PATIENCE, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return [*found, {"setting": settings[0], "error": f"hung for {PATIENCE:.0f} s"}]
            found += [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"setting"')]
            if done.returncode != 0:
                return [*found, {"setting": settings[0], "error": done.stderr[-4000:]}]
            found[-1]["process seconds"] = round(time.perf_counter() - start, 1)
    return found


def command(lane: Lane, settings: tuple[str, ...]) -> list[str]:
    return [sys.executable, __file__, "--process", json.dumps(asdict(lane)), ",".join(settings)]


def judge(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What is not as it should be, in words."""
    failures = []
    hashes: dict[bool, set[str]] = {}
    for lane in ANCHORS:
        first = found[lane.name][0]
        hashes[lane.phases[0][0] != "stock"] = set(first.get("made", ()))
    if not hashes[False] or not hashes[True] or hashes[False] & hashes[True]:
        failures.append("the kernels of the two settings are not apart to begin with")
    if not found[ANCHORS[1].name][0].get("ours"):
        failures.append("the plugin converted nothing")
    for lane in (*ANCHORS, *LANES):
        phases = found[lane.name]
        if [entry["setting"] for entry in phases] != [name for names in lane.phases for name in names]:
            failures.append(f"{lane.name}: not every phase ran")
        for at, entry in enumerate(phases):
            where = f"{lane.name}, phase {at + 1} ({entry['setting']})"
            if "error" in entry:
                failures.append(f"{where}: {entry['error']}")
                continue
            failures += [f"{where}: {text}" for text in judge_phase(lane, phases[:at], entry, hashes)]
    return failures


def judge_phase(
    lane: Lane, earlier: list[dict[str, Any]], entry: dict[str, Any], hashes: dict[bool, set[str]]
) -> Iterator[str]:
    """Right results; kernels of its own setting alone; caches that serve it, and only what is its own."""
    on = entry["setting"] != "stock"
    used = {kernel[1] for kernel in entry["kernels"]}
    if entry["wrong"]:
        yield f"wrong results: {', '.join(entry['wrong'])}"
    if not used:
        yield "no kernel was launched"
    if foreign := used & hashes[not on]:
        yield f"{len(foreign)} kernels of the other setting"
    if unknown := {kernel[0] for kernel in entry["kernels"] if kernel[1] not in hashes[False] | hashes[True]}:
        yield f"kernels of neither setting: {', '.join(sorted(unknown))}"
    if not on and entry["reports"]:
        yield "the plugin compiled"
    if any((before["setting"] != "stock") == on for before in earlier):
        if entry["graph misses"] or not entry["graph hits"] or entry["made"] or entry["reports"]:
            yield "its caches did not serve it"
    else:
        if entry["graph hits"] or not entry["made"]:
            yield "served from a cache of the other setting"
        if lane.threads > 1 and (not entry["parallel"] or len(entry["reports"]) >= len(entry["made"])):
            yield "workers compiled nothing"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for torch_compile.json")
    parser.add_argument("--dry", action="store_true", help="show the processes and start none")
    parser.add_argument("--process", nargs=2, metavar=("LANE", "SETTINGS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        process(Lane(**json.loads(arguments.process[0])), tuple(arguments.process[1].split(",")))
        return 0
    if arguments.dry:
        for lane in (*ANCHORS, *LANES):
            for settings in lane.phases:
                changed = environment(lane, settings[0], "CACHE").items() - os.environ.items()
                print(" ".join(f"{k}={v}" for k, v in sorted(changed)), *command(lane, settings))
        return 0
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    start = time.perf_counter()
    with ThreadPoolExecutor(len(ANCHORS) + len(LANES)) as pool:
        found = dict(
            zip([lane.name for lane in (*ANCHORS, *LANES)], pool.map(run_lane, (*ANCHORS, *LANES)), strict=True)
        )
    failures = judge(found)
    summary = {"versions": versions(), "seconds": round(time.perf_counter() - start, 1), "failures": failures}
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**summary, "lanes": found}, indent=1)
        (arguments.output / "torch_compile.json").write_text(text + "\n")
    for name, phases in found.items():
        for entry in phases:
            print(
                f"{name}: " + ", ".join(f"{k} {v}" for k, v in entry.items() if k not in ("kernels", "reports"))
            )
    print(*failures, f"{len(failures)} failures in {summary['seconds']} s", sep="\n")
    return int(bool(failures))


def missing() -> str:
    """Why nothing can be checked here; empty if it can."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    probe = [sys.executable, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"]
    return "" if subprocess.run(probe, check=False).returncode == 0 else "PyTorch sees no GPU"


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "triton")} | {"triton_linear": triton_linear.__version__}


if __name__ == "__main__":
    sys.exit(main())
