"""What a process of a case does: it builds and compiles the model, with or without the plugin, and is asked.

    start(place)            set up, before PyTorch is imported
    prepare(case)           build, compile, choose configurations; facts of the kernels
    adopt(choices)          make the kernels in the configurations of another process
    compare(path, way)      results, beside those that stock Triton's process wrote to a file
    measure(way, steps)     GPU times of the kernels of a step

Only `prepare` takes the GPU's lock by itself. Who asks for the rest has it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..harness.cases import called
from ..harness.child import told
from . import zoo
from .card import Card
from .times import per_step, profiled
from .tuners import Tuners, alone, of_step
from .work import Results, Work, apart

WARM = 2
OTHERS = 12
"""So many of the kernels that are not Inductor's are named."""


@dataclass(frozen=True)
class Place:
    """Where a process works, and how.

    plugin: None for stock Triton, or options as in the variable TRITON_LINEAR.
    cores: those of its GPU; none for all. threads: Inductor's workers.
    """

    card: str
    lock: Path
    folder: Path
    plugin: str | None
    threads: int
    cores: tuple[int, ...] = ()

    def environment(self) -> dict[str, str]:
        """The variables to be set before PyTorch is imported."""
        found = {
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            "TRITON_CACHE_DIR": str(self.folder / "triton"),
            "TRITON_HOME": str(self.folder / "home"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(self.threads),
            # Its launchers cannot be made twice, and keep no assembly.
            "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",
            "TORCHINDUCTOR_USE_STATIC_TRITON_LAUNCHER": "0",
            "OMP_NUM_THREADS": "2",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        return found | ({"CUDA_VISIBLE_DEVICES": self.card} if self.card else {})


@dataclass
class State:
    """What a process has."""

    place: Place
    work: Work | None = None
    tuners: Tuners | None = None


_state: State | None = None


def _there() -> State:
    assert _state is not None
    return _state


def start(place: Place) -> dict[str, Any]:
    """Ready the process; gives what there is to know of the GPU. Raises where there is none."""
    global _state  # noqa: PLW0603
    if place.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, place.cores)
    os.environ.pop("TRITON_LINEAR", None)
    os.environ.update(place.environment())
    for name in ("inductor", "triton", "home"):
        (place.folder / name).mkdir(parents=True, exist_ok=True)
    import torch
    import transformers

    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    transformers.logging.set_verbosity_error()
    torch.set_float32_matmul_precision("high")
    from torch._inductor import config

    config.use_static_cuda_launcher = False
    # Inductor measures whether to pad matrix products: two processes may answer otherwise, with other kernels.
    config.shape_padding = False
    if place.plugin is not None:
        _install(place.plugin, place.folder)
    _state = State(place)
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": torch.cuda.get_device_name(),
        "target": f"cuda:{properties.major}{properties.minor}",
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
    }


def _reports(folder: Path) -> Path:
    return folder / "reports.jsonl"


def _install(plugin: str, folder: Path) -> None:
    import triton_linear
    from triton_linear.environment import arguments, parse

    options = parse(plugin)
    if options is None:
        raise ValueError(f"'{plugin}' does not turn the plugin on")
    triton_linear.install(**arguments(options) | {"report": str(_reports(folder))})


def prepare(name: str) -> dict[str, Any]:
    """Build a case and compile it, for facts of its kernels. Raises Failed."""
    return told(_prepare, name)


def _prepare(name: str) -> dict[str, Any]:
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.async_compile import AsyncCompile

    state, began = _there(), time.perf_counter()
    card = Card(state.place.lock)
    if state.place.threads > 1:
        AsyncCompile.wait_pool_ready()
    with card.held():
        state.work = Work(called(name, zoo.cases()), "cuda", lambda model: torch.compile(model, dynamic=False))
        torch.cuda.synchronize()
    built = time.perf_counter()
    with alone(card.held):
        state.work.step()
        torch.cuda.synchronize()
    first = time.perf_counter()
    with card.held():
        for _ in range(WARM):
            state.work.step()
        state.tuners = of_step(state.work.step)
        profiled(state.work.step, 1)  # The profiler's own first time takes long.
        torch.cuda.synchronize()
        again = time.perf_counter()
        state.work.step()
        torch.cuda.synchronize()
        milliseconds = 1e3 * (time.perf_counter() - again)
        torch.cuda.empty_cache()
    return {
        "kernels": state.tuners.facts(),
        "graphs": counters["stats"]["unique_graphs"],
        "milliseconds": round(milliseconds, 2),
        "gigabytes": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "seconds": {"build": round(built - began, 1), "compile": round(first - built, 1)},
        "compiles": compiles(_reports(state.place.folder)),
    }


def compiles(path: Path) -> dict[str, Any]:
    """How many compiles the plugin reports in a file, by outcome, and the errors among them, by kernel."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    errors = {line["kernel"]: str(line["error"])[:300] for line in lines if line.get("error")}
    return {"outcomes": dict(Counter(line["outcome"] for line in lines)), "errors": errors}


def choices() -> dict[str, str]:
    """The configuration of each kernel, by key."""
    tuners = _there().tuners
    assert tuners is not None
    return tuners.choices()


def adopt(chosen: Mapping[str, str]) -> dict[str, Any]:
    """Make the kernels of EQUAL. Raises Failed."""
    tuners = _there().tuners
    assert tuners is not None
    return told(tuners.adopt, chosen)


def write(path: Path) -> dict[str, Any]:
    """Write the results of a step to a file; gives how far those of another step are from them.

    Raises Failed.
    """
    return told(_write, path)


def _write(path: Path) -> dict[str, Any]:
    import torch

    work = _there().work
    assert work is not None
    found = work.results()
    torch.save(found, path)
    return apart(found, work.results(), work.case.trains)


def compare(path: Path, way: str) -> dict[str, Any]:
    """How far the results of a step are from those in the file. Raises Failed."""
    return told(_compare, path, way)


def _compare(path: Path, way: str) -> dict[str, Any]:
    import torch

    state = _there()
    assert state.work is not None and state.tuners is not None
    state.tuners.use(way)
    stock: Results = torch.load(path, weights_only=True)
    return apart(stock, state.work.results(), state.work.case.trains)


def measure(way: str, steps: int) -> dict[str, Any]:
    """Microseconds of a step: of each kernel of Inductor's, of all others, and of the longest of these by name.
    Raises Failed."""
    return told(_measure, way, steps)


def _measure(way: str, steps: int) -> dict[str, Any]:
    state = _there()
    assert state.work is not None and state.tuners is not None
    state.tuners.use(way)
    state.work.step()
    times = per_step(profiled(state.work.step, steps), state.tuners.launched, state.tuners.names, steps)
    if not times.triton:
        raise RuntimeError(f"the profiler saw no kernel of Inductor's among {len(times.others)} others")
    longest = sorted(times.others.items(), key=lambda pair: -pair[1])[:OTHERS]
    return {
        "kernels": [round(value, 3) for value in times.kernels],
        "rest": round(times.rest, 2),
        "others": {name: round(value, 2) for name, value in longest},
    }
