"""`triton-linear tune` from its command to the plugin that follows what was decided, with children that compile
and decide as ever; only what a GPU does is made up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import plugin_support as support
import pytest
from triton import knobs

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.hook import pinned
from triton_linear.setting import Options

PROGRAM = """
import sys, time
from plugin_support import compile_kernel, double, row_sums
from pretended_child import launch

launch(compile_kernel(double))
for width in (32, 64):
    launch(compile_kernel(row_sums, width=width))
print("the program has run", flush=True)
time.sleep(int(sys.argv[1]))
"""
COMMAND = """
import functools, sys
import pretended_child
from triton_linear.tools.cli import main
from triton_linear.tools.measuring import rounds
from triton_linear.tools.tune import command

child = (sys.executable, pretended_child.__file__)
rounds.run_child = functools.partial(rounds.run_child, command=child)
command.gpu_name = lambda what: "Some GPU"
sys.exit(main(["tune", "--seconds", "0", *sys.argv[1:]]))
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, "-c", COMMAND, str(tmp_path / "program.py")]


def test_a_program_is_tuned(command: list[str]) -> None:
    said = subprocess.run([*command, "0"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("the program has run") == 1
    assert said.stderr.count("row_sums: ") == 2
    found = DecisionFile(decisions.default_file()).read()
    assert [each.name for each in found] == ["row_sums", "row_sums"], "of `double` all variants are one code"
    with knobs.compilation.scope(), pinned(Options()) as reports:
        knobs.compilation.always_compile = True
        for width in (32, 64):
            support.compile_kernel(support.row_sums, width=width)
    assert sorted(report.variant for report in reports) == sorted(each.variant for each in found)


def test_a_run_that_is_killed_has_kept_what_it_decided(command: list[str]) -> None:
    """Its child ends with it: nobody has its output open any more."""
    with subprocess.Popen(
        [*command, "60"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as tuning:
        assert tuning.stdout is not None
        told = 0
        while told < 3:
            line = tuning.stdout.readline()
            assert line, "it has ended"
            told += "row_sums: " in line or "has run" in line
        tuning.kill()
        begun = time.monotonic()
        assert tuning.stdout.read() == ""
        assert time.monotonic() - begun < 30
    assert len(DecisionFile(decisions.default_file()).read()) == 2
