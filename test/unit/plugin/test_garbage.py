"""Holding back Python's garbage collector: for how long, and what is left behind."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from plugin_processes import printed

from triton_linear.garbage import held_back


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def test_collector_is_held_back_within_blocks_and_goes_on_behind_them() -> None:
    with held_back():
        assert not gc.isenabled()
        with held_back():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


@contextmanager
def another_thread() -> Iterator[None]:
    """A thread that holds it back meanwhile."""
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with held_back():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    yield
    leave.set()
    thread.join()


def test_collector_goes_on_when_the_last_thread_leaves() -> None:
    with held_back(), another_thread():
        pass
    assert gc.isenabled()
    with another_thread():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_that_another_thread_forks_meanwhile_collects() -> None:
    with another_thread():
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_no_garbage_is_collected_while_passes_run(tmp_path: object) -> None:
    script = (
        "import gc, triton, triton_linear\n"
        "from triton_linear.passes import attempts\n"
        "from triton_linear.examples import specs\n"
        "from triton_linear.examples.spec import gpu_target\n"
        "found, prepare = [], attempts.prepare\n"
        "def watched(*arguments, **options):\n"
        "    count = lambda phase, info: found.append(phase)\n"
        "    gc.callbacks.append(count)\n"
        "    try:\n"
        "        return prepare(*arguments, **options)\n"
        "    finally:\n"
        "        gc.callbacks.remove(count)\n"
        "attempts.prepare = watched\n"
        "gpu = gpu_target('cuda:90')\n"
        "(spec,) = (spec for spec in specs(gpu) if spec.name == 'transpose8')\n"
        "with triton_linear.enabled(strict=True) as reports:\n"
        "    triton.compile(spec.source(), target=gpu, options=dict(spec.options))\n"
        "print(reports[0].outcome.name, len(found), gc.isenabled())\n"
    )
    assert printed("-c", script, TRITON_CACHE_DIR=str(tmp_path)).split() == ["CONVERTED", "0", "True"]
