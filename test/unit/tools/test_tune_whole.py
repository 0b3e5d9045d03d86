"""`triton-linear tune` from its command to the plugin that follows what was decided, with children that compile
and decide as ever; only what a GPU does is made up."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import plugin_support as support
import pretended_child
import pytest
from triton import knobs

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.hook import pinned
from triton_linear.setting import Options
from triton_linear.tools.cli import main
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import run_child
from triton_linear.tools.tune import command

PROGRAM = """
from plugin_support import compile_kernel, double, row_sums
from pretended_child import launch

launch(compile_kernel(double))
for width in (32, 64):
    launch(compile_kernel(row_sums, width=width))
print("the program has run")
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[MeasuringPlan]:
    """The plans of the children that ran."""
    plans: list[MeasuringPlan] = []

    def run(plan: MeasuringPlan, loud: bool, command: Any = None, **rest: Any) -> Any:
        plans.append(plan)
        return run_child(plan, loud, (sys.executable, str(pretended_child.__file__)), **rest)

    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(command, "run_child", run)
    monkeypatch.setattr(command, "gpu_name", lambda what: "Some GPU")
    (tmp_path / "program.py").write_text(PROGRAM)
    return plans


@pytest.mark.parametrize("options", [["--jobs", "2"], ["--jobs", "1"]])
def test_a_program_is_tuned(
    options: list[str], ran: list[MeasuringPlan], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["tune", "--seconds", "0", *options, str(tmp_path / "program.py")]
    assert main(arguments) == 0
    said = capfd.readouterr()
    assert said.out.count("the program has run") == 1
    assert said.err.count("row_sums: ") == 2
    found = DecisionFile(decisions.default_file()).read()
    assert [each.name for each in found] == ["row_sums", "row_sums"], "of `double` all variants are one code"
    assert len(ran) == 1
    with knobs.compilation.scope(), pinned(Options()) as reports:
        knobs.compilation.always_compile = True
        for width in (32, 64):
            support.compile_kernel(support.row_sums, width=width)
    assert sorted(report.variant for report in reports) == sorted(each.variant for each in found)
