"""`triton-linear tune` without a GPU: children whose kernels are as fast as a test says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from triton_linear import decisions
from triton_linear.decisions import Circumstances, DecisionFile
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.tools import tune
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.choose import Interval
from triton_linear.tools.measuring.rounds import CONTEST, Comparison, Heard, MeasuringPlan

SPEEDS: dict[str, Any] = {
    "matmul-1": {"stock": 1.0, "ours": 1.25, "lower": 1.5},
    "softmax-1": {"stock": 1.0, "ours": 0.8},
    "norm-1": {"stock": 1.0, "ours": 1.1},
    "copy-1": {"stock": 1.0, "ours": 1.0},
}
"""How many times as fast as stock Triton variants are, by key, or why there is no comparison."""


class Play:
    """Children that measure what `speeds` says; each kernel was launched as often as its number."""

    def __init__(self) -> None:
        self.speeds = dict(SPEEDS)
        self.plans: list[MeasuringPlan] = []

    def __call__(self, plan: MeasuringPlan, heard: Heard, loud: bool) -> tuple[int, str]:
        self.plans.append(plan)
        for key, speeds in self.speeds.items():
            name = key.partition("-")[0]
            heard.hear(("seen", key, name, (1, 1, 1), ""))
            if isinstance(speeds, str):
                heard.hear(("problem", key, CONTEST, speeds))
                heard.hear(("end", key, None))
                continue
            about = Circumstances(name, "Some GPU", "cuda:90", installed() or "", "13.0", CODE_VERSION)
            ratios = {variant: Interval(speed, speed, speed) for variant, speed in speeds.items()}
            best = max(speeds, key=speeds.__getitem__)
            heard.hear(("end", key, Comparison(about, 100.0, ratios, best, frozenset(speeds))))
        heard.hear(("counts", {key: number for number, key in enumerate(self.speeds, 1)}))
        return 3 * (plan.arguments == ["fail"]), ""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    made = Play()
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(rounds, "run_child", made)
    monkeypatch.setattr(tune, "gpu_name", lambda what: "Some GPU")
    return made


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text("")
    return str(path)


def decided(file: DecisionFile | None = None) -> dict[str, str]:
    return {each.name: each.variant for each in (file or DecisionFile(decisions.default_file())).read()}


ALL = {"matmul": "lower", "softmax": "stock", "norm": "ours", "copy": "stock"}
