"""`triton-linear tune` without a GPU: the children that measure are played by others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tune_support import ALL, SPEEDS, Play, decided, play, script

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.tools.cli import main
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.contest import CONTEST
from triton_linear.tools.measuring.contested import contested
from triton_linear.tools.tune import command, figures

__all__ = ["play", "script"]

# What is decided


def test_what_was_measured_is_decided(play: Play, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", script]) == 0
    assert decided() == ALL
    out = capsys.readouterr().out
    assert "4 kernels, 1.000 ms in stock Triton: 5.7% more" not in out
    assert "less with these decisions (1 for another variant, 2 for stock Triton)" in out
    (matmul,) = [each for each in DecisionFile(decisions.default_file()).read() if each.name == "matmul"]
    assert (matmul.ratio, matmul.low, matmul.high) == pytest.approx((1.5, 1.5, 1.5))
    about = matmul.circumstances
    assert (about.kernel, about.gpu, about.target, about.triton) == (
        "matmul",
        "Some GPU",
        "cuda:90",
        installed(),
    )


def test_each_kernel_is_told_of_as_it_is_decided(
    play: Play, script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A log, or a terminal of somebody who waits."""
    play.speeds["varies-1"] = "varies"
    assert main(["tune", script]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("measuring: ")
    told = [re.fullmatch(r"\[\d+ s, (\d) decided\] (.*)", line) for line in lines[1:]]
    assert sorted(str(found and found[2]) for found in told) == [
        "copy: stock 1.000 (1.000 to 1.000)",
        "matmul: lower 1.500 (1.500 to 1.500)",
        "norm: ours 1.100 (1.100 to 1.100)",
        "softmax: stock 1.000 (1.000 to 1.000)",
        "varies: stock Triton's results vary",
    ]
    assert main(["tune", "--again", script]) == 0
    assert capfd.readouterr().err.startswith("measuring: ")


def test_a_run_that_is_killed_has_kept_what_it_decided(
    play: Play, script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The children end with it, and the next run goes on."""
    started = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), script],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert started.stderr is not None
    for line in started.stderr:
        if "softmax" in line:
            break
    started.kill()
    started.wait()
    known = decided()
    assert known == {name: ALL[name] for name in ("matmul", "softmax")}
    time.sleep(1.5)
    (records,) = decisions.default_file().parent.glob("tune/*/run-*/*.jsonl")
    measured = [record["kernel"] for record in rounds.read_records(records) if record.get("mode") == "contest"]
    assert measured == ["matmul-1", "softmax-1"]
    assert main(["tune", script]) == 0
    assert "going on where an earlier run ended: 2 decided" in capfd.readouterr().err
    assert decided() == ALL


KILLED = """
import sys
from pathlib import Path
from tune_support import SPEEDS, Play
from triton_linear.tools.cli import main
from triton_linear.tools.tune import command, figures

play = Play(Path(sys.argv[1]))
play.speeds = {"lasts": 1, **SPEEDS}
command.run_child = play.run
command.gpu_name = lambda what: "Some GPU"
sys.exit(main(["tune", sys.argv[2]]))
"""


def test_grids_are_decided_together(play: Play, script: str) -> None:
    """Once 2.0 and 9 times 0.9: another variant loses; 10 times 1.5 and once 0.9: it wins."""
    lose = {"stock": 1.0, "lower": 0.9}
    win = {"stock": 1.0, "lower": 2.0}
    play.speeds = {"mixed-1": win, **{f"mixed-{n}": lose for n in range(2, 6)}}
    assert main(["tune", script]) == 0
    assert decided() == {"mixed": "stock"}
    play.speeds = {"mixed-1": lose, **{f"mixed-{n}": win for n in range(2, 6)}}
    assert main(["tune", "--again", script]) == 0
    assert decided() == {"mixed": "lower"}


def test_what_the_last_phase_confirms_is_not_replaced_by_what_looked_faster_before() -> None:
    times = {"stock": [100.0] * 9, "ours": [100.0] * 9, "bounded": [95.0] * 9}
    contest = {
        **dict.fromkeys(("digest", "target", "gpu", "ptxas", "triton", "package"), ""),
        "alike": {},
        "exact": {"bounded": True},
        "first": {"lower": {"ratio": 1.09, "low": 1.01, "high": 1.2}},
        "best": "bounded",
        "second": [times, times],
        "microseconds": 100.0,
    }
    records = [{"kernel": "key", "name": "name", "grid": [1]}, {"kernel": "key", "mode": CONTEST, **contest}]
    (kernel,) = figures.tuned(contested(records))
    assert (kernel.variant, kernel.exact) == ("bounded", True)


def test_a_variant_that_crashes_costs_only_itself(
    play: Play, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    play.speeds = {"bad-1": "crash", **SPEEDS}
    assert main(["tune", script]) == 0
    assert decided() == {**ALL, "bad": "ours"}
    assert "lower: crashed with SIGABRT" in capsys.readouterr().out


def test_an_interrupted_run_goes_on(play: Play, script: str) -> None:
    run = play.run

    def interrupted(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        run(plan, loud, command, **rest)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run_child", interrupted)
        with pytest.raises(KeyboardInterrupt):
            command.tune(script)
    assert decided() == ALL, "what was known is kept"
    play.speeds = {**SPEEDS, "late-1": {"stock": 1.0, "ours": 1.2}}
    plans: list[MeasuringPlan] = []

    def seen(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        return run(plan, loud, command, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run_child", seen)
        found = command.tune(script)
    assert {key for key, mode in plans[0].skip if mode == "contest"} == set(SPEEDS)
    assert {kernel.name for kernel in found.kernels} == {*ALL, "late"}
    assert decided() == {**ALL, "late": "ours"}
    assert not list((decisions.default_file().parent / "tune").iterdir())


def test_an_interrupted_run_goes_on_in_the_same_place_alone(
    play: Play, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of an H100 have the keys of an H200's; a check is no run that decides."""
    run, plans = play.run, []

    def interrupted(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        run(plan, loud, command, **rest)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_child", interrupted)
    for name, keep in (("H100", True), ("H200", True), ("H200", False), ("H200", True)):
        monkeypatch.setattr(command, "gpu_names", lambda name=name: frozenset({name}))
        with pytest.raises(KeyboardInterrupt):
            command.tune(script, keep=keep, again=not keep)
    assert [bool(plan.skip) for plan in plans] == [False, False, False, True]


def test_two_runs_of_the_same_at_a_time_keep_their_records(play: Play, script: str) -> None:
    run = play.run

    def meanwhile(plan: MeasuringPlan, loud: bool, other: Any = None, **rest: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(command, "run_child", run)
            command.tune(script)
        return run(plan, loud, other, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run_child", meanwhile)
        found = command.tune(script)
    assert {kernel.name for kernel in found.kernels} == set(ALL)


def test_a_program_that_fails_is_an_error_behind_the_table(
    play: Play, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", script, "fail"]) == 1
    captured = capsys.readouterr()
    assert "the program ended with status 3" in captured.err and "matmul" in captured.out
    assert decided() == ALL


def test_a_program_without_kernels_is_an_error(
    play: Play, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    play.speeds = {}
    assert main(["tune", script]) == 1
    assert "without launching a kernel of Triton's" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_one_error(
    play: Play, script: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for path, said in ((folder, "folder"), (Path("/proc/none/decisions"), "/proc/none")):
        assert main(["tune", "--decisions", str(path), script]) == 1
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error


# What is checked


def test_decisions_are_checked(play: Play, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--check", script]) == 1
    assert "there are no decisions to check" in capsys.readouterr().err
    assert main(["tune", script]) == 0
    assert main(["tune", "--check", script]) == 0
    assert "4 decisions checked, 0 do not hold" in capsys.readouterr().out
    play.speeds["matmul-1"] = {"stock": 1.0, "ours": 1.25, "lower": 0.9}
    play.speeds["norm-1"] = {"stock": 1.0, "ours": 1.1, "lower": 1.3}
    del play.speeds["copy-1"]
    assert main(["tune", "--check", script]) == 1
    out = capsys.readouterr().out
    assert "matmul: 'lower' is slower than stock Triton" in out
    assert "norm: 'lower' is faster than 'ours'" in out
    assert "3 decisions checked, 2 do not hold" in out
    assert decided() == ALL


def test_variants_of_checked_decisions_are_measured(
    play: Play, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fastest variant may be another this time, than the decided one."""
    plans: list[MeasuringPlan] = []

    def seen(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        return play.run(plan, loud, command, **rest)

    monkeypatch.setattr(command, "run_child", seen)
    play.speeds["matmul-1"] = {"stock": 1.0, "ours": 1.25, "bounded": 1.5}
    assert main(["tune", script]) == 0
    assert main(["tune", "--check", script]) == 0
    first, second = plans
    assert not first.decided
    assert second.decided == {name: [taken] for name, taken in (ALL | {"matmul": "bounded"}).items()}


def test_only_some_variants_are_tried(play: Play, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[MeasuringPlan] = []

    def seen(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        return play.run(plan, loud, command, **rest)

    monkeypatch.setattr(command, "run_child", seen)
    assert main(["tune", "--variants", "lower", "--seconds", "2", script, "--seconds", "3"]) == 0
    (plan,) = plans
    assert (plan.modes, plan.seconds, plan.arguments) == (["stock", "ours", "lower"], 2.0, ["--seconds", "3"])
    with pytest.raises(SystemExit):
        main(["tune", "--variants", "fastest", script])
    command.tune(script, variants=["lower"])
    assert plans[-1].modes == ["stock", "ours", "lower"], (
        "without it a kernel that it makes faster goes to stock"
    )
    with pytest.raises(ValueError, match="no variant 'fastest'"):
        command.tune(script, variants=["fastest"])
    assert main(["tune", "--variants", "bounded,lower", script]) == 0
    assert plans[-1].modes == ["stock", "ours", "lower", "bounded"]
    command.tune(script, variants=["bounded"])
    assert plans[-1].modes == ["stock", "ours", "bounded"]


def test_a_child_has_the_time_that_it_was_given_and_patience(tmp_path: Path) -> None:
    code = "import json, sys, time; plan = json.load(open(sys.argv[1]));"
    code += (
        "print(json.dumps({'kernel': 'k', 'begin': 'timing'}), file=open(plan['records'], 'w'), flush=True);"
    )
    (tmp_path / "child.py").write_text(code + "time.sleep(2)")
    for seconds, too_long in ((1.0, False), (0.0, True)):
        plan = MeasuringPlan(str(tmp_path / f"{seconds}.jsonl"), "script.py", [], seconds=seconds)
        Path(plan.records).touch()
        ended = rounds.run_child(plan, False, (sys.executable, str(tmp_path / "child.py")), patience=0.5)
        assert ended.too_long == too_long
