"""`triton-linear tune` on several GPUs, whose children are played by others."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tune_support import ALL, Play, decided, play, script

from triton_linear.tools.cli import main
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import run_child
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.tune import command, shards

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


def test_the_exit_status_of_any_share_counts() -> None:
    assert shards._joined([([{"a": 1}], 0), ([{"b": 2}], -signal.SIGSEGV)]) == ([{"a": 1}, {"b": 2}], -11)
