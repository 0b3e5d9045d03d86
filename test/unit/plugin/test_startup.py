"""What `pip install` puts beside the package makes the variable `TRITON_LINEAR` work, and goes with it. A
release is built, checked and installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest
import triton
from packaging_support import ROOMS, ROOT, Fresh, built, checkout

import triton_linear

PROBE = "import sys; print('triton_linear.environment' in sys.modules)"
PLUGINS = """
from importlib.metadata import entry_points
for group in ("vllm.general_plugins", "sglang.srt.plugins"):
    for found in entry_points(group=group):
        print(found.name, found.load()())
"""
INSTALLED = {name.lower() for found in importlib.metadata.distributions() if (name := found.metadata["Name"])}
needs_pip = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None, reason="there is no pip to install with"
)


def test_every_folder_of_modules_is_a_package() -> None:
    """Or `pip install` would leave it out."""
    assert 'packages.find]\nwhere = ["src"]\n' in (ROOT / "pyproject.toml").read_text()
    folders = {path.parent.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    for folder in folders - {Path("plugin/startup")}:
        name = folder.relative_to("plugin") if folder.parts[0] == "plugin" else folder
        package = ROOT / "src" / "triton_linear" / name
        assert package.resolve() == ROOT / folder
        assert (package / "__init__.py").is_file()


@needs_pip
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_the_start_up_file_comes_and_goes_with_the_package(editable: bool, tmp_path: Path) -> None:
    source, fresh = checkout(tmp_path / "source"), Fresh(tmp_path / "venv")
    left = source / "build" / "lib" / "triton_linear" / "left_by_an_earlier_build.py"
    left.parent.mkdir(parents=True)
    left.touch()

    def is_armed(**extra: str) -> str:
        return fresh.run(fresh.python, "-c", PROBE, **extra)

    fresh.pip("install", "-q", "--no-deps", *(["-e"] if editable else []), str(source))
    assert (fresh.site / "triton_linear.pth").is_file()
    assert (fresh.site / "triton_linear").is_dir() is not editable
    if not editable:
        assert modules(fresh.site / "triton_linear") == modules_of(source)
    assert is_armed() == "False"
    assert is_armed(TRITON_LINEAR="0") == "False"
    assert is_armed(TRITON_LINEAR="1") == "True"
    fresh.pip("uninstall", "-q", "-y", "triton-linear")
    assert not list(fresh.site.glob("*triton_linear*"))
    assert is_armed(TRITON_LINEAR="1") == "False"


@needs_pip
@pytest.mark.skipif(not {"build", "twine"} <= INSTALLED, reason="the extra `test` has build and twine")
def test_a_release_is_built_checked_and_installed(tmp_path: Path) -> None:
    """The source distribution, and the wheel that is built from it alone, as an index would serve them."""
    version = triton_linear.__version__
    source, fresh, archives = checkout(tmp_path / "source"), Fresh(tmp_path / "venv"), tmp_path / "dist"
    built([sys.executable, "-m", "build", "--outdir", str(archives), str(source)], fresh.variables)
    wheel = archives / f"triton_linear-{version}-py3-none-any.whl"
    assert sorted(archives.iterdir()) == [wheel, archives / f"triton_linear-{version}.tar.gz"]
    built([sys.executable, "-m", "twine", "check", "--strict", *map(str, archives.iterdir())], fresh.variables)
    fresh.pip("install", "-q", "--no-deps", str(wheel))
    assert modules(fresh.site / "triton_linear") == modules_of(source)
    assert (fresh.site / "triton_linear.pth").is_file()
    assert fresh.run(fresh.python, "-c", PLUGINS) == "triton_linear None\ntriton_linear None"
    others = str(Path(triton.__file__).parents[1])  # what it depends on, of this environment
    status = fresh.run(str(fresh.bin / "triton-linear"), "status", PYTHONPATH=others, TRITON_LINEAR="1")
    assert status.startswith(f"triton-linear {version}\n"), status
    said = fresh.run(fresh.python, "-c", "import triton_linear; print(triton_linear.__file__)")
    assert said == str(fresh.site / "triton_linear" / "__init__.py")
    assert f"\n## {version}, " in (ROOT / "CHANGELOG.md").read_text()
    assert f"triton_linear-{version}-py3-none-any.whl" in (ROOT / "docs" / "servers.md").read_text()


def modules(package: Path) -> set[Path]:
    """The modules of an installed package."""
    return {path.relative_to(package) for path in package.rglob("*.py")}


def modules_of(source: Path) -> set[Path]:
    """Those that a checkout has, by their places in the package."""
    return {
        path.relative_to(source / ("plugin" if room == "plugin" else "."))
        for room in ROOMS
        for path in (source / room).rglob("*.py")
    }
