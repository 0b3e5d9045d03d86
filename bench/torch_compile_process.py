"""One process of bench/torch_compile_check.py: it compiles, runs, and says what each kernel is.

Inductor's workers import this file too: each of them, as the process itself, adds a line to RECORDS in the
cache folder for every key that Triton makes in it. The key of a kernel has the backend's hash in it, and that
has the fingerprint of the plugin's setting, so the line says under which setting the kernel of that key was
compiled, whoever launches it later.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDS = "keys.jsonl"
_NOT_CODE = re.compile(r"//.*|^\s*\.(?:loc|file|version)\b.*|^\$L__(?:tmp|func_)\w+:", re.MULTILINE)


@dataclass(frozen=True)
class Lane:
    """How the processes of one cache folder compile and launch: the settings of each process in turn."""

    name: str
    phases: tuple[tuple[str, ...], ...]
    threads: int = 1
    static: bool = True
    by: str = "variable"


def cache_folder() -> Path:
    return Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])


# What is written down


def record_keys() -> None:
    """From here on, write down each key that `triton.compile` makes in this process."""
    from triton.compiler import compiler  # type: ignore[import-untyped, unused-ignore]

    stock = compiler.get_cache_key
    if hasattr(stock, "__wrapped__"):
        return

    @functools.wraps(stock)
    def get_cache_key(source: Any, backend: Any, options: Any, *rest: Any, **named: Any) -> Any:
        key = stock(source, backend, options, *rest, **named)
        write_record(source.name, key + key_of_hook(), source.hash(), options.hash())
        return key

    compiler.get_cache_key = get_cache_key


def key_of_hook() -> str:
    """What `triton.compile` adds to a key behind `get_cache_key`, for the hook that inspects stages."""
    import triton

    hook = triton.knobs.runtime.add_stages_inspection_hook
    if hook is None:
        return ""
    from triton_linear.dialect.triton_versions import HOOK_IN_KEYS, installed_release

    return str(hook()[0]) if installed_release() in HOOK_IN_KEYS else ""


def write_record(kernel: str, key: str, source: str, options: str) -> None:
    """One line; `backend` is what the key has between the hashes of the source and of the options."""
    record = {
        "kernel": kernel,
        "key": base64.b32encode(hashlib.sha256(key.encode()).digest()).decode().rstrip("="),
        "source": source[:12],
        "backend": key.partition(f"-{source}-")[2].partition(f"-{options}-")[0],
        "options": options[:12],
        "process": os.getpid(),
    }
    with (cache_folder() / RECORDS).open("a") as file:
        file.write(json.dumps(record) + "\n")


def records() -> list[dict[str, Any]]:
    path = cache_folder() / RECORDS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def compile_in_worker(*arguments: object) -> object:
    """Inductor's job for a worker, with the keys written down."""
    from torch._inductor.runtime.compile_tasks import _worker_compile_triton

    record_keys()
    return _worker_compile_triton(*arguments)


def codes() -> dict[str, str]:
    """Key and a digest of the code of each kernel in the cache folder, also of those that lost when they were
    autotuned.
    """
    return {path.parent.name: code_digest(path.read_text()) for path in cache_folder().rglob("*.ptx")}


def code_digest(ptx: str) -> str:
    """Equal for the same code made from files of other names, or for another ptxas.

    >>> code_digest(".version 8.7\\nret; // a.py:1") == code_digest(".version 9.0\\nret;")
    True
    """
    code = _NOT_CODE.sub("", ptx.partition("\t.section")[0])
    return hashlib.sha256(" ".join(code.split()).encode()).hexdigest()[:16]


def launched() -> set[tuple[str, str]]:
    """Fills up with (name, Triton's key) of each kernel that Inductor launches from here on."""
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


# What is run


def compiled_functions() -> list[tuple[str, Callable[[Any], Any], Any, dict[str, object]]]:
    """Name, function, argument and Inductor's options. Each of them has a conversion in stock Triton."""
    import torch

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(1), device="cuda").half()

    def softmax(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.float(), -1).half()

    autotuned: dict[str, object] = {"max_autotune_pointwise": True, "max_autotune": True}
    return [
        ("row sums", lambda x: x.float().sum(-1), draw(4096, 32), {}),
        ("softmax, transposed", lambda x: softmax(x).t().contiguous(), draw(1024, 512), {}),
        ("sums both ways", lambda x: x.float().sum(0) + x.float().amax(), draw(512, 512), {}),
        ("softmax, autotuned", softmax, draw(2048, 256), autotuned),
    ]


@contextlib.contextmanager
def under(setting: str, by: str, reports: list[Any]) -> Iterator[str | None]:
    """The setting of one phase, and its fingerprint; one by variable is there already, and gets a listener."""
    if setting == "stock":
        yield None
        return
    import triton_linear
    from triton_linear import hook

    if setting == "enabled":
        with triton_linear.enabled(on_report=reports.append):
            yield fingerprint(hook)
        return
    if by == "variable":
        import triton  # noqa: F401

        assert hook._state.installed is not None, "TRITON_LINEAR had no effect"
    triton_linear.install(on_report=reports.append)
    yield fingerprint(hook)
    triton_linear.uninstall()


def fingerprint(hook: Any) -> str:
    setting = hook._state.current()
    assert setting is not None
    return str(setting.fingerprint)


def phase(setting: str, lane: Lane, kernels: set[tuple[str, str]]) -> dict[str, Any]:
    """Compile and run every function once under one setting; what was launched and what caches said."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.async_compile import AsyncCompile

    torch._dynamo.reset()
    counters.clear()
    kernels.clear()
    codes_before, records_before = codes().keys(), len(records())
    reports: list[Any] = []
    wrong = []
    start = time.perf_counter()
    with under(setting, lane.by, reports) as of_setting:
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
        "seconds": round(time.perf_counter() - start, 1),
        "fingerprint": of_setting,
        "wrong": wrong,
        "launched": sorted(kernels),
        "made": {key: code for key, code in codes().items() if key not in codes_before},
        "keys": records()[records_before:],
        "reports": [f"{r.kernel}: {r.outcome.value}, {r.ours} of {r.seen} ours" for r in reports],
        "ours": sum(r.emitted for r in reports),
        "graph hits": counters["inductor"]["fxgraph_cache_hit"]
        + counters["aot_autograd"]["autograd_cache_hit"],
        "graph misses": counters["inductor"]["fxgraph_cache_miss"],
        "parallel": parallel,
        "process": os.getpid(),
    }


def process(lane: Lane, settings: tuple[str, ...]) -> None:
    """What one process does: import everything, wait for its turn (a line on stdin), then a line of JSON for
    each phase.
    """
    start = time.perf_counter()
    import torch
    import torch._dynamo
    import torch._inductor.async_compile as asynchronous
    import torch._inductor.compile_fx

    asynchronous._worker_compile_triton = compile_in_worker
    record_keys()
    kernels = launched()
    torch.cuda.init()
    if lane.threads > 1:  # workers that were there before the plugin, where a call turns it on
        asynchronous.AsyncCompile.wait_pool_ready()
    ready = round(time.perf_counter() - start, 1)
    if not sys.stdin.readline():
        return
    for setting in settings:
        print(json.dumps({**phase(setting, lane, kernels), "ready after": ready}), flush=True)
