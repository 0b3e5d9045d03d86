"""A checkout to build packages from, and an environment to install them in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("plugin", "dialect", "passes", "lowering", "tools", "examples", "gluon")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def checkout(folder: Path) -> Path:
    """A copy of what packages are built from."""
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in (*ROOMS, "src"):
        shutil.copytree(ROOT / room, folder / room, symlinks=True, ignore=left_out)
    for file in FILES:
        shutil.copy(ROOT / file, folder)
    return folder


class Fresh:
    """An environment without packages; pip comes from this one."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        self.python = str(self.bin / "python")
        (self.site,) = (folder / "lib").glob("python*/site-packages")
        kept = ("TRITON_LINEAR", "PYTHONPATH")
        self.variables = {k: v for k, v in os.environ.items() if k not in kept}

    def pip(self, *arguments: str) -> str:
        """What pip prints; the test is skipped where there is nothing to build with."""
        return built([sys.executable, "-m", "pip", "--python", self.python, *arguments], self.variables)

    def run(self, *arguments: str, **extra: str) -> str:
        """What a command of the environment prints, on both streams."""
        done = subprocess.run(
            arguments, env=self.variables | extra, capture_output=True, text=True, check=False, cwd=self.bin
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip() + done.stderr


def built(command: list[str], variables: Mapping[str, str]) -> str:
    """What a command that builds prints; the test is skipped where there is no setuptools."""
    done = subprocess.run(
        command,
        env=dict(variables),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(sys.executable).parent,
    )
    if "No matching distribution found for setuptools" in done.stdout + done.stderr:
        pytest.skip("there is no setuptools to build with, and no index to get it from")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
