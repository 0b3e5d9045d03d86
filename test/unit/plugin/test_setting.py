"""No cache of Triton's serves a kernel of another setting, in a process, between them, between threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
import triton
import triton.language as tl
from plugin_processes import printed
from plugin_support import CUDA, HIP, compile_kernel, fake_driver, fresh_plugin, is_ours, row_sums, triton_state
from triton import knobs
from triton.compiler import compiler, make_backend
from triton.runtime._async_compile import AsyncCompileMode, active_mode
from triton.runtime.jit import MockTensor

import triton_linear
from triton_linear import hook, setting
from triton_linear.dialect import sources
from triton_linear.passes import attempts

__all__ = ["fake_driver", "fresh_plugin"]

pytestmark = pytest.mark.usefixtures("fresh_plugin")


# Keys and caches


def test_each_setting_has_keys_of_its_own() -> None:
    stock = make_backend(CUDA).hash()
    keys = [stock]
    off = [
        dict.fromkeys(names, False) for names in (["reductions"], ["assign"], ["lower"], ["assign", "lower"])
    ]
    for options in ({}, {"strict": True}, {"scratch_limit": 64}, {"exact": True}, *off):
        with triton_linear.enabled(**options):  # type: ignore[arg-type]
            keys.append(make_backend(CUDA).hash())
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(stock) for key in keys)


def test_a_listener_does_not_change_the_key() -> None:
    with triton_linear.enabled():
        plain = make_backend(HIP).hash()
    with triton_linear.enabled(on_report=print):
        assert make_backend(HIP).hash() == plain


def test_a_changed_source_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pass.py").write_text("one")
    monkeypatch.setattr(sources, "_folders", lambda package: [tmp_path])
    first = sources.source_digest.__wrapped__()
    (tmp_path / "pass.pyc").write_text("does not count")
    assert sources.source_digest.__wrapped__() == first
    (tmp_path / "pass.py").write_text("two")
    second = sources.source_digest.__wrapped__()
    assert second != first
    fingerprints = set()
    for digest in (first, second):
        monkeypatch.setattr(setting, "source_digest", lambda digest=digest: digest)
        fingerprints.add(setting.Setting().fingerprint)
    assert len(fingerprints) == 2


def test_the_digest_covers_every_room_that_makes_code() -> None:
    for package in sources._SOURCES:
        (folder,) = sources._folders(package)
        assert (folder / "__init__.py").is_file()
    found = {Path(f).name for p in sources._SOURCES for f in sources._folders(p)}
    # The package's own folder has its installed name where tools see it by path.
    assert found - {"plugin", "triton_linear"} == {"dialect", "passes", "lowering"} and len(found) == 4


def warm_up(kernel: Any = row_sums, **options: Any) -> Any:
    pointer = MockTensor(tl.float32)
    return kernel.warmup(pointer, pointer, BM=32, BN=64, grid=(1,), **options)


@pytest.fixture
def kernel() -> Any:
    """A JIT function with empty in-process caches."""
    return triton.jit(row_sums.fn)


@pytest.mark.usefixtures("fake_driver")
def test_a_process_keeps_kernels_of_each_setting_apart(kernel: Any) -> None:
    stock = warm_up(kernel)
    with triton_linear.enabled():
        ours = warm_up(kernel)
        assert warm_up(kernel) is ours
    assert (is_ours(stock), is_ours(ours)) == (False, True)
    assert warm_up(kernel) is stock
    with triton_linear.enabled():
        assert warm_up(kernel) is ours
    with triton_linear.enabled(scratch_limit=64):
        assert warm_up(kernel) is not ours


@pytest.mark.usefixtures("fake_driver")
def test_preloading_compiles_under_the_setting_in_force(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    def record(**call: Any) -> None:
        recorded.append(call["compile"]["specialization_data"])

    monkeypatch.setattr(knobs.runtime, "jit_post_compile_hook", record)
    warm_up(kernel)
    kernel.device_caches.clear()
    with triton_linear.enabled():
        assert is_ours(kernel.preload(recorded[0]))
        assert is_ours(warm_up(kernel))
    assert not is_ours(warm_up(kernel))


@pytest.mark.usefixtures("fake_driver")
@pytest.mark.parametrize("state", [False, True], ids=["on", "off"])
def test_a_launch_keeps_the_setting_of_its_key(
    state: bool, kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another thread turns the plugin on or off before Triton has made the key of the disk cache."""
    before = triton_state()
    if not state:
        triton_linear.install()
    stock = compiler.get_cache_invalidating_env_vars

    def turn() -> Any:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(triton_linear.install if state else triton_linear.uninstall).result()
        return stock()

    with monkeypatch.context() as toggled:
        toggled.setattr(compiler, "get_cache_invalidating_env_vars", turn)
        first = warm_up(kernel)
    if not state:
        assert triton_state() == before
    (triton_linear.uninstall if state else triton_linear.install)()
    assert is_ours(warm_up(kernel)) is not state
    assert is_ours(first) is not state
    (triton_linear.install if state else triton_linear.uninstall)()
    assert is_ours(warm_up(kernel)) is state


@contextmanager
def gate() -> Iterator[threading.Event]:
    """What a pool's thread waits for; open in the end, also where the test failed."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


def finish(pool: ThreadPoolExecutor) -> None:
    """Wait for what was submitted to a pool of one thread."""
    pool.submit(lambda: None).result(timeout=60)


@pytest.mark.usefixtures("fake_driver")
@pytest.mark.parametrize("state", [False, True], ids=["on", "off"])
def test_an_asynchronous_compile_keeps_the_setting_of_its_launch(state: bool, kernel: Any) -> None:
    """`state`: what the plugin is turned to after the launch, before the compile begins."""
    before = triton_state()
    turn, turn_back = (triton_linear.install, triton_linear.uninstall)[:: 1 if state else -1]
    turn_back()
    with ThreadPoolExecutor(1) as pool, gate() as go:
        pool.submit(go.wait)
        with AsyncCompileMode(pool) as mode:
            future = warm_up(kernel)
            assert active_mode.get() is mode
            turn()
            go.set()
            finish(pool)
            assert is_ours(future.result()) is not state
    assert is_ours(warm_up(kernel)) is state
    turn_back()
    assert warm_up(kernel) is future.result()
    triton_linear.uninstall()
    assert triton_state() == before


@pytest.mark.usefixtures("fake_driver")
def test_an_asynchronous_compile_while_off_under_an_older_pin_is_stock(kernel: Any) -> None:
    """Launched while Triton is patched only because another compile is not done; run after turning on."""
    with ThreadPoolExecutor(1) as pool, gate() as go, hook._state.pinned(None):
        pool.submit(go.wait)
        with ThreadPoolExecutor(1) as launcher:

            def launch() -> Any:
                with AsyncCompileMode(pool):
                    future = warm_up(kernel)
                    triton_linear.install()
                    go.set()
                return future.result()

            assert not is_ours(launcher.submit(launch).result(timeout=60))


@pytest.mark.usefixtures("fake_driver")
def test_asynchronous_compiles_of_two_settings_are_two(kernel: Any) -> None:
    with ThreadPoolExecutor(1) as pool, AsyncCompileMode(pool) as mode:
        stock = warm_up(kernel)
        with triton_linear.enabled():
            ours = warm_up(kernel)
            assert warm_up(kernel) is ours
        assert warm_up(kernel) is stock
        assert len(mode.future_kernels) == 2
    assert (is_ours(stock.result()), is_ours(ours.result())) == (False, True)


def test_a_backend_hashed_again_while_off_gives_stock_stages() -> None:
    backend = make_backend(CUDA)
    with triton_linear.enabled():
        backend.hash()
        assert "add_stages" in vars(backend)
        with hook._state.pinned(None):
            backend.hash()
        assert vars(backend).keys() == vars(make_backend(CUDA)).keys()


PROCESS = """
import sys, plugin_support as support, triton_linear
support.use_fakes()
for state in {states!r}:
    (triton_linear.install if state else triton_linear.uninstall)()
    print(int(support.is_ours(support.compile_kernel())), end=" ")
print("compiled", int(triton_linear.last_report() is not None), "mlir", int("mlir" in sys.modules))
"""


def test_processes_share_a_cache_and_get_the_right_kernels(tmp_path: Path) -> None:
    for states, said in (
        ([False], "0 compiled 0 mlir 0\n"),
        ([True], "1 compiled 1 mlir 1\n"),
        ([True, False, True], "1 0 1 compiled 0 mlir 0\n"),
    ):
        assert printed("-c", PROCESS.format(states=states), TRITON_CACHE_DIR=str(tmp_path)) == said


# Threads


def test_turning_off_while_a_stage_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage that runs ends as it began; what another thread compiles meanwhile is stock."""
    others = []

    def prepare(*args: Any, **options: Any) -> Any:
        triton_linear.uninstall()
        with ThreadPoolExecutor(1) as pool:
            others.append(pool.submit(compile_kernel, width=128).result())
        return support.fake_prepare(*args, **options)

    monkeypatch.setattr(attempts, "prepare", prepare)
    triton_linear.install()
    assert is_ours(compile_kernel())
    assert [is_ours(kernel) for kernel in others] == [False]


def turning(state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the plugin on or off between the cache key and the stages, as another thread might."""
    turn = triton_linear.install if state else triton_linear.uninstall
    stock = compiler.get_cache_manager

    def get_cache_manager(key: str) -> Any:
        turn()
        return stock(key)

    monkeypatch.setattr(compiler, "get_cache_manager", get_cache_manager)


@pytest.mark.parametrize("state", [False, True], ids=["on", "off"])
def test_a_compile_keeps_the_setting_of_its_key(state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not state:
        triton_linear.install()
    with monkeypatch.context() as toggled:
        turning(state, toggled)
        assert is_ours(compile_kernel()) is not state
    (triton_linear.uninstall if state else triton_linear.install)()
    assert is_ours(compile_kernel()) is not state
