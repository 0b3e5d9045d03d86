"""Calls in forked processes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from triton_linear.tools.measuring.beside import PATIENCE, Processes


@dataclass
class Answers:
    """What calls gave, and why those gave nothing that did not."""

    given: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def in_processes(calls: Mapping[str, Callable[[], Any]], jobs: int, patience: float = PATIENCE) -> Answers:
    answers = Answers()
    with Processes(jobs, answers.given.__setitem__, answers.problems.__setitem__, patience) as processes:
        for name, call in calls.items():
            processes.submit({name: call})
        processes.finish()
    return answers


def test_each_call_gives_its_answer() -> None:
    local = threading.Lock()  # what cannot be sent to another process
    answers = in_processes({str(n): lambda n=n: (n * n, local.locked()) for n in range(7)}, jobs=3)
    assert answers.given == {str(n): (n * n, False) for n in range(7)}
    assert answers.problems == {}


def test_large_answers_come_whole() -> None:
    (answer,) = in_processes({"large": lambda: bytes(range(256)) * 4096}, jobs=1).given.values()
    assert answer == bytes(range(256)) * 4096


def test_what_goes_wrong_costs_one_call() -> None:
    def raises() -> None:
        raise ValueError("no\nand more")

    def crashes() -> None:
        faulthandler.disable()  # what pytest turns on would print this crash as the run's own
        os.kill(os.getpid(), signal.SIGSEGV)

    calls = {
        "raises": raises,
        "crashes": crashes,
        "ends": lambda: os._exit(3),
        "is no answer": lambda: lambda: None,
        "well": lambda: 1,
    }
    answers = in_processes(calls, jobs=2)
    assert answers.given == {"well": 1}
    assert answers.problems["raises"] == "ValueError: no"
    assert answers.problems["crashes"] == "its process ended by SIGSEGV"
    assert answers.problems["ends"] == "its process ended by exit status 3"
    assert "pickle" in answers.problems["is no answer"]


def test_a_call_that_crashes_costs_none_behind_it() -> None:
    """Those that one process makes in turn: what it gave is kept, and another makes the rest."""
    answers = Answers()
    calls = {"first": os.getpid, "crash": lambda: os._exit(3), "second": os.getpid, "third": os.getpid}
    with Processes(2, answers.given.__setitem__, answers.problems.__setitem__) as processes:
        processes.submit(calls)
        processes.finish()
    assert list(answers.given) == ["first", "second", "third"]
    assert answers.problems == {"crash": "its process ended by exit status 3"}
    assert answers.given["first"] != answers.given["second"] == answers.given["third"]


def test_what_a_thread_began_outlasts_it() -> None:
    """A launch may come from a thread of the program's that ends before the compile."""
    answers = Answers()
    with Processes(1, answers.given.__setitem__, answers.problems.__setitem__) as processes:

        def begin() -> None:
            processes.submit({"slow": lambda: time.sleep(1)})
            time.sleep(0.3)

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        processes.finish()
    assert answers == Answers({"slow": None}, {})


def test_one_that_does_not_end_is_ended() -> None:
    begun = time.monotonic()
    answers = in_processes({"long": lambda: time.sleep(60), "short": lambda: 1}, jobs=2, patience=0.5)
    assert answers.given == {"short": 1}
    assert answers.problems == {"long": "its process ended by SIGKILL"}
    assert time.monotonic() - begun < 30


def test_no_more_than_the_jobs_run_at_once() -> None:
    def clock() -> tuple[float, float]:
        begun = time.monotonic()
        time.sleep(0.05)
        return begun, time.monotonic()

    spans = in_processes({str(n): clock for n in range(6)}, jobs=2).given.values()
    for moment, _ in spans:
        assert sum(begun <= moment < ended for begun, ended in spans) <= 2


def test_what_is_left_running_is_ended() -> None:
    answers = Answers()
    begun = time.monotonic()
    with Processes(1, answers.given.__setitem__, answers.problems.__setitem__) as processes:
        processes.submit({"long": lambda: time.sleep(60)})
    assert time.monotonic() - begun < 30
    assert answers == Answers()


@pytest.mark.parametrize("how", ["ignored", "waited for"])
def test_a_program_may_see_to_its_children_itself(how: str) -> None:
    before = signal.getsignal(signal.SIGCHLD)
    if how == "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGCHLD, lambda *_: _wait_for_all())
    try:
        assert in_processes({str(n): lambda n=n: n for n in range(4)}, jobs=2).given == {
            str(n): n for n in range(4)
        }
    finally:
        signal.signal(signal.SIGCHLD, before)


def _wait_for_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
