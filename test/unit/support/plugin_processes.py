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


def run(code: str, variable: str | None, *arguments: str, path: tuple[Path, ...] = (STARTUP,)) -> Any:
    """A fresh Python with the start-up file where the installed package has it."""
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_LINEAR"}
    if variable is not None:
        variables["TRITON_LINEAR"] = variable
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (*map(str, path), str(SUPPORT), *inherited)))
    command = [sys.executable, *arguments, *(("-c", code) if code else ())]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=240)
