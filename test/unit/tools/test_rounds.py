"""Measuring in child processes, without a GPU: children that go wrong, and what is said of a script."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from triton_linear.decisions import Circumstances
from triton_linear.tools.cli import main
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.rounds import CONTEST, Comparison, Heard, MeasuringPlan

PLAN = MeasuringPlan("script.py", [], modes=["ours", "lower"])
CODE = "code of lower"
COMPARISON = Comparison(Circumstances(*"abcdef"), 1.0, {}, "stock")


class Played:
    """Children that measure launches "a" and "b", and end as `wrong` says at some steps, each time they come
    there."""

    def __init__(self, wrong: dict[tuple[str, str], tuple[int, str]], problem: str = "") -> None:
        self.wrong = wrong
        self.problem = problem
        self.skipped: list[set[tuple[str, str]]] = []
        self.loud: list[bool] = []

    def __call__(self, plan: MeasuringPlan, heard: Heard, loud: bool) -> tuple[int, str]:
        self.skipped.append(set(plan.skip))
        self.loud.append(loud)
        heard.under_way = None
        for key in "ab":
            heard.hear(("seen", key, "kernel", (1, 1, 1), ""))
            if (key, CONTEST) in plan.skip:
                continue
            for mode in (CONTEST, *plan.modes):
                code = CODE if mode == "lower" else ""
                if {(key, mode), (key, code)} & plan.skip:
                    continue
                heard.hear(("begin", key, mode, code))
                if (key, mode) in self.wrong:
                    if self.problem:
                        heard.hear(("problem", key, mode, self.problem))
                    return self.wrong[key, mode]
            heard.hear(("end", key, COMPARISON))
        heard.hear(("counts", {"a": 3, "b": 5}))
        return 0, ""


CRASHED = -signal.SIGSEGV, "crashed with SIGSEGV"


@pytest.mark.parametrize(
    ("mode", "problem", "expected", "left_out"),
    [
        ("ours", "RuntimeError: an illegal memory access", "RuntimeError: an illegal memory access", "ours"),
        ("lower", "", "crashed with SIGSEGV", CODE),
        (CONTEST, "", "crashed with SIGSEGV", CONTEST),
    ],
)
def test_a_kernel_that_ends_the_child_is_left_out_of_the_next(
    mode: str, problem: str, expected: str, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Played({("b", mode): CRASHED}, problem)
    monkeypatch.setattr(rounds, "run_child", play)
    ended: list[object] = []
    launches, status = rounds.rounds(PLAN, loud=True, ended=ended.append)
    assert (status, play.loud) == (0, [True, False])
    assert play.skipped[1] == {("a", CONTEST), ("b", left_out)}, "what has a result is not measured again"
    assert [launch.problems for launch in launches] == [{}, {mode: expected}]
    assert [launch.comparison for launch in launches] == [COMPARISON, None if mode == CONTEST else COMPARISON]
    assert [launch.launches for launch in launches] == [3, 5]
    assert ended == launches


def test_a_program_that_crashes_by_itself_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Played({})
    monkeypatch.setattr(rounds, "run_child", lambda *rest: (play(*rest), CRASHED)[1])
    launches, status = rounds.rounds(PLAN)
    assert (status, len(play.loud)) == (-signal.SIGSEGV, 1)
    assert len(launches) == 2


def test_children_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dies there although it was to be left out."""
    play = Played({("a", "ours"): CRASHED})
    monkeypatch.setattr(rounds, "run_child", lambda plan, *rest: play(PLAN, *rest))
    assert rounds.rounds(PLAN)[1] == -signal.SIGSEGV
    assert len(play.loud) == rounds.MOST_CHILDREN


SAYING = """
import sys, time
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
connection.recv()
connection.send(("seen", "a", "kernel", (1, 1, 1), ""))
"""
BEGIN = 'connection.send(("begin", "a", "lower", ""))\n'


@pytest.mark.parametrize(
    ("code", "seconds", "ended"),
    [
        (f"{BEGIN}time.sleep(600)", 0.0, (-signal.SIGKILL, "did not end")),
        (f"{BEGIN}time.sleep(1.5)", 1.0, (0, "")),
        ("time.sleep(1.5); sys.exit(3)", 0.0, (3, "")),
        (f"{BEGIN}import os; os.abort()", 0.0, (-signal.SIGABRT, "crashed with SIGABRT")),
        ("import os; os.fork() or time.sleep(600)", 0.0, (0, "")),
    ],
    ids=["stuck", "has its time", "long program", "crash", "leaves a process"],
)
def test_how_a_child_ends(code: str, seconds: float, ended: tuple[int, str]) -> None:
    heard = Heard()
    plan = MeasuringPlan("script.py", [], seconds=seconds)
    command = (sys.executable, "-c", SAYING + code)
    assert rounds.run_child(plan, heard, False, command, patience=0.5) == ended
    assert list(heard.launches) == ["a"]
    assert heard.under_way == (("a", "lower", "") if BEGIN in code else None)


def test_the_child_becomes_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that launches nothing, run by the child itself; its end is recorded whatever it is."""
    script = tmp_path / "program.py"
    script.write_text("import sys\nassert __name__ == '__main__'\nsys.exit(len(sys.argv))\n")
    heard, said = Heard(), list[object]()
    monkeypatch.setattr(heard, "hear", said.append)
    assert rounds.run_child(MeasuringPlan(str(script), ["--a", "b"]), heard, True) == (3, "")
    assert said == [("counts", {})]


# --- the command line -------------------------------------------------------------------------------------
def test_bad_input_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, binary = tmp_path / "text.md", tmp_path / "binary"
    text.write_text("It's no program\n")
    binary.write_bytes(bytes(range(256)))
    cases = {
        str(tmp_path / "missing.py"): "cannot open script: No such file",
        str(tmp_path): "is a folder, and not a Python script",
        str(text): "is not a Python script",
        str(binary): "is not a Python script",
    }
    for script, message in cases.items():
        assert main(["tune", script, "--seconds", "passed on"]) == 1
        errors = capsys.readouterr().err
        assert message in errors
        assert "Traceback" not in errors
        assert errors.count("error:") == 1


def test_without_a_gpu_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n")
    for code, why in (
        ("import sys; sys.exit('PyTorch finds none')", "finds none"),
        ("import os; os.abort()", "crashed"),
    ):
        monkeypatch.setattr(rounds, "_GPU", code)
        assert main(["tune", str(script)]) == 1
        captured = capsys.readouterr()
        assert "tune needs a GPU" in captured.err
        assert why in captured.err
        assert captured.out == ""
