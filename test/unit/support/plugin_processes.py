"""Fresh processes with the start-up file of the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import triton_linear

SUPPORT = Path(__file__).parent
STARTUP = Path(triton_linear.__path__[0], "startup")


def python(*words: object, cwd: Path | None = None, **variables: str) -> Any:
    """A fresh Python with these words and variables, and what tests share on its path."""
    path = os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH"))))
    command, environment = [sys.executable, *map(str, words)], {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240, cwd=cwd
    )


def printed(*words: object, cwd: Path | None = None, **variables: str) -> str:
    """What it prints; it must succeed."""
    done = python(*words, cwd=cwd, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return str(done.stdout)


def run(code: str, variable: str | None, *arguments: str, path: tuple[Path, ...] = (STARTUP,)) -> Any:
    """A fresh Python with the start-up file where the installed package has it."""
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_LINEAR"}
    if variable is not None:
        variables["TRITON_LINEAR"] = variable
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (*map(str, path), str(SUPPORT), *inherited)))
    command = [sys.executable, *arguments, *(("-c", code) if code else ())]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=240)
