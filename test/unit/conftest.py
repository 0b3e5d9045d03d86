"""What holds for all tests."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import triton_linear
from triton_linear.dialect import store
from triton_linear.tools.support.compile import lower, to_triton

# Triton 3.9 warns in every process that does not say what it wants; tests compare what processes print.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

# Whether a test passes depends on the code alone: examples of properties are drawn from the test's own source,
# and how long one takes on a busy machine is no failure. `--hypothesis-profile fresh` draws others each time.
_UNTIMED: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **_UNTIMED)
settings.register_profile("fresh", derandomize=False, **_UNTIMED)
settings.load_profile("same")

_CAST = """
#b = #ttg.blocked<{{sizePerThread = [4], threadsPerWarp = [{lanes}], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{target}",
                   "ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func public @cast(%x: tensor<512xf32, #b>, %p: tensor<512x!tt.ptr<f8E5M2>, #b>) {{
    %y = tt.fp_to_fp %x, rounding = rtne : tensor<512xf32, #b> -> tensor<512xf8E5M2, #b>
    tt.store %p, %y : tensor<512x!tt.ptr<f8E5M2>, #b>
    tt.return
  }}
}}
"""


@pytest.fixture(scope="session", autouse=True)
def a_cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Triton's cache in the home directory holds kernels of other checkouts: its key has no path of the source,
    their line tables have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton-cache")))
        yield


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache of Triton's, and the plugin off afterwards."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    yield
    triton_linear.uninstall()


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests watch the passes work, and put faults into them: what an earlier test has compiled is not taken."""
    monkeypatch.setattr(store, "read", lambda name: None)
    monkeypatch.setattr(store, "write", lambda name, entry: None)


@pytest.fixture(scope="session", autouse=True)
def old_gpus_first() -> None:
    """Triton settles for a process how it casts to 8-bit floats when it first does so, for the GPU at hand.

    What newer GPUs have, older ones cannot run. Tests come in any order, so the oldest come here.
    """
    for target, lanes in (("cuda:80", 32), ("hip:gfx90a", 64)):
        lower(to_triton(_CAST.format(target=target, lanes=lanes)), target, "llvm")


@pytest.fixture(scope="session", autouse=True)
def one_parse_at_a_time() -> Iterator[None]:
    """Triton's front end calls `ast.parse` for each kernel. In Python 3.11 it may raise SystemError in several
    threads at once ("AST constructor recursion depth mismatch"): it counts their depths together."""
    lock, parse = threading.Lock(), ast.parse

    def alone(*arguments: Any, **options: Any) -> ast.AST:
        with lock:
            return parse(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ast, "parse", alone)
        yield
