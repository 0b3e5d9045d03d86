"""A GPU that is not there, for runs of tables that are timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from bench.kernels import measure
from triton_linear.examples.spec import gpu_target


class _Event:
    """1 ms between any two."""

    def __init__(self, **_: Any) -> None:
        pass

    def record(self) -> None:
        pass

    def elapsed_time(self, other: object) -> float:
        return 1.0


@contextmanager
def no_gpu(cache: Path) -> Iterator[None]:
    """PyTorch and Triton say that there is a GPU; kernels are compiled and loaded, but compute nothing."""
    import torch
    from triton import knobs
    from triton.compiler.compiler import CompiledKernel

    from bench.foreign import pretend

    @contextmanager
    def graph(*_: Any, **__: Any) -> Iterator[None]:
        yield

    fakes = {
        "graph_pool_handle": lambda: 0,
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
        "graph": graph,
        "Event": _Event,
    }
    generator = torch.Generator
    with (
        pretend.gpu(gpu_target("cuda:90")),
        mock.patch.multiple(torch.cuda, create=True, **fakes),
        mock.patch.object(torch, "Generator", lambda device: generator("cpu")),
        mock.patch.object(CompiledKernel, "run", property(lambda self: lambda *a, **k: None)),
        mock.patch.object(CompiledKernel, "launch_metadata", lambda *a, **k: None),
        mock.patch.object(CompiledKernel, "_init_handles", lambda self: None),
        mock.patch.object(measure, "_session", None),
        knobs.cache.scope(),
    ):
        knobs.cache.dir = str(cache)
        yield
