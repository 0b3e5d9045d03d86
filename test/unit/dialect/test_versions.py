"""Which Tritons and which modules `mlir` the package works with, and what it says of others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
from local_cases import MMA, SWIZZLED, Case
from plugin_processes import run
from plugin_support import CUDA, HIP

from triton_linear.dialect import triton_versions
from triton_linear.lowering.emit import marks

ROOT = Path(__file__).resolve().parents[3]
REFUSAL = r"found Triton {}; triton_linear works with 3\.6\.0, 3\.7\.1, 3\.8\.0 or 3\.9\.0"
OTHERS = ("3.5.1", "3.7.0", "3.9.1", "3.10.0", "4.0.0", "3.6.0+git1234", "unknown")
IMPORTS = "import triton, os; print('goes on')"


def test_what_is_tested_is_what_is_accepted_and_what_pip_installs() -> None:
    assert all(triton_versions.refusal(version) is None for version in triton_versions.TESTED)
    dependency = re.search(r'"triton([<>=].*)"', (ROOT / "pyproject.toml").read_text())
    assert dependency is not None and dependency[1] == ">=3.6,<3.10,!=3.7.0"
    rows = re.findall(r'\("(3\.\d+\.\d+)", "3\.\d+"\)', (ROOT / "test" / "matrix.py").read_text())
    assert tuple(rows) == triton_versions.TESTED[1:]
    assert f"TRITON ?= {triton_versions.TESTED[0]}\n" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("version", OTHERS)
def test_others_are_refused_by_name(version: str) -> None:
    assert re.fullmatch(REFUSAL.format(re.escape(version)), triton_versions.refusal(version) or "")
    assert "no Triton" in (triton_versions.refusal(None) or "")


def test_the_version_is_the_module_s_whether_it_is_imported_or_not() -> None:
    assert triton_versions.found() == triton.__version__
    assert triton_versions._found_on_path() == triton.__version__
    code = (
        "import sys; from triton_linear.dialect import triton_versions as v;"
        "print(v.found(), 'triton' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{triton.__version__} False\n"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """A folder with a Triton of another version, which has nothing that the plugin could wrap."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '4.0.0'\n")
    yield tmp_path


STARTUP = ROOT / "plugin" / "startup"


def test_with_the_variable_a_program_on_another_triton_goes_on_after_one_warning(other: Path) -> None:
    done = run(IMPORTS + "\nimport importlib; importlib.reload(triton)", "1", path=(STARTUP, other))
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert (
        len(re.findall("EnvironmentWarning: triton_linear is off: " + REFUSAL.format(r"4\.0\.0"), done.stderr))
        == 1
    )


def test_with_the_variable_and_strict_it_does_not(other: Path) -> None:
    done = run(IMPORTS, "strict", path=(STARTUP, other))
    assert done.returncode == 1 and not done.stdout
    assert re.search("UnsupportedTriton: " + REFUSAL.format(r"4\.0\.0"), done.stderr)


@pytest.mark.parametrize("strict", [False, True])
def test_scripts_run_from_the_command_line_on_another_triton(other: Path, strict: bool) -> None:
    script = other / "script.py"
    script.write_text(IMPORTS)
    arguments = ("-m", "triton_linear", *(("--strict",) if strict else ()), str(script))
    done = run("", None, *arguments, path=(other,))
    assert (done.returncode, done.stdout) == ((1, "") if strict else (0, "goes on\n"))
    assert re.search(REFUSAL.format(r"4\.0\.0"), done.stderr)


@pytest.mark.parametrize("call", ["install()", "enabled().__enter__()"])
def test_calls_raise_on_another_triton(other: Path, call: str) -> None:
    done = run(f"import triton_linear; triton_linear.{call}", None, path=(other,))
    assert done.returncode == 1
    assert re.search("UnsupportedTriton: " + REFUSAL.format(r"4\.0\.0"), done.stderr)


def tool(name: str, *arguments: str, path: Path) -> Any:
    """A command of ours, with a folder first on its path."""
    paths = os.pathsep.join(filter(None, (str(path), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", f"triton_linear.tools.{name}", *arguments]
    return subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.parametrize("command", [("opt.command", "-"), ("cli", "demo"), ("cli", "fuzz", "--count", "1")])
def test_commands_say_so_in_one_line(other: Path, command: tuple[str, ...]) -> None:
    if command[1] == "-":
        (other / "k.ttgir").write_text("module {}\n")
        command = ("opt.command", str(other / "k.ttgir"))
    done = tool(*command, path=other)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch("error: " + REFUSAL.format(r"4\.0\.0") + "\n", done.stderr)


# Modules `mlir`


NOTHING = ""
NAMES_ONLY = """
import sys, types
class Any_:
    def __init__(self, *rest, **more): pass
    def __getattr__(self, name): return Any_()
    def __call__(self, *rest, **more): return Any_()
def module(name):
    found = types.ModuleType(name); found.__getattr__ = lambda attribute: Any_(); sys.modules[name] = found
    return found
for name in ("_mlir_libs", "_mlir_libs._mlir", "dialects", "dialects.irdl", "ir", "passmanager"):
    module(f"mlir.{name}")
"""


@pytest.mark.parametrize("text", [NOTHING, NAMES_ONLY, "raise RuntimeError('no')"])
def test_modules_that_do_not_serve_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mlir").mkdir()
    (tmp_path / "mlir" / "__init__.py").write_text(text)
    (tmp_path / "k.ttgir").write_text("module {}\n")
    done = tool("opt.command", str(tmp_path / "k.ttgir"), path=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    said = r"error: found a module 'mlir' that does not serve, at {} \(.*\): .*; install xtc-mlir-python-.*\n"
    assert re.fullmatch(said.format(re.escape(str(tmp_path / "mlir" / "__init__.py"))), done.stderr)


@pytest.mark.parametrize("broken", ["printing", "walking"])
def test_bindings_that_lose_something_are_refused(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    from triton_linear.dialect import mlir_adapter

    mlir_adapter._try_out()
    if broken == "printing":
        text_of = mlir_adapter.text_of
        monkeypatch.setattr(
            mlir_adapter, "text_of", lambda *rest, **more: text_of(*rest, **more).replace("b = 1", "b = 2")
        )
    else:
        monkeypatch.setattr(mlir_adapter, "operations", lambda op: [])
    with pytest.raises(ImportError, match=r"was lost in printing|a walk found"):
        mlir_adapter._try_out()


# What differs


@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_marks_are_gone_and_data_is_not_written_over(target: Any, tmp_path: Path) -> None:
    """Every store to the scratch is ours: as many as the plan has."""
    from plugin_support import transpose_bytes

    import triton_linear

    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path)
        with triton_linear.enabled(strict=True, assign=False) as reports:
            kernel = triton.compile(transpose_bytes(), target=target)
    (conversion,) = reports[-1].conversions
    stores = int(re.search(r"(\d+) stores? of", conversion.detail)[1])  # type: ignore[index]
    llir = kernel.asm["llir"]
    found = re.findall(r"\bstore [^\n]*ptr addrspace\(3\)|asm sideeffect \"st\.shared[^\n]*", llir)
    assert len(found) == stores
    assert str(marks.NUMBER) not in llir


def test_a_mark_in_another_form_is_an_error() -> None:
    asm = 'asm sideeffect "st.shared.b64 [ $0 + 0 ], $1;", "r,l"'
    store = f"call void {asm}(ptr addrspace(3) @x, i64 {marks.NUMBER})"
    assert marks.without_marks(f"a\n  tail {store} #1, !dbg !3\nb\n") == "a\nb\n"
    with pytest.raises(marks.MarkError, match="store i64"):
        marks.without_marks(f"  store i64 {marks.NUMBER}, ptr addrspace(3) @x\n")


def test_accesses_go_by_way_of_other_layouts() -> None:
    """Each release computes the same, with fewer wavefronts."""
    case = Case("cuda:80", 4, (64, 128), "f8E5M2", MMA.replace("$", "1"), SWIZZLED, is_store=False)
    stock, ours = case.wavefronts(ours=False), case.wavefronts(ours=True)
    assert ours < stock
