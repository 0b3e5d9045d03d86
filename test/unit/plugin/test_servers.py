"""The entry points for vLLM and SGLang, loaded as these load them: nothing happens unless `TRITON_LINEAR` asks.

Both ask `importlib.metadata` for the group, load each entry point and call it without arguments, once in each
process, also in processes that are spawned. vLLM does not catch what the call raises.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import triton
from triton.backends import backends

import triton_linear
from triton_linear import fallback

ROOT = Path(__file__).resolve().parents[3]
GROUPS = ("vllm.general_plugins", "sglang.srt.plugins")
LOADER = """
import os, sys
from importlib.metadata import entry_points

def load(group):
    for found in entry_points(group=group):
        if found.name == "triton_linear":
            found.load()()

def is_on():
    if "triton_linear.hook" not in sys.modules:
        return False
    from triton_linear import hook
    return hook._state.active is not None

def child(group, queue):
    load(group)
    import triton
    queue.put(is_on())
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which a distribution has the entry points of pyproject.toml. `says` lets Python start
    without site, which would read the start-up file: packages are on the path as after `pip install --target`.
    """
    folder = tmp_path / "triton_linear-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: triton-linear\nVersion: 0\n")
    text = (ROOT / "pyproject.toml").read_text()
    points = re.findall(r'^\[project\.entry-points\."(.+)"\]\n((?:\w.*\n)+)', text, re.M)
    lines = [f"[{group}]\n" + body.replace('"', "") for group, body in points]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "server.py").write_text(LOADER)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_LINEAR")}
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "src", Path(triton.__file__).parents[1])))
    return {**kept, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path / "cache")}


def says(program: str, variables: dict[str, str]) -> str:
    """What a server prints on both streams; it must not fail."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"from server import *\n{program}"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        cwd=variables["PYTHONPATH"].partition(os.pathsep)[0],
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).strip()


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("value", [None, "", "0", "off"])
def test_unless_it_is_asked_for_nothing_happens(
    group: str, value: str | None, installed: dict[str, str]
) -> None:
    given = {} if value is None else {"TRITON_LINEAR": value}
    program = f"load({group!r}); print(is_on(), 'triton' in sys.modules); import triton; print(is_on())"
    assert says(program, installed | given) == "False False\nFalse"


@pytest.mark.parametrize("group", GROUPS)
def test_asked_for_it_is_on_whenever_triton_comes(group: str, installed: dict[str, str]) -> None:
    before = f"import triton; print(is_on()); load({group!r}); load({group!r}); print(is_on())"
    assert says(before, installed | {"TRITON_LINEAR": "1"}) == "False\nTrue"
    after = f"load({group!r}); print(is_on(), 'triton' in sys.modules); import triton; print(is_on())"
    assert says(after, installed | {"TRITON_LINEAR": "skip=fused_*"}) == "False False\nTrue"


def test_workers_that_are_spawned_have_it(installed: dict[str, str]) -> None:
    program = (
        "import multiprocessing, server\n"
        "context = multiprocessing.get_context('spawn'); queue = context.Queue()\n"
        "worker = context.Process(target=server.child, args=('vllm.general_plugins', queue))\n"
        "worker.start(); print(queue.get(timeout=60)); worker.join()"
    )
    assert says(program, installed | {"TRITON_LINEAR": "1"}) == "True"
    assert says(program, installed) == "False"


def test_what_the_program_has_chosen_stays(installed: dict[str, str]) -> None:
    program = (
        "import triton_linear; from triton_linear import hook\n"
        "triton_linear.install(only='mine'); load('vllm.general_plugins')\n"
        "print(hook._state.active.options.only); triton_linear.uninstall(); load('vllm.general_plugins')\n"
        "print(is_on())"
    )
    assert says(program, installed | {"TRITON_LINEAR": "1"}) == "mine\nFalse"


def test_a_word_that_is_wrong_is_one_warning(installed: dict[str, str]) -> None:
    program = "load('vllm.general_plugins'); import triton; load('vllm.general_plugins'); print(is_on())"
    said = says(program, installed | {"TRITON_LINEAR": "fastest"})
    assert said.startswith("False")
    assert said.count("EnvironmentWarning") == 1 and "fastest" in said


def test_a_backend_without_layouts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable chooses it and Triton has it. Stock Triton has not, and knows no such variable."""
    fallback._warn_of_tiles.cache_clear()
    monkeypatch.setenv("ENABLE_TILE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with triton_linear.enabled():
            pass
    monkeypatch.setitem(backends, "tileir", backends["nvidia"])
    with (
        pytest.warns(triton_linear.LimitWarning, match="ENABLE_TILE=1 has CUDA Tile IR compile"),
        triton_linear.enabled(),
    ):
        pass
