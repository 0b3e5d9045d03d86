"""`triton-linear tune` without a GPU: children whose kernels take as long as a test says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import run_child
from triton_linear.tools.tune import command

PLAYED = '''
"""A child whose kernels take as long as SPEEDS says, each launch as often as its number."""
import json, sys, time
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found
from triton_linear.tools.measuring.parent import end_with_parent

TRITON, PACKAGE = found(), CODE_VERSION

SPEEDS = json.loads(sys.argv[1])
plan = json.load(open(sys.argv[2]))
skip = {tuple(pair) for pair in plan["skip"]}
file = open(plan["records"], "a")

def record(**entry):
    print(json.dumps(entry), file=file, flush=True)

if plan["parent"]:
    end_with_parent(plan["parent"])
if (lasts := SPEEDS.pop("lasts", 0)) and plan["skip"]:
    lasts = 0
for key, speeds in SPEEDS.items():
    record(kernel=key, name=key.partition("-")[0], grid=[1, 1, 1], warps=4)
    if (key, "contest") in skip:
        continue
    time.sleep(lasts)
    if speeds == "crash":
        if (key, "lower") not in skip:
            record(kernel=key, begin="lower")
            __import__("os").abort()
        speeds = {"stock": 1.0, "ours": 1.2}
    if speeds == "varies":
        record(kernel=key, mode="contest", problem="stock Triton's results vary")
        continue
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
    "matmul-1": {"stock": 1.0, "ours": 1.25, "lower": 1.5},
    "softmax-1": {"stock": 1.0, "ours": 0.8},
    "norm-1": {"stock": 1.0, "ours": 1.1},
    "copy-1": {"stock": 1.0, "ours": 1.0, "layouts": 1.0005},
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
    monkeypatch.setattr(command, "run_child", made.run)
    monkeypatch.setattr(command, "gpu_name", lambda what: "Some GPU")
    return made


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text("")
    return str(path)


def decided(file: DecisionFile | None = None) -> dict[str, str]:
    return {each.name: each.variant for each in (file or DecisionFile(decisions.default_file())).read()}


ALL = {"matmul": "lower", "softmax": "stock", "norm": "ours", "copy": "stock"}
