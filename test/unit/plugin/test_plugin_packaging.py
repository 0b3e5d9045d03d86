"""What `pip install` puts beside the package makes the variable `TRITON_LINEAR` work, and goes with it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("plugin", "dialect", "passes", "lowering", "tools", "examples", "gluon")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
PROBE = "import sys; print('triton_linear.environment' in sys.modules)"


def test_every_folder_of_modules_is_a_package() -> None:
    """Or `pip install` would leave it out."""
    assert 'packages.find]\nwhere = ["src"]\n' in (ROOT / "pyproject.toml").read_text()
    folders = {path.parent.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    for folder in folders - {Path("plugin/startup")}:
        name = folder.relative_to("plugin") if folder.parts[0] == "plugin" else folder
        package = ROOT / "src" / "triton_linear" / name
        assert package.resolve() == ROOT / folder
        assert (package / "__init__.py").is_file()


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="there is no pip to install with")
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_the_start_up_file_comes_and_goes_with_the_package(editable: bool, tmp_path: Path) -> None:
    source, fresh = tmp_path / "source", tmp_path / "venv"
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in (*ROOMS, "src"):
        shutil.copytree(ROOT / room, source / room, symlinks=True, ignore=left_out)
    for file in FILES:
        shutil.copy(ROOT / file, source)
    left = source / "build" / "lib" / "triton_linear" / "left_by_an_earlier_build.py"
    left.parent.mkdir(parents=True)
    left.touch()
    venv.create(fresh, with_pip=False)
    python = str(fresh / "bin" / "python")
    variables = {k: v for k, v in os.environ.items() if k not in ("TRITON_LINEAR", "PYTHONPATH")}

    def pip(*arguments: str) -> str:
        command = [sys.executable, "-m", "pip", "--python", python, *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if "No matching distribution found for setuptools" in done.stderr:
            pytest.skip("there is no setuptools to build with, and no index to get it from")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def is_armed(**extra: str) -> str:
        done = subprocess.run(
            [python, "-c", PROBE],
            env=variables | extra,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return done.stdout.strip() + done.stderr

    pip("install", "-q", "--no-deps", *(["-e"] if editable else []), str(source))
    (site,) = (fresh / "lib").glob("python*/site-packages")
    assert (site / "triton_linear.pth").is_file()
    assert (site / "triton_linear").is_dir() is not editable
    if not editable:
        assert {
            path.relative_to(site / "triton_linear") for path in (site / "triton_linear").rglob("*.py")
        } == {
            path.relative_to(source / ("plugin" if room == "plugin" else "."))
            for room in ROOMS
            for path in (source / room).rglob("*.py")
        }
    assert is_armed() == "False"
    assert is_armed(TRITON_LINEAR="0") == "False"
    assert is_armed(TRITON_LINEAR="1") == "True"
    pip("uninstall", "-q", "-y", "triton-linear")
    assert not list(site.glob("*triton_linear*"))
    assert is_armed(TRITON_LINEAR="1") == "False"
