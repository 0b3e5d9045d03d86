"""A Triton that is no release: refused, tried out, and then taken; and what is said where it differs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
from fuzz_support import break_code
from plugin_processes import STARTUP

from triton_linear.dialect import triton_versions, verdicts
from triton_linear.dialect.triton_versions import COPIES_DROPPED, installed_release
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools import cli
from triton_linear.tools.doctor import command, conversions
from triton_linear.tools.doctor.command import PROBES, Calls, Counts, Difference, Findings, Probe, isolated
from triton_linear.tools.support.isolated import Isolation, Lost, note

RULES = ".".join(map(str, installed_release()))
IS_NEWEST = installed_release() == triton_versions.KNOWN[-1]
NIGHTLY = "3.10.0+gitdeadbeef" if IS_NEWEST else f"{RULES}.99+gitdeadbeef"
"""A version by the rules of the installed one."""
SCRIPT = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def transpose(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.load(x + i * N + j).trans())

source = ASTSource(transpose, {"x": "*i8", "out": "*i8", "N": "constexpr"}, constexprs={"N": 64})
print(len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]) > 0)
import sys
report = sys.modules["triton_linear.report"].last_report() if "triton_linear.report" in sys.modules else None
print(report and (report.outcome.value, report.ours))
"""


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Triton of a later version, which is the installed one in all but its name."""
    folder = tmp_path_factory.mktemp("nightly")
    (folder / "triton").mkdir()
    for path in Path(triton.__path__[0]).iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (folder / "triton" / path.name).symlink_to(path)
    text = Path(triton.__path__[0], "__init__.py").read_text()
    text = re.sub(r"^__version__ = .*", f"__version__ = '{NIGHTLY}'", text, flags=re.MULTILINE)
    (folder / "triton" / "__init__.py").write_text(text)
    return folder


def run(arguments: list[str], cache: Path, *path: Path, **variables: str) -> Any:
    """A fresh Python with a cache of its own and folders first on its path."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_HOME", "TRITON_LINEAR")}
    inherited = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*map(str, path), *inherited)))
    environment |= {"XDG_CACHE_HOME": str(cache), "TRITON_CACHE_DIR": str(cache / "triton"), **variables}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=280
    )


def doctor(cache: Path, *path: Path, arguments: tuple[str, ...] = ("--quick",)) -> Any:
    return run(["-m", "triton_linear.tools.cli", "doctor", *arguments], cache, *path)


def test_a_nightly_is_refused_tried_out_taken_and_forgotten(nightly: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def compiled() -> Any:
        return run([str(script)], tmp_path, STARTUP, nightly, TRITON_LINEAR="1", TRITON_ALWAYS_COMPILE="1")

    refused = compiled()
    assert refused.stdout == "True\nNone\n", refused.stderr
    assert len(re.findall(r"triton_linear is off: .*run 'triton-linear doctor'", refused.stderr)) == 1

    tried = doctor(tmp_path, nightly)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert tried.stdout.startswith(f"triton {NIGHTLY} in {nightly / 'triton'}: by the rules of {RULES}\n")
    lines = re.findall(r"^([a-z ]+): .*: (\d+) cases, none differs; \d", tried.stdout, re.MULTILINE)
    assert [name for name, _ in lines] == [each.name for each in PROBES]
    assert all(int(cases) for _, cases in lines)
    assert tried.stdout.endswith(f"it keeps to the rules of {RULES}\n")

    taken = compiled()
    assert taken.stdout == "True\n('converted', 1)\n", taken.stderr
    assert "triton_linear" not in taken.stderr
    version = run(["-m", "triton_linear.tools.cli", "status"], tmp_path, nightly).stdout
    assert f"by 'triton-linear doctor', run quickly, it keeps to the rules of {RULES}" in version
    assert "linear-select-lowering" in version

    assert doctor(tmp_path, nightly, arguments=("--forget",)).stdout == "1 verdict removed\n"
    assert compiled().stdout == "True\nNone\n"


@pytest.mark.skipif(installed_release() not in COPIES_DROPPED, reason="the rule is broken for this release")
def test_a_rule_that_does_not_hold_is_found_and_its_encodings_named(nightly: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from triton_linear.dialect import triton_versions as v\nv.COPIES_DROPPED = v.Span((98, 0))\n"
    )
    done = doctor(tmp_path, tmp_path, nightly, arguments=("--quick", "--probe", "encodings"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(
        r"^  blocked, \d+ of its cases, the first one:\n    #ttg\.blocked<", done.stdout, re.MULTILINE
    )
    assert re.search(
        r"^    Triton says \{'register': .*, this package \{'register': ", done.stdout, re.MULTILINE
    )
    assert done.stdout.endswith("1 of 1 probes differ\n")
    assert not (tmp_path / "triton-linear").exists()


def test_older_ones_are_not_tried(tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '3.5.1'\n")
    done = doctor(tmp_path, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: found Triton 3.5.1; triton_linear works with ")


# Calls that are lost


def test_a_crash_is_said_to_differ_and_ends_nothing_else() -> None:
    found = isolated("os:abort", [()], 1)
    assert found.differences == [Difference("crash", "before the first case", "ended by SIGABRT")]
    (raised,) = isolated("os:no_such_function", [()], 1).differences
    assert raised.description.startswith("AttributeError: ")


def test_a_crash_names_the_case_that_was_tried() -> None:
    found = command._crash(Lost("ended by SIGABRT", "blocked: #ttg.blocked<{}> of 4x4"))
    assert found.differences == [Difference("blocked", "#ttg.blocked<{}> of 4x4", "ended by SIGABRT")]


def _ends() -> None:
    note("first: 1")
    note("second: 2")
    os.write(2, b"x.cpp:3: Assertion failed\n")
    os.abort()


def test_what_was_noted_last_is_known_of_a_call_that_is_lost() -> None:
    isolation: Isolation[None] = Isolation(_ends, [], 60, 8 << 30)
    assert isolation.call() == Lost("ended by SIGABRT: x.cpp:3: Assertion failed", "second: 2")


def test_the_first_case_of_each_kind_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Findings()
    for kind, case, said in (("a", "1", None), ("a", "2", "two"), ("b", "3", "three"), ("a", "4", "four")):
        found.compare(kind, case, lambda said=said: said)  # type: ignore[misc]
    found.compare("c", "5", lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert found.cases == 5
    assert [each.case for each in found.first_of_each()] == ["2", "3", "5"]
    assert found.differences[-1].description.startswith("ZeroDivisionError")
    monkeypatch.setattr(Probe, "run", lambda *_: found)
    asked = list(command.run_probes([Probe("name", "what", "here", "", lambda _: ())], command.QUICK))
    assert asked[0][1] is found
    assert re.fullmatch(r"name: what: 5 cases, 4 DIFFER; 0\.0 s\n", capsys.readouterr().out)


def test_a_probe_that_cannot_be_asked_differs() -> None:
    def fails(counts: Counts) -> Calls:
        raise ImportError("no such binding")

    ((_, found),) = command.run_probes([Probe("name", "what", "here", "", fails)], command.QUICK)
    assert found.differences[0].description == "ImportError: no such binding"


@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942"])
def test_random_conversions_are_right(name: str) -> None:
    found = conversions.run(name, 8, 3)
    assert (found.cases, found.differences) == (8, [])


def test_conversions_that_are_broken_on_purpose_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    break_code(monkeypatch, lambda text: re.sub(r"xor (%\S+), (%\S+) ", r"or \1, \2 ", text))
    found = conversions.run("cuda:90", 12, 1)
    assert found.cases == 12 and found.differences
    assert all(re.search(r"[1-9]\d* wrong of \d+", each.description) for each in found.differences)


def test_conversions_that_are_left_to_triton_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "LOWERING", PipelineOptions(assign=False, reductions=False, lower=False))
    found = conversions.run("cuda:90", 12, 1)
    assert found.cases == 12 and found.differences
    assert all("left to Triton" in each.description for each in found.differences)


def test_where_stock_triton_fails_on_most_conversions_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "is_taken", lambda text, gpu: False)
    found = conversions.run("cuda:90", 2, 1)
    difference = Difference("conversion for cuda:90", "seed 1", "stock Triton refuses most")
    assert (found.cases, found.differences) == (0, [difference])


def test_probes_are_called_by_name() -> None:
    assert command.named(cli.parser().parse_args(["doctor"]).probe) is PROBES
    given = cli.parser().parse_args(["doctor", "--probe", "examples", "--probe", "hooks"]).probe
    assert [each.name for each in command.named(given)] == ["hooks", "examples"]
    with pytest.raises(Exception, match="no 'hoks'; did you mean 'hooks'"):
        command.named(["hoks"])


# Verdicts


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A libtriton of a few bytes, of a nightly, and a cache of its own."""
    path = tmp_path / "triton" / "_C" / "libtriton.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"one")
    monkeypatch.setattr(verdicts, "libtriton", lambda: path)
    monkeypatch.setattr(triton, "__version__", NIGHTLY)
    monkeypatch.delenv("TRITON_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield path


def verdict_about(path: Path, passed: bool = True) -> verdicts.Verdict:
    seen = (verdicts.Library.at(path),)
    digest = verdicts.sha256(path)
    return verdicts.Verdict(NIGHTLY, RULES, digest, verdicts.source_digest(), passed, False, seen)


def test_a_verdict_is_kept_and_read(library: Path) -> None:
    assert verdicts.kept() is None
    with pytest.raises(triton_versions.UnsupportedTriton, match="to try this one out"):
        triton_versions.require()
    file = verdicts.keep(verdict_about(library))
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert verdicts.kept() == verdict_about(library)
    triton_versions.require()
    verdicts.keep(verdict_about(library, passed=False))
    with pytest.raises(triton_versions.UnsupportedTriton, match=f"found that it differs from {RULES}"):
        triton_versions.require()


def test_a_library_that_is_as_it_was_is_not_hashed(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts.keep(verdict_about(library))
    monkeypatch.setattr(verdicts, "sha256", lambda path: pytest.fail("hashed"))
    triton_versions.require()


def test_the_same_library_elsewhere_is_hashed_once(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts.keep(verdict_about(library))
    other = tmp_path / "other.so"
    other.write_bytes(library.read_bytes())
    monkeypatch.setattr(verdicts, "libtriton", lambda: other)
    triton_versions.require()
    monkeypatch.setattr(verdicts, "sha256", lambda path: pytest.fail("hashed"))
    triton_versions.require()


def test_another_library_version_or_source_has_no_verdict(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts.keep(verdict_about(library))
    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "source_digest", lambda: "0" * 64)
        assert verdicts.kept() is None
    with monkeypatch.context() as patch:
        patch.setattr(triton, "__version__", "3.11.0")
        with pytest.raises(triton_versions.UnsupportedTriton):
            triton_versions.require()
    library.write_bytes(b"two")
    os.utime(library, ns=(1, 1))
    assert verdicts.kept() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"text"', '{"libraries": 1}', "null", "\udcff"])
def test_a_damaged_file_is_no_verdict(library: Path, text: str) -> None:
    file = verdicts.keep(verdict_about(library))
    file.write_bytes(text.encode(errors="surrogateescape"))
    assert verdicts.kept() is None
    data = json.loads(json.dumps({"passed": "yes"}))
    file.write_text(json.dumps(data))
    assert verdicts.kept() is None
    verdicts.keep(verdict_about(library))
    assert verdicts.kept() is not None


def test_a_verdict_is_forgotten_whoever_made_it(library: Path) -> None:
    verdicts.keep(verdict_about(library))
    assert (verdicts.forget(), verdicts.forget()) == (1, 0)
    assert verdicts.kept() is None


def test_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert verdicts.folder() == Path("/home/me/.cache/triton-linear")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert verdicts.folder() == Path("/cache/triton-linear")
    monkeypatch.setenv("TRITON_HOME", "/triton")
    assert verdicts.folder() == Path("/triton/.triton/triton-linear")


def test_tested_releases_ask_for_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kept", "sha256", "libtriton"):
        monkeypatch.setattr(verdicts, name, lambda *_: pytest.fail("asked for"))
    triton_versions.require()


def test_every_family_of_encodings_has_a_process_of_its_own() -> None:
    from triton_linear.tools.doctor.command import ENCODING_PARTS
    from triton_linear.tools.doctor.encodings import Cases, Oracle

    assert len(Cases(Oracle(), 1).families) <= ENCODING_PARTS


def test_a_family_that_cannot_be_drawn_differs_and_others_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_linear.tools.doctor import encodings

    def fails(family: str, count: int, seed: int) -> Findings:
        if family == "blocked":
            raise TypeError("another signature")
        return Findings(count)

    monkeypatch.setattr(encodings, "compared_family", fails)
    found = encodings.compared(0, 2, 3, 1)
    assert found.differences == [Difference("blocked", "drawing it", "TypeError: another signature")]
    assert found.cases > 3
