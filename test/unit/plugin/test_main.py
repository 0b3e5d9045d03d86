"""Unchanged scripts run with the plugin as they run without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_processes import python
from plugin_support import fresh_plugin

import triton_linear

__all__ = ["fresh_plugin"]

pytestmark = pytest.mark.usefixtures("fresh_plugin")


# Scripts


SCRIPT = """
import atexit, pickle, sys
import plugin_support as support
support.use_fakes()
class Thing: pass
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
print(__name__, sys.argv, sys.path[0], __file__, support.is_ours(support.compile_kernel()))
atexit.register(lambda: print("bye", sys.modules["__main__"].Thing.__name__))
"""


def run(*words: object, **options: Any) -> Any:
    """A process of the package's command."""
    return python("-m", "triton_linear", *words, **options)


@pytest.mark.parametrize("form", ["file", "module"])
def test_an_unchanged_script_runs_as_itself(form: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    named = [str(script)] if form == "file" else ["-m", "script"]
    done = run("--report", *named, "--strict", "-m", "x", cwd=tmp_path)
    expected = f"__main__ {[str(script), '--strict', '-m', 'x']} {tmp_path} {script} True\nbye Thing\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert done.stderr.startswith("row_sums for cuda:90: converted; 1 conversion: 1 ours")


def test_a_script_sets_the_exit_status(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(3)")
    assert run(script).returncode == 3
    done = run("missing.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr and "missing.py" in done.stderr


def test_what_is_no_script_is_one_error(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 1
    assert "can't find '__main__' module" in done.stderr
    assert run().stderr.endswith("the following arguments are required: SCRIPT\n")


def test_options_of_python_and_the_current_folder_stay(tmp_path: Path) -> None:
    """Also where the package is found in the current folder alone."""
    script = tmp_path / "script.py"
    script.write_text("import sys, triton_linear; print(sys.warnoptions, sys.flags.optimize, sys.argv[1:])")
    folder = Path(triton_linear.__path__[0]).parent
    done = python("-W", "error", "-O", "-m", "triton_linear", script, "-m", cwd=folder, PYTHONPATH="")
    assert (done.returncode, done.stdout) == (0, "['error'] 1 ['-m']\n"), done.stderr


def test_the_environment_that_a_script_sets_before_it_imports_triton_counts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys; os.environ['TRITON_DEBUG'] = '1'; print('triton' in sys.modules)\n"
        "import triton; print(triton.knobs.runtime.debug)\n"
        "import triton_linear.hook as hook; print(hook._state.active.options.strict)\n"
        "print(type(triton.__spec__.loader).__name__)\n"
    )
    done = run("--strict", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["False", "True", "True", "SourceFileLoader"]


def test_a_script_without_triton_does_not_import_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import json, sys; print('triton' in sys.modules)")
    done = run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
