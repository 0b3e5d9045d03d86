"""Measuring in child processes, without a GPU: children that go wrong, and what is said of a script."""

from __future__ import annotations

import itertools
import json
import signal
import sys
from pathlib import Path

import pytest

from triton_linear.tools.cli import main
from triton_linear.tools.measuring import child, rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import Ended

PROGRAM = MeasuringPlan("", "script.py", [], modes=["ours", "free"])


class Played:
    """Children that time kernels "a" and "b", and go wrong at what `wrong` says, each time they come to it."""

    def __init__(self, wrong: dict[tuple[str, str], Ended], problem: str = "") -> None:
        self.wrong = wrong
        self.problem = problem
        self.plans: list[MeasuringPlan] = []
        self.loud: list[bool] = []

    def __call__(self, plan: MeasuringPlan, loud: bool) -> Ended:
        self.plans.append(plan)
        self.loud.append(loud)
        with open(plan.records, "a") as file:
            for key, name in itertools.product("ab", plan.modes):
                if [key, name] in plan.skip:
                    continue
                print(json.dumps({"kernel": key, "begin": name}), file=file)
                if (key, name) in self.wrong:
                    if self.problem:
                        print(json.dumps({"kernel": key, "mode": name, "problem": self.problem}), file=file)
                    print('{"kernel": "cut o', end="", file=file)
                    return self.wrong[key, name]
                print(json.dumps({"kernel": key, "mode": name, "ratio": 2.0}), file=file)
            print(json.dumps({"launches": {"a": 3, "b": 5}}), file=file)
        return Ended(0)


@pytest.mark.parametrize(
    ("ended", "said", "expected"),
    [
        (Ended(child.FAULT), "RuntimeError: illegal memory access", "illegal memory access"),
        (Ended(child.FAULT), "", "faulted"),
        (Ended(-signal.SIGSEGV), "", "crashed with SIGSEGV"),
        (Ended(-signal.SIGKILL, too_long=True), "", "did not end"),
    ],
)
def test_a_fault_costs_one_figure(tmp_path: Path, ended: Ended, said: str, expected: str) -> None:
    play = Played({("a", "free"): ended}, said)
    records, last = rounds.rounds(PROGRAM, tmp_path, play, loud=True)
    assert last == Ended(0)
    assert play.loud == [True, False]
    (problem,) = (record for record in records if "problem" in record)
    assert (problem["kernel"], problem["mode"]) == ("a", "free")
    assert expected in problem["problem"]
    timed = {(record["kernel"], record["mode"]) for record in records if "ratio" in record}
    assert timed == {("a", "ours"), ("b", "ours"), ("b", "free")}
    assert play.plans[1].skip == [["a", "ours"], ["a", "free"]]


def test_a_program_that_crashes_by_itself_is_not_run_again(tmp_path: Path) -> None:
    play = Played({})

    def crash(plan: MeasuringPlan, loud: bool) -> Ended:
        play(plan, loud)
        return Ended(-signal.SIGSEGV)

    records, ended = rounds.rounds(PROGRAM, tmp_path, crash, loud=False)
    assert (ended.status, len(play.plans)) == (-signal.SIGSEGV, 1)
    assert sum("ratio" in record for record in records) == 4


def test_a_child_that_does_not_end_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    begun = json.dumps({"kernel": "a", "begin": "free"})
    script.write_text(
        "import json, sys, time\n"
        "plan = json.load(open(sys.argv[1]))\n"
        f"open(plan['records'], 'a').write('{begun}\\n')\n"
        "time.sleep(600)\n"
    )
    records = tmp_path / "records.jsonl"
    records.touch()
    plan = MeasuringPlan(str(records), "script.py", [])
    ended = rounds.run_child(plan, False, (sys.executable, str(script)), patience=0.5)
    assert ended.too_long
    assert rounds.unfinished(rounds.read_records(records), ended) == ("a", "free")


def test_a_long_program_is_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("import time\ntime.sleep(1.5)\nraise SystemExit(3)\n")
    records = tmp_path / "records.jsonl"
    records.touch()
    plan = MeasuringPlan(str(records), "script.py", [])
    assert rounds.run_child(plan, False, (sys.executable, str(script)), patience=0.1) == Ended(3)


def test_the_child_becomes_the_program(tmp_path: Path) -> None:
    """A program that launches nothing, run by the child itself; its end is recorded whatever it is."""
    script = tmp_path / "program.py"
    script.write_text("import sys\nassert __name__ == '__main__'\nsys.exit(len(sys.argv))\n")
    records = tmp_path / "records.jsonl"
    records.touch()
    assert rounds.run_child(MeasuringPlan(str(records), str(script), ["--a", "b"]), True) == Ended(3)
    assert rounds.read_records(records) == [{"launches": {}}]


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
        assert main(["tune", script, "--check", "passed on"]) == 1
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
