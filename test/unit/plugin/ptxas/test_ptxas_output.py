"""What is held back of what threads print."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import redirect_stdout

import pytest

from triton_linear.ptxas.output import held_back


def test_only_the_thread_that_tries_is_not_heard(capsys: pytest.CaptureFixture[str]) -> None:
    with held_back() as printed:
        print("mine")
        other = threading.Thread(target=print, args=["another's"])
        other.start()
        other.join()
    print("shown")
    assert printed.getvalue() == "mine\n"
    assert capsys.readouterr().out == "another's\nshown\n"


def test_a_stage_that_compiles_another_kernel_does_not_wait_for_itself() -> None:
    found = sys.stdout
    with held_back() as outer:
        print("outer")
        with held_back() as inner:
            print("inner")
        print("again")
    assert (outer.getvalue(), inner.getvalue()) == ("outer\nagain\n", "inner\n")
    assert sys.stdout is found


def test_threads_do_not_wait_for_each_other() -> None:
    """A comparison assembles a second kernel in such a block, and threads compile at a time."""
    found, both, printed = sys.stdout, threading.Barrier(2, timeout=30), {}

    def hold(name: str) -> None:
        with held_back() as kept:
            both.wait()
            print(name)
            both.wait()
        printed[name] = kept.getvalue()

    threads = [threading.Thread(target=hold, args=[name]) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert printed == {"a": "a\n", "b": "b\n"}
    assert sys.stdout is found


def test_an_output_that_somebody_put_in_place_meanwhile_stays() -> None:
    found, theirs = sys.stdout, io.StringIO()
    with redirect_stdout(theirs):
        with held_back():
            sys.stdout = other = io.StringIO()
        assert sys.stdout is other
    assert sys.stdout is found
    with held_back() as kept, redirect_stdout(theirs):
        print("theirs")
    assert (kept.getvalue(), theirs.getvalue()) == ("", "theirs\n")
    assert sys.stdout is found
