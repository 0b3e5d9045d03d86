"""The variable `TRITON_LINEAR`: what it says, and that processes which nobody started by hand obey it."""

from __future__ import annotations

import os
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest
from plugin_processes import STARTUP, run
from plugin_support import fresh_plugin

import triton_linear
from triton_linear import environment
from triton_linear.passes import user_passes
from triton_linear.setting import Options

__all__ = ["fresh_plugin"]

pytestmark = pytest.mark.usefixtures("fresh_plugin")

PASSES = user_passes.load(str(Path(__file__).parents[3] / "examples" / "streaming_pass.py"))


# What it says


@pytest.mark.parametrize("text", ["", "0", " 0 ", "off", "No", "FALSE"])
def test_off(text: str) -> None:
    assert environment.parse(text) is None


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("1", Options()),
        ("true", Options()),
        ("On", Options()),
        ("yes, strict=yes", Options(strict=True)),
        ("1,skip=a", Options(skip="a")),
        ("strict", Options(strict=True)),
        ("strict=0", Options()),
        ("strict=1, scratch_limit = 4096", Options(strict=True, scratch_limit=4096)),
        ("scratch_limit=0", Options(scratch_limit=0)),
        ("exact", Options(exact=True)),
        ("exact=0,reductions=0", Options(reductions=False)),
        ("scratch_limit=none", Options()),
        ("gluon", Options(gluon="*")),
        ("gluon=1", Options(gluon="*")),
        ("gluon=0", Options()),
        ("gluon=mine*:other", Options(gluon="mine*:other")),
        ("reductions=0, assign=0", Options(reductions=False, assign=False)),
    ],
)
def test_on(text: str, options: Options) -> None:
    assert environment.parse(text) == options
    assert environment.parse(environment.text_of(options)) == options


def test_every_option_has_a_text() -> None:
    """Also those that are added later: each value that a field can have comes back."""
    taken = [field for field in fields(Options) if not field.metadata.get("internal")]
    assert {field.name for field in taken} == set(signature(triton_linear.install).parameters) - {"on_report"}
    for field in taken:
        kinds: dict[type, tuple[object, ...]] = {bool: (False, True), str: ("", "some"), tuple: ((), PASSES)}
        for value in kinds.get(type(field.default), (0, 77, None)):
            options = Options(**{field.name: value})  # type: ignore[arg-type]
            assert environment.parse(environment.text_of(options)) == options


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fast", "no option 'fast'; 1 is for on"),
        ("tru", "no option 'tru'; did you mean 'true'?"),
        ("1,skpi=a", "no option 'skpi'; did you mean 'skip'?"),
        ("0,strict", "no option '0'"),
        ("free", "no option 'free'"),
        ("strict,", "no option ''"),
        ("strict=maybe", "option 'strict' takes 0 or 1, got 'maybe'"),
        ("strict,strict=0", "option 'strict' is there twice"),
        ("scratch_limit", "option 'scratch_limit' takes a number or none, got ''"),
        ("scratch_limit=-1", "takes a number or none, got '-1'"),
        ("lowering=legacy", "no option 'lowering'"),
    ],
)
def test_nonsense(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as error:
        environment.parse(text)
    assert reason in str(error.value)


# Exporting


def test_install_exports_and_uninstall_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_LINEAR", raising=False)
    triton_linear.install()
    assert os.environ["TRITON_LINEAR"] == "1"
    triton_linear.install(strict=True, scratch_limit=64)
    assert os.environ["TRITON_LINEAR"] == "strict,scratch_limit=64"
    triton_linear.uninstall()
    assert "TRITON_LINEAR" not in os.environ
    monkeypatch.setenv("TRITON_LINEAR", "0")
    triton_linear.install()
    triton_linear.uninstall()
    assert os.environ["TRITON_LINEAR"] == "0"


def test_what_somebody_else_sets_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_LINEAR", "")  # so that what was there before comes back in the end
    monkeypatch.delenv("TRITON_LINEAR")
    triton_linear.install()
    monkeypatch.setenv("TRITON_LINEAR", "strict")
    triton_linear.uninstall()
    assert os.environ["TRITON_LINEAR"] == "strict"


# Processes


OURS = """
import sys
print(sorted(m for m in sys.modules if m.split(".")[0] in {"triton_linear", "triton", "numpy", "mlir"}))
"""


@pytest.mark.parametrize("variable", [None, "", "0"])
def test_nothing_at_all_happens_without_the_variable(variable: str | None) -> None:
    done = run(f"{OURS}print([f for f in sys.meta_path if 'triton_linear' in type(f).__module__])", variable)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n[]\n", "")
    code = "import triton; print(triton.knobs.runtime.add_stages_inspection_hook)"
    done = run(code + OURS, variable)
    assert done.stdout.splitlines()[0] == "None"
    assert "triton_linear" not in done.stdout


@pytest.mark.parametrize("variable", ["1", "nonsense"])
def test_a_process_without_triton_imports_next_to_nothing(variable: str) -> None:
    done = run(OURS, variable)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['triton_linear', 'triton_linear.environment']\n"


def test_importing_triton_turns_it_on() -> None:
    code = "import triton; from triton_linear import hook; print(hook._state.active.options)"
    done = run(code, "scratch_limit=64")
    assert (done.stdout, done.stderr) == (f"{Options(scratch_limit=64)}\n", "")
    code = "import triton, triton_linear, os; triton_linear.uninstall(); print(os.environ['TRITON_LINEAR'])"
    assert run(code, "scratch_limit=64").stdout == "scratch_limit=64\n"


BEFORE_TRITON = """
import sys
import triton_linear
from triton_linear import hook
from triton_linear.inductor import Job
from triton_linear.setting import Options

def show(setting):
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    marks = make_backend(GPUTarget("cuda", 90, 32)).hash().split("-triton_linear-")[1:]
    print(setting and setting.options.scratch_limit, len(marks))

assert "triton" not in sys.modules
"""


@pytest.mark.parametrize(
    ("calls", "printed"),
    [
        ("triton_linear.install(scratch_limit=32)\nshow(hook._state.current())", "32 1"),
        ("with triton_linear.enabled(scratch_limit=32): show(hook._state.current())", "32 1"),
        ("with hook.pinned(None): show(hook._state.current())", "None 0"),
        ("Job(lambda: show(hook._state.current()), None, None)()", "None 0"),
        ("Job(lambda: show(hook._state.current()), Options(scratch_limit=32), None)()", "32 1"),
        ("triton_linear.uninstall()\nshow(hook._state.current())", "None 0"),
        ("with triton_linear.enabled(scratch_limit=32): pass\nshow(hook._state.current())", "64 1"),
        (
            "with triton_linear.enabled(): pass\ntriton_linear.uninstall()\nshow(hook._state.current())",
            "None 0",
        ),
    ],
)
def test_a_call_before_triton_is_imported_counts_more(calls: str, printed: str) -> None:
    done = run(BEFORE_TRITON + calls, "scratch_limit=64")
    assert (done.stdout, done.stderr) == (f"{printed}\n", "")


def test_a_bad_value_is_one_warning() -> None:
    done = run("import triton, triton.language; print(triton.knobs.runtime.add_stages_inspection_hook)", "fast")
    assert (done.returncode, done.stdout) == (0, "None\n")
    assert done.stderr.count("Warning") == 1
    assert "triton_linear is off: TRITON_LINEAR=fast: no option 'fast'; 1 is for on" in done.stderr


def test_the_next_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    for variable in ("1", None):
        done = run("import sitecustomize; print(sitecustomize.__file__)", variable, path=(STARTUP, tmp_path))
        assert done.stdout == f"theirs\n{tmp_path / 'sitecustomize.py'}\n", done.stderr


def test_processes_that_a_script_starts_have_it(tmp_path: Path) -> None:
    """Where the package is not installed either: nothing puts the start-up file on the path beforehand."""
    script = tmp_path / "script.py"
    script.write_text(
        "import subprocess, sys\n"
        "code = 'import triton; from triton_linear import hook; print(hook._state.active.options)'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    done = run("", "scratch_limit=64", "-m", "triton_linear", "--strict", str(script), path=())
    assert done.stdout == f"{Options(strict=True, scratch_limit=64)}\n", done.stderr
    done = run("", "fast", "-m", "triton_linear", str(script), path=())
    assert (done.returncode, done.stderr.splitlines()[-1].partition("error: ")[2][:32]) == (
        2,
        "TRITON_LINEAR: no option 'fast';",
    )


# Workers, started as Inductor starts its own, compile for their parent's Triton cache


def count_kernels() -> int:
    return len(list(Path(os.environ["TRITON_CACHE_DIR"]).glob("*/*.cubin")))


POOL = """
import plugin_support, triton_linear
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
plugin_support.use_fakes()
triton_linear.install(scratch_limit=64)
with ProcessPoolExecutor(1, mp_context=get_context(METHOD)) as pool:
    theirs = pool.submit(plugin_support.compile_in_worker).result(timeout=60)
ours = plugin_support.is_ours(plugin_support.compile_kernel(num_warps=8))
print(theirs, ours, triton_linear.last_report())
"""


HELD = """
import os, signal, sys, threading
import plugin_support, triton_linear
from triton_linear import hook
from triton_linear.ptxas import output
plugin_support.use_fakes()
triton_linear.install()
held, done = threading.Event(), threading.Event()
def hold():
    with hook._state.pinned(None), hook._state.lock, output.held_back(), output.blocks.lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    shown = sys.stdout
    with output.held_back():
        pass
    triton_linear.install(strict=True)
    ours = plugin_support.compile_in_worker()
    triton_linear.uninstall()
    patched = bool(hook._state.patches)
    os._exit((not ours) + 2 * patched + 4 * isinstance(shown, output._Output))
done.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    """Forked while another thread held our locks, as a compile may when a program starts its workers.

    Nor does it keep Triton patched for that thread.
    """
    done = run(HELD, None)
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_of_a_pool(method: str) -> None:
    """In a process of its own: that of the tests has threads, and is not to be forked."""
    done = run(POOL.replace("METHOD", repr(method)), None)
    assert done.stdout == "True True None\n", done.stderr
    assert count_kernels() == 1
