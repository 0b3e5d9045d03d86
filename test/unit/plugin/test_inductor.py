"""What torch.compile keeps and has others compile follows the setting; a torch of a few lines stands in for it.

`bench/torch_compile_check.py` checks the same with torch and a GPU.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
from plugin_processes import printed
from plugin_support import fresh_plugin
from torch_stand_in import stand_in

import triton_linear
from triton_linear import environment, hook, inductor
from triton_linear.setting import Options, Setting

__all__ = ["fresh_plugin"]

pytestmark = pytest.mark.usefixtures("fresh_plugin")

STARTUP = Path(triton_linear.__path__[0], "startup")
SUBPROC = "torch._inductor.compile_worker.subproc_pool"
TORCH = {
    "torch/__init__.py": "",
    "torch/utils/__init__.py": "",
    "torch/utils/_triton.py": """
import functools
from plugin_support import CUDA
from triton.compiler import make_backend
@functools.cache
def triton_hash_with_backend():
    return make_backend(CUDA).hash()
""",
    "torch/compiler/__init__.py": "",
    "torch/compiler/config.py": """
import contextlib
cache_key_tag = ""
@contextlib.contextmanager
def patch(**changes):
    before = {name: globals()[name] for name in changes}
    globals().update(changes)
    yield
    globals().update(before)
""",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/async_compile.py": """
import functools
from torch._inductor.compile_worker.subproc_pool import SubprocPool
class AsyncCompile:
    @staticmethod
    @functools.lru_cache(1)
    def process_pool():
        return SubprocPool()
""",
    "torch/_inductor/compile_worker/__init__.py": "",
    "torch/_inductor/compile_worker/subproc_pool.py": """
import pickle
from concurrent.futures import Future
class SubprocPool:
    workers = None
    def submit(self, job, *args):
        return self.workers.submit(do_job, pickle.dumps((job, args)))
def do_job(data):
    job, args = pickle.loads(data)
    return job(*args)
""",
    "torch/_inductor/compile_worker/tracked_process_pool.py": """
from concurrent.futures import ProcessPoolExecutor
class TrackedProcessPoolExecutor(ProcessPoolExecutor):
    def submit(self, job, /, *args):
        return super().submit(job, *args)
""",
}
"""As much of torch as the plugin looks at."""


@pytest.fixture(autouse=True)
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(inductor, "_tag", environment.BorrowedText(inductor._read_tag, inductor._write_tag))
    monkeypatch.setattr(inductor, "_patched", set())
    with stand_in(TORCH, tmp_path, monkeypatch):
        yield


def load(name: str) -> Any:
    return importlib.import_module(name)


def fingerprint(**options: Any) -> str:
    return Setting(Options(**options)).fingerprint


# Caches of graphs


@pytest.mark.parametrize("first", ["torch", "install"])
def test_the_tag_of_graph_caches_has_the_fingerprint(first: str) -> None:
    if first == "torch":
        load("torch.compiler.config")
        triton_linear.install()
    else:
        triton_linear.install()
        load("torch.compiler.config")
    config = load("torch.compiler.config")
    assert config.cache_key_tag == fingerprint()
    triton_linear.install(scratch_limit=64)
    assert config.cache_key_tag == fingerprint(scratch_limit=64)
    with triton_linear.enabled(strict=True):
        assert config.cache_key_tag == fingerprint(strict=True, wait=True)
    assert config.cache_key_tag == fingerprint(scratch_limit=64)
    triton_linear.uninstall()
    assert config.cache_key_tag == ""


def test_a_tag_of_the_user_stays_in_the_key() -> None:
    config = load("torch.compiler.config")
    config.cache_key_tag = "mine"
    with triton_linear.enabled():
        assert config.cache_key_tag == f"mine-{fingerprint(wait=True)}"
        with triton_linear.enabled(strict=True):
            assert config.cache_key_tag == f"mine-{fingerprint(strict=True, wait=True)}"
    assert config.cache_key_tag == "mine"
    with triton_linear.enabled():
        config.cache_key_tag = "other"
        with triton_linear.enabled(strict=True):
            assert config.cache_key_tag == f"other-{fingerprint(strict=True, wait=True)}"
        assert config.cache_key_tag == f"other-{fingerprint(wait=True)}"
        config.cache_key_tag = "last"
    assert config.cache_key_tag == "last"


def test_a_torch_imported_while_off_is_left_alone() -> None:
    triton_linear.install()
    triton_linear.uninstall()
    pool = load(SUBPROC).SubprocPool
    assert load("torch.compiler.config").cache_key_tag == ""
    assert not hasattr(pool.submit, "__wrapped__")


@pytest.mark.parametrize("missing", ["cache_key_tag", "triton_hash_with_backend", "SubprocPool"])
def test_another_torch_is_no_failure(missing: str) -> None:
    for name in ("compiler.config", "utils._triton", "_inductor.compile_worker.subproc_pool"):
        vars(load(f"torch.{name}")).pop(missing, None)
    with triton_linear.enabled(), triton_linear.enabled(strict=True):
        assert support.is_ours(support.compile_kernel())


def test_the_variable_reaches_a_module_that_imports_triton_itself(tmp_path: Path) -> None:
    """The plugin is turned on while that module is half imported, and sees it all the same when it is done."""
    module = tmp_path / "site" / "torch" / "_inductor" / "compile_worker" / "subproc_pool.py"
    module.write_text("import sys; assert 'triton' not in sys.modules; import triton\n" + module.read_text())
    code = f"import {SUBPROC} as module; print(hasattr(module.SubprocPool.submit, '__wrapped__'))"
    path = [str(STARTUP), *sys.path]
    assert printed("-c", code, PYTHONPATH=os.pathsep.join(path), TRITON_LINEAR="1") == "True\n"


# Names of kernels' files and of what autotuning found


def test_the_hash_in_the_source_of_kernels_is_that_of_the_setting() -> None:
    hashed = load("torch.utils._triton").triton_hash_with_backend
    stock = hashed()
    triton_linear.install()
    ours = hashed()
    assert ours == f"{stock}-{fingerprint()}"
    with triton_linear.enabled(strict=True):
        assert hashed() == f"{stock}-{fingerprint(strict=True, wait=True)}"
    assert hashed() == ours
    triton_linear.uninstall()
    assert hashed() == stock


# Workers


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPoolExecutor]:
    """One worker, which was started before anything else, and without the variable."""
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(support.compile_in_worker).result(timeout=60) is False
        yield pool


def subproc_pool(workers: ProcessPoolExecutor) -> Any:
    """A pool as Inductor starts it, whose jobs that worker gets."""
    pool = load(SUBPROC).SubprocPool()
    pool.workers = workers
    return pool


def compiled_in(pool: Any) -> bool:
    future: Future[bool] = pool.submit(support.compile_in_worker)
    return future.result(timeout=60)


def is_on() -> bool:
    import triton  # noqa: F401

    return hook._state.current() is not None


def test_a_worker_compiles_under_the_setting_of_the_job(workers: ProcessPoolExecutor) -> None:
    pool = subproc_pool(workers)
    assert not compiled_in(pool)
    triton_linear.install()
    assert compiled_in(pool)
    triton_linear.uninstall()
    assert not compiled_in(pool)
    with triton_linear.enabled(scratch_limit=64):
        assert compiled_in(pool)
        before = triton_linear.last_report()
        assert support.is_ours(support.compile_kernel(num_warps=8))
        assert triton_linear.last_report() is before  # the worker's kernel was under this very key
    assert not compiled_in(pool)


def test_a_worker_writes_to_the_file_of_reports(workers: ProcessPoolExecutor, tmp_path: Path) -> None:
    pool, path = subproc_pool(workers), tmp_path / "reports"
    with triton_linear.enabled(scratch_limit=32, report=path):
        assert compiled_in(pool)
    (line,) = map(json.loads, path.read_text().splitlines())
    assert line["process"] in workers._processes
    assert line["kernel"] == support.row_sums.__name__


def test_a_worker_that_was_started_while_on_obeys_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(STARTUP), os.environ.get("PYTHONPATH", "")]))
    triton_linear.install()
    pools = load("torch._inductor.compile_worker.tracked_process_pool")
    with pools.TrackedProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(is_on).result(timeout=60)
        assert ProcessPoolExecutor.submit(pool, is_on).result(timeout=60)  # by itself
        triton_linear.uninstall()
        assert not compiled_in(pool)
        triton_linear.install()
        assert compiled_in(pool)


def test_the_job_has_the_tag_and_leaves_the_worker_as_it_was() -> None:
    config = load("torch.compiler.config")
    job = inductor.Job(lambda: (config.cache_key_tag, hook._state.current()), Options(strict=True), "theirs")
    tag, setting = job()
    assert tag == "theirs"
    assert setting.options == Options(strict=True)
    assert (config.cache_key_tag, hook._state.current(), hook._state.patches) == ("", None, ())


def test_a_pool_from_before_is_not_used_again() -> None:
    process_pool = load("torch._inductor.async_compile").AsyncCompile.process_pool
    old = process_pool()
    triton_linear.install()
    assert process_pool() is not old
    new = process_pool()
    triton_linear.uninstall()
    triton_linear.install()
    assert process_pool() is new
