"""Headroom without a GPU: the children that measure it played by others, and what is said of a script."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from headroom_support import comparison

from triton_linear.tools.cli import main
from triton_linear.tools.measuring import child as headroom_child
from triton_linear.tools.measuring import headroom, rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import Ended

# --- the children that go wrong ---------------------------------------------------------------------------

PROGRAM = MeasuringPlan("", "script.py", [])


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
            for key in ("a", "b"):
                new = {"kernel": key, "name": key, "grid": [1, 1, 1], "warps": 4, "seen": 1}
                print(json.dumps(new), file=file)
                for mode_ in plan.modes:
                    if [key, mode_] in plan.skip:
                        continue
                    if (key, mode_) in self.wrong:
                        print(json.dumps({"kernel": key, "begin": mode_}), file=file)
                        if self.problem:
                            said = {"kernel": key, "mode": mode_, "problem": self.problem}
                            print(json.dumps(said), file=file)
                        print('{"kernel": "cut o', end="", file=file)
                        return self.wrong[key, mode_]
                    for record in comparison(key, mode_, {"ours": 1.25, "free": 2.0}[mode_]):
                        print(json.dumps(record), file=file)
            print(json.dumps({"launches": {"a": 3, "b": 5}}), file=file)
        return Ended(0)


@pytest.mark.parametrize(
    ("ended", "said", "expected"),
    [
        (Ended(headroom_child.FAULT), "RuntimeError: illegal memory access", "illegal memory access"),
        (Ended(headroom_child.FAULT), "", "faulted"),
        (Ended(-signal.SIGSEGV), "", "crashed with SIGSEGV"),
        (Ended(-signal.SIGKILL, too_long=True), "", "did not end"),
    ],
)
def test_a_fault_costs_one_figure(tmp_path: Path, ended: Ended, said: str, expected: str) -> None:
    play = Played({("a", "free"): ended}, said)
    records, status = headroom.measure(PROGRAM, tmp_path, play)
    assert status == 0
    assert play.loud == [False, False, False]
    kernels = {kernel.name: kernel for kernel in headroom.kernels_of(records)}
    assert (kernels["a"].speedup, kernels["a"].headroom) == (1.25, None)
    assert expected in kernels["a"].problems["free"]
    assert (kernels["b"].speedup, kernels["b"].headroom, kernels["b"].launches) == (1.25, 2.0, 5)
    assert kernels["b"].share == pytest.approx(0.4)


def test_a_fault_of_ours_costs_one_figure_too(tmp_path: Path) -> None:
    play = Played({("b", "ours"): Ended(headroom_child.FAULT), ("b", "free"): Ended(headroom_child.FAULT)})
    records, status = headroom.measure(PROGRAM, tmp_path, play)
    assert status == 0
    kernels = {kernel.name: kernel for kernel in headroom.kernels_of(records)}
    assert (kernels["b"].speedup, kernels["b"].headroom) == (None, None)
    assert (kernels["a"].speedup, kernels["a"].headroom) == (1.25, 2.0)
    assert [plan.modes for plan in play.plans] == [["ours"]] * 2 + [["free"]] * 2


def test_a_program_that_crashes_by_itself_is_not_run_again(tmp_path: Path) -> None:
    def crash(plan: MeasuringPlan, loud: bool) -> Ended:
        Played({})(plan, loud)
        return Ended(-signal.SIGSEGV)

    records, status = headroom.measure(PROGRAM, tmp_path, crash)
    assert status == -signal.SIGSEGV
    assert len(headroom.kernels_of(records)) == 2


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
