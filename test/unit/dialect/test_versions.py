"""Which Tritons and which modules `mlir` the package works with, and what it says of others."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import triton
from plugin_processes import printed, python, run
from plugin_support import CUDA, HIP
from shared_accesses import Case

from triton_linear.dialect import triton_versions
from triton_linear.lowering.emit import marks

ROOT = Path(__file__).resolve().parents[3]
TOO_OLD = r"found Triton {}; triton_linear works with 3\.6\.0, 3\.7\.0, 3\.7\.1, 3\.8\.0 or 3\.9\.0"
REFUSAL = TOO_OLD + "; run 'triton-linear doctor' to try this one out"
OTHERS = ("3.9.1", "3.10.0", "4.0.0", "3.6.0+git1234", "3.9.0+rocm6.4")
UNKNOWN = ("3.5.1", "2.1.0+git1234", "unknown")
IMPORTS = "import triton, os; print('goes on')"


def test_what_is_tested_is_what_is_accepted_and_what_pip_installs() -> None:
    assert all(triton_versions.refusal(version) is None for version in triton_versions.TESTED)
    text = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'^(.*)"triton([<>=].*)"', text, re.MULTILINE) == [("triton = [", ">=3.6,<3.10")]
    rows = re.findall(r'\("(3\.\d+\.\d+)", "3\.\d+", \w+\)', (ROOT / "test" / "matrix.py").read_text())
    assert (*rows, "3.9.0") == triton_versions.TESTED
    assert triton_versions.REFERENCE == (3, 9) and "TRITON ?= 3.9.0\n" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("version", OTHERS)
def test_others_are_refused_by_name(version: str) -> None:
    assert re.fullmatch(REFUSAL.format(re.escape(version)), triton_versions.refusal(version) or "")


@pytest.mark.parametrize("version", UNKNOWN)
def test_of_older_ones_nothing_is_known(version: str) -> None:
    assert re.fullmatch(TOO_OLD.format(re.escape(version)), triton_versions.refusal(version) or "")
    assert triton_versions.release_of(version) is None


def test_who_has_none_is_told_how_to_install_one() -> None:
    said = triton_versions.refusal(None) or ""
    assert said.startswith("found no Triton; ")
    assert said.endswith("\"pip install 'triton-linear[triton]'\" brings one")


def test_the_rules_are_those_of_the_newest_release_that_is_not_above() -> None:
    for version in triton_versions.TESTED:
        assert ".".join(map(str, triton_versions.release_of(version) or ())) == version.rpartition(".")[0]
    assert {triton_versions.release_of(version) for version in ("3.10.0", "3.9.1+git1", "4.0.0")} == {(3, 9)}
    assert {triton_versions.release_of(version) for version in triton_versions.TESTED} == set(
        triton_versions.KNOWN
    )


def test_the_release_of_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "__version__", "3.10.0+gitdeadbeef")
    assert triton_versions.installed_release() == (3, 9)
    with pytest.raises(triton_versions.UnsupportedTriton, match="doctor"):
        triton_versions.require()


def test_the_version_is_the_module_s_whether_it_is_imported_or_not() -> None:
    assert triton_versions.found() == triton.__version__
    assert triton_versions._found_on_path() == triton.__version__
    code = (
        "import sys; from triton_linear.dialect import triton_versions as v;"
        "print(v.found(), 'triton' in sys.modules)"
    )
    assert printed("-c", code) == f"{triton.__version__} False\n"


NONE = r"found no Triton; triton_linear works with .*; \"pip install 'triton-linear\[triton\]'\" brings one"
SAID = {"another": REFUSAL.format(r"4\.0\.0"), "none": NONE}
"""What is said of a Triton of another version, which has nothing that the plugin could wrap, and where there is
none."""
STARTUP = ROOT / "plugin" / "startup"


def folder_of(kind: str, folder: Path) -> Path:
    """A folder that makes Python, where it is on its path, one with that Triton."""
    if kind == "another":
        (folder / "triton").mkdir()
        (folder / "triton" / "__init__.py").write_text("__version__ = '4.0.0'\n")
    else:
        (folder / "sitecustomize.py").write_text("import sys\nsys.modules['triton'] = None\n")
    (folder / "k.ttgir").write_text("module {}\n")
    return folder


def test_with_the_variable_a_program_on_another_triton_goes_on_after_one_warning(tmp_path: Path) -> None:
    path = (STARTUP, folder_of("another", tmp_path))
    done = run(IMPORTS + "\nimport importlib; importlib.reload(triton)", "1", path=path)
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    told = re.findall("EnvironmentWarning: triton_linear is off: " + SAID["another"], done.stderr)
    assert len(told) == 1


def test_with_the_variable_and_strict_it_does_not(tmp_path: Path) -> None:
    done = run(IMPORTS, "strict", path=(STARTUP, folder_of("another", tmp_path)))
    assert done.returncode == 1 and not done.stdout
    assert re.search("UnsupportedTriton: " + SAID["another"], done.stderr)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", SAID)
def test_scripts_run_from_the_command_line_after_one_warning(kind: str, strict: bool, tmp_path: Path) -> None:
    script = folder_of(kind, tmp_path) / "script.py"
    script.write_text(IMPORTS if kind == "another" else "print('goes on')")
    arguments = ("-m", "triton_linear", *(("--strict",) if strict else ()), str(script))
    done = run("", None, *arguments, path=(tmp_path,))
    assert (done.returncode, done.stdout) == ((1, "") if strict else (0, "goes on\n"))
    assert len(re.findall(SAID[kind], done.stderr)) == 1


@pytest.mark.parametrize("call", ["install()", "enabled().__enter__()"])
@pytest.mark.parametrize("kind", SAID)
def test_calls_raise(kind: str, call: str, tmp_path: Path) -> None:
    done = run(f"import triton_linear; triton_linear.{call}", None, path=(folder_of(kind, tmp_path),))
    assert done.returncode == 1
    assert re.search(f"UnsupportedTriton: {SAID[kind]}\n", done.stderr)


def tool(*words: str, path: Path) -> Any:
    """A command of ours, with a folder first on its path."""
    paths = os.pathsep.join(filter(None, (str(path), os.environ.get("PYTHONPATH"))))
    return python("-m", f"triton_linear.tools.{words[0]}", *words[1:], PYTHONPATH=paths)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        *((kind, command) for kind in SAID for command in ("verify", "opt")),
        ("none", "explain"),
        ("none", "doctor"),
    ],
)
def test_commands_say_so_in_one_line(kind: str, command: str, tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path)
    name = ("opt.command",) if command == "opt" else ("cli", command)
    done = tool(*name, *([str(folder / "k.ttgir")] * (command != "doctor")), path=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(f"error: {SAID[kind]}\n", done.stderr)


def test_versions_are_printed_all_the_same(tmp_path: Path) -> None:
    done = tool("cli", "status", path=folder_of("none", tmp_path))
    assert done.returncode == 0, done.stderr
    assert re.search(f"^triton: refused: {NONE}$", done.stdout, re.MULTILINE)
    assert "linear-select-lowering" not in done.stdout


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

    mlir_adapter._check_bindings()
    if broken == "printing":
        text_of = mlir_adapter.text_of
        monkeypatch.setattr(
            mlir_adapter, "text_of", lambda *rest, **more: text_of(*rest, **more).replace("b = 1", "b = 2")
        )
    else:
        monkeypatch.setattr(mlir_adapter, "operations", lambda op: [])
    with pytest.raises(ImportError, match=r"was lost in printing|a walk found"):
        mlir_adapter._check_bindings()


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


def test_what_accesses_take_is_foreseen() -> None:
    operand = (
        "#ttg.dot_op<{opIdx = 1, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, "
        "warpsPerCTA = [4, 1], instrShape = [16, 8]}>, kWidth = 4}>"
    )
    swizzled = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 16, order = [1, 0]}>"
    case = Case("cuda:80", 4, (64, 128), "f8E5M2", operand, swizzled, is_store=False)
    assert case.foreseen == case.wavefronts()
