"""`triton-linear tune` and `decisions` without a GPU: the children that measure are played by others."""

from __future__ import annotations

import functools
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
from triton import knobs

from triton_linear import decisions
from triton_linear.decisions import Decision, DecisionFile, ptxas_version
from triton_linear.dialect.sources import source_digest
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.hook import pinned
from triton_linear.setting import Options
from triton_linear.tools.cli import main
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import run_child
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.tune import command, figures, file_command, shards

PLAYED = '''
"""A child whose kernels take as long as SPEEDS says, each launch as often as its number."""
import json, sys
from triton_linear.dialect.sources import source_digest
from triton_linear.dialect.triton_versions import found
from triton_linear.tools.measuring.child import shard_of

TRITON, PACKAGE = found(), source_digest()

SPEEDS = json.loads(sys.argv[1])
plan = json.load(open(sys.argv[2]))
skip = {tuple(pair) for pair in plan["skip"]}
if plan["ahead"]:
    open(plan["compiled"], "w").write(f"{plan['jobs']} jobs")
    sys.exit()
if plan["compiled"]:
    print(open(plan["compiled"]).read())
file = open(plan["records"], "a")

def record(**entry):
    print(json.dumps(entry), file=file, flush=True)

for key, speeds in SPEEDS.items():
    if shard_of(key, plan["shards"]) != plan["shard"]:
        continue
    record(kernel=key, name=key.partition("-")[0], grid=[1, 1, 1], warps=4)
    if (key, "contest") in skip:
        continue
    if speeds == "crash":
        if (key, "second") not in skip:
            record(kernel=key, begin="second")
            __import__("os").abort()
        speeds = {"stock": 1.0, "ours": 1.2}
    times = {name: [100 / speed] * 9 for name, speed in speeds.items()}
    best = max(speeds, key=speeds.get)
    record(
        kernel=key, mode="contest", digest=key.partition("-")[0],
        target="cuda:90", ptxas="13.0", gpu="Some GPU", triton=TRITON, package=PACKAGE,
        alike={name: name for name in speeds}, exact=dict.fromkeys(speeds, True),
        first={name: dict(ratio=speed, low=speed, high=speed) for name, speed in speeds.items()},
        best=best, second=[{name: times[name] for name in {"stock", "ours", best} & set(speeds)}] * 2,
        microseconds=100.0, ratio=speeds[best],
    )
record(launches={key: number for number, key in enumerate(SPEEDS, 1)})
sys.exit(plan["arguments"] == ["fail"] and 3)
'''
SPEEDS: dict[str, Any] = {
    "matmul-1": {"stock": 1.0, "ours": 1.25, "second": 1.5},
    "softmax-1": {"stock": 1.0, "ours": 0.8},
    "norm-1": {"stock": 1.0, "ours": 1.1},
    "copy-1": {"stock": 1.0, "ours": 1.0, "lower": 1.0005},
}


class Play:
    """Children whose kernels take as long as `speeds` says."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "played.py"
        self.script.write_text(PLAYED)
        self.speeds: dict[str, Any] = dict(SPEEDS)
        self.ends: list[Any] = []

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, str(self.script), json.dumps(self.speeds))

    def run(self, plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        if self.ends and (end := self.ends.pop(0)) is not None:
            raise end
        return run_child(plan, loud, self.command, **rest)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    made = Play(tmp_path)
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shards, "run_child", made.run)
    monkeypatch.setattr(shards, "visible_gpus", lambda: ["0"])
    monkeypatch.setattr(command, "gpu_name", lambda what: "Some GPU")
    return made


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text("")
    return str(path)


def decided(file: DecisionFile | None = None) -> dict[str, str]:
    return {each.name: each.variant for each in (file or DecisionFile(decisions.default_file())).read()}


ALL = {"matmul": "second", "softmax": "stock", "norm": "ours", "copy": "stock"}


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


def test_all_is_compiled_before_where_that_is_asked_for(
    play: Play, script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--compile-first", "--jobs", "7", script]) == 0
    assert capfd.readouterr().out.startswith("7 jobs\n")
    assert decided() == ALL
    assert main(["tune", "--again", script]) == 0
    assert "jobs" not in capfd.readouterr().out


def test_grids_are_decided_together(play: Play, script: str) -> None:
    """Once 2.0 and 9 times 0.9: the second assignment loses; 10 times 1.5 and once 0.9: it wins."""
    lose = {"stock": 1.0, "second": 0.9}
    win = {"stock": 1.0, "second": 2.0}
    play.speeds = {"mixed-1": win, **{f"mixed-{n}": lose for n in range(2, 6)}}
    assert main(["tune", script]) == 0
    assert decided() == {"mixed": "stock"}
    play.speeds = {"mixed-1": lose, **{f"mixed-{n}": win for n in range(2, 6)}}
    assert main(["tune", "--again", script]) == 0
    assert decided() == {"mixed": "second"}


def test_a_variant_that_crashes_costs_only_itself(
    play: Play, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    play.speeds = {"bad-1": "crash", **SPEEDS}
    assert main(["tune", script]) == 0
    assert decided() == {**ALL, "bad": "ours"}
    assert "second: crashed with SIGABRT" in capsys.readouterr().out


def test_an_interrupted_run_goes_on(play: Play, script: str) -> None:
    run = play.run

    def interrupted(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        run(plan, loud, command, **rest)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "run_child", interrupted)
        with pytest.raises(KeyboardInterrupt):
            command.tune(script)
    assert decided() == ALL, "what was known is kept"
    play.speeds = {**SPEEDS, "late-1": {"stock": 1.0, "ours": 1.2}}
    plans: list[MeasuringPlan] = []

    def seen(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        return run(plan, loud, command, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "run_child", seen)
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

    monkeypatch.setattr(shards, "run_child", interrupted)
    for name, keep in (("H100", True), ("H200", True), ("H200", False), ("H200", True)):
        monkeypatch.setattr(command, "gpu_names", lambda name=name: frozenset({name}))
        with pytest.raises(KeyboardInterrupt):
            command.tune(script, keep=keep, again=not keep)
    assert [bool(plan.skip) for plan in plans] == [False, False, False, True]


def test_two_runs_of_the_same_at_a_time_keep_their_records(play: Play, script: str) -> None:
    run = play.run

    def meanwhile(plan: MeasuringPlan, loud: bool, other: Any = None, **rest: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shards, "run_child", run)
            command.tune(script)
        return run(plan, loud, other, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "run_child", meanwhile)
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
    play.speeds["matmul-1"] = {"stock": 1.0, "ours": 1.25, "second": 0.9}
    play.speeds["norm-1"] = {"stock": 1.0, "ours": 1.1, "lower": 1.3}
    del play.speeds["copy-1"]
    assert main(["tune", "--check", script]) == 1
    out = capsys.readouterr().out
    assert "matmul: 'second' is slower than stock Triton" in out
    assert "norm: 'lower' is faster than 'ours'" in out
    assert "3 decisions checked, 2 do not hold" in out
    assert decided() == ALL


# Files, pictures


def test_figures_go_to_files(play: Play, script: str, tmp_path: Path) -> None:
    data, picture = tmp_path / "figures.json", tmp_path / "figures.svg"
    assert main(["tune", "--json", str(data), "--picture", str(picture), script]) == 0
    found = json.loads(data.read_text())
    assert {kernel["name"]: kernel["variant"] for kernel in found["kernels"]} == ALL
    assert "<svg" in picture.read_text() and "matmul" in picture.read_text()
    assert main(["tune", "--json", str(tmp_path / "no" / "file"), script]) == 1


def test_only_some_variants_are_tried(play: Play, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[MeasuringPlan] = []

    def seen(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        return play.run(plan, loud, command, **rest)

    monkeypatch.setattr(shards, "run_child", seen)
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


# Several places


def test_gpus_share_the_launches(play: Play, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "visible_gpus", lambda: ["4", "7", "9"])
    seen: list[tuple[int, Any]] = []

    def run(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        seen.append((plan.shard, rest["environment"]))
        return play.run(plan, loud, command, **rest)

    monkeypatch.setattr(shards, "run_child", run)
    assert main(["tune", "--gpus", "2", script]) == 0
    assert sorted(seen, key=str) == [(0, {shards.VISIBLE: "4"}), (1, {shards.VISIBLE: "7"})]
    assert decided() == ALL


SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("no space left on device")])
def test_where_one_share_ends_the_others_are_ended(
    error: Any, play: Play, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children lead sessions of their own: Ctrl-C does not reach them."""
    monkeypatch.setattr(shards, "visible_gpus", lambda: ["0", "1"])

    def run(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        if plan.shard == 1:
            raise error
        return run_child(plan, loud, SLEEP, **rest)

    monkeypatch.setattr(shards, "run_child", run)
    began = time.monotonic()
    with pytest.raises(error if isinstance(error, type) else type(error)):
        command.tune(script)
    assert time.monotonic() - began < 30


def test_a_child_has_the_time_that_it_was_given_and_patience(tmp_path: Path) -> None:
    code = "import json, sys, time; plan = json.load(open(sys.argv[1]));"
    code += (
        "print(json.dumps({'kernel': 'k', 'begin': 'timing'}), file=open(plan['records'], 'w'), flush=True);"
    )
    (tmp_path / "child.py").write_text(code + "time.sleep(2)")
    for seconds, too_long in ((1.0, False), (0.0, True)):
        plan = MeasuringPlan(str(tmp_path / f"{seconds}.jsonl"), "script.py", [], seconds=seconds)
        Path(plan.records).touch()
        ended = run_child(plan, False, (sys.executable, str(tmp_path / "child.py")), patience=0.5)
        assert ended.too_long == too_long


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield str(made.scheduler_address)


def test_workers_of_a_cluster_share_the_launches(play: Play, cluster: str) -> None:
    plan = MeasuringPlan("", "script.py", [], modes=["stock"], contest=True)
    records, status = shards.on_cluster(plan, cluster, play.command)
    assert status == 0
    kernels = figures.tuned(figures.contested(records))
    assert {kernel.name: kernel.variant for kernel in kernels} == ALL
    assert sum("launches" in record for record in records) == 2
    names = [record["kernel"] for record in records if "name" in record]
    assert sorted(names) == sorted(SPEEDS)


def test_what_workers_found_outlasts_one_that_fails(
    play: Play, cluster: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine that asks needs no GPU."""

    def no_gpu(what: str) -> str:
        raise AssertionError("asked for a GPU")

    played = play.command
    monkeypatch.setattr(command, "gpu_name", no_gpu)
    on_cluster, share = shards.on_cluster, shards.measure_share
    monkeypatch.setattr(
        shards, "on_cluster", lambda plan, place, **rest: on_cluster(plan, place, played, **rest)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "measure_share", functools.partial(_one_fails, share))
        with pytest.raises(ToolError, match=r"worker tcp.*: OSError: no GPU"):
            command.tune(script, cluster=cluster)
    kept = decided()
    assert kept and kept.items() < ALL.items()
    assert main(["tune", "--cluster", cluster, script]) == 0
    assert decided() == ALL


def _one_fails(share: Any, plan: MeasuringPlan, **rest: Any) -> Any:
    if plan.shard == 1:
        raise OSError("no GPU")
    return share(plan, **rest)


def test_a_cluster_that_is_not_there_is_one_error(
    play: Play, script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_CONNECT", "1s")
    assert main(["tune", "--cluster", "tcp://127.0.0.1:9", script]) == 1
    assert "cannot reach a Dask scheduler at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_the_exit_status_of_any_share_counts() -> None:
    assert shards._joined([([{"a": 1}], 0), ([{"b": 2}], -signal.SIGSEGV)]) == ([{"a": 1}, {"b": 2}], -11)


# The file of decisions by hand


def test_decisions_move(play: Play, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", script]) == 0
    exported, other = tmp_path / "exported.jsonl", tmp_path / "other.sqlite"
    assert main(["decisions", "export", str(exported)]) == 0
    assert main(["decisions", "--file", str(other), "import", str(exported)]) == 0
    assert DecisionFile(other).read() == DecisionFile(decisions.default_file()).read()
    capsys.readouterr()
    assert main(["decisions", "--file", str(other), "import", str(exported)]) == 0
    assert "0 of 4 decisions added" in capsys.readouterr().out
    assert main(["decisions", "--file", str(other), "forget", "[ms]*"]) == 0
    assert decided(DecisionFile(other)).keys() == {"norm", "copy"}
    assert main(["decisions", "list"]) == 0
    assert "matmul" in capsys.readouterr().out
    assert main(["decisions", "list", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [file_command.of_line(line) for line in lines] == DecisionFile(decisions.default_file()).read()


def test_the_later_of_two_decisions_counts(play: Play, script: str) -> None:
    assert main(["tune", script]) == 0
    (old, *_) = DecisionFile(decisions.default_file()).read()
    from dataclasses import replace

    new = replace(old, variant="lower", measured="9999-01-01")
    known = {old.circumstances: old}
    assert list(file_command.later(known, [new])) == [new]
    assert list(file_command.later({new.circumstances: new}, [old])) == []


def test_of_two_runs_on_one_day_the_later_counts(
    play: Play, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported, other = tmp_path / "exported.jsonl", tmp_path / "other.sqlite"
    for at, file, speed in ((1, other, 1.5), (2, decisions.default_file(), 1.1)):
        play.speeds["matmul-1"] = SPEEDS["matmul-1"] | {"second": speed}
        monkeypatch.setattr(command, "now_text", lambda at=at: f"2026-11-23 12:00:0{at}")
        command.tune(script, decisions=file)
    assert main(["decisions", "export", str(exported)]) == 0
    assert main(["decisions", "--file", str(other), "import", str(exported)]) == 0
    assert decided(DecisionFile(other))["matmul"] == "ours"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", decisions.now_text())


WRONG_LINES = ["", "{", "[]", "{}", '{"kernel": 1}', "null", "\u0001"]


@pytest.mark.parametrize("line", WRONG_LINES)
def test_what_is_no_decision_is_one_error(
    line: str, play: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(line + "\n")
    assert main(["decisions", "import", str(path)]) == 1
    assert f"{path}:1:1: error: holds no decision" in capsys.readouterr().err


def test_a_kernel_is_decided_about_by_hand(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The TTGIR that Triton's cache holds tells the kernel that the plugin compiles."""
    monkeypatch.setattr(knobs.compilation, "always_compile", True)
    path = tmp_path / "kernel.ttgir"
    path.write_text(support.compile_kernel(support.row_sums).asm["ttgir"])
    assert main(["decisions", "set", str(path), "stock"]) == 0
    assert "row_sums for cuda:90: stock" in capsys.readouterr().out
    (made,) = DecisionFile(decisions.default_file()).read()
    assert made.circumstances.ptxas == ptxas_version("cuda:90")
    assert made.circumstances.package == source_digest()
    with pinned(Options()) as reports:
        support.compile_kernel(support.row_sums)
    assert reports[0].variant == "stock"
    assert isinstance(made, Decision)
    path.write_text("this is no kernel")
    assert main(["decisions", "set", str(path), "stock"]) == 1
    assert str(path) in capsys.readouterr().err
