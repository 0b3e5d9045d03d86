"""`triton-linear tune` on several GPUs and on the workers of a cluster, whose children are played by others."""

from __future__ import annotations

import functools
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tune_support import ALL, SPEEDS, Play, decided, play, script

from triton_linear.tools.cli import main
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import run_child
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.tune import command, figures, shards

__all__ = ["play", "script"]

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
    with pytest.raises(error if isinstance(error, type) else ToolError):
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
