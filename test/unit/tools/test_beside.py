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

from triton_linear.tools.measuring.beside import PATIENCE, in_processes


@dataclass
class Answers:
    """What calls gave, and why those gave nothing that did not."""

    given: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def answers_of(calls: Mapping[str, Callable[[], Any]], jobs: int, patience: float = PATIENCE) -> Answers:
    answers = Answers()

    def answered(name: str, good: bool, answer: Any) -> None:
        (answers.given if good else answers.problems)[name] = answer

    in_processes(calls, jobs, answered, patience)
    return answers


def test_each_call_gives_its_answer() -> None:
    local = threading.Lock()  # what cannot be sent to another process
    answers = answers_of({str(n): lambda n=n: (n * n, local.locked()) for n in range(7)}, jobs=3)
    assert answers.given == {str(n): (n * n, False) for n in range(7)}
    assert answers.problems == {}


def test_large_answers_come_whole() -> None:
    (answer,) = answers_of({"large": lambda: bytes(range(256)) * 4096}, jobs=1).given.values()
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
    answers = answers_of(calls, jobs=2)
    assert answers.given == {"well": 1}
    assert answers.problems["raises"] == "ValueError: no"
    assert answers.problems["crashes"] == "its process ended by SIGSEGV"
    assert answers.problems["ends"] == "its process ended by exit status 3"
    assert "pickle" in answers.problems["is no answer"]


def test_one_that_does_not_end_is_ended() -> None:
    begun = time.monotonic()
    answers = answers_of({"long": lambda: time.sleep(60), "short": lambda: 1}, jobs=2, patience=0.5)
    assert answers.given == {"short": 1}
    assert answers.problems == {"long": "its process ended by SIGKILL"}
    assert time.monotonic() - begun < 30


def test_no_more_than_the_jobs_run_at_once() -> None:
    def clock() -> tuple[float, float]:
        begun = time.monotonic()
        time.sleep(0.05)
        return begun, time.monotonic()

    spans = answers_of({str(n): clock for n in range(6)}, jobs=2).given.values()
    for moment, _ in spans:
        assert sum(begun <= moment < ended for begun, ended in spans) <= 2


def test_what_is_left_running_is_ended() -> None:
    def interrupted(*answer: Any) -> None:
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_processes({"long": lambda: time.sleep(60), "short": lambda: 1}, 2, interrupted)
    assert time.monotonic() - begun < 30


def test_a_thread_may_make_calls() -> None:
    """A launch may come from a thread of the program's."""
    answers: list[Answers] = []
    thread = threading.Thread(target=lambda: answers.append(answers_of({"slow": lambda: time.sleep(0.3)}, 1)))
    thread.start()
    thread.join()
    assert answers == [Answers({"slow": None}, {})]


@pytest.mark.parametrize("how", ["ignored", "waited for"])
def test_a_program_may_see_to_its_children_itself(how: str) -> None:
    before = signal.getsignal(signal.SIGCHLD)
    if how == "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGCHLD, lambda *_: _wait_for_all())
    try:
        assert answers_of({str(n): lambda n=n: n for n in range(4)}, jobs=2).given == {
            str(n): n for n in range(4)
        }
    finally:
        signal.signal(signal.SIGCHLD, before)


def _wait_for_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
