"""What docstrings and documents show as code runs, and gives what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import itertools
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from triton_linear import environment
from triton_linear.lowering.target.targets import TARGETS
from triton_linear.tools import cli
from triton_linear.tools.opt import arguments as opt_arguments

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {
    "dialect": "triton_linear.dialect",
    "passes": "triton_linear.passes",
    "lowering": "triton_linear.lowering",
    "plugin": "triton_linear",
    "tools": "triton_linear.tools",
    "examples": "triton_linear.examples",
    "gluon": "triton_linear.gluon",
}


def modules_with_doctests() -> list[str]:
    names = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE):
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                names.append(".".join((package, *(part for part in parts if part != "__init__"))))
    return names


@pytest.mark.parametrize("name", modules_with_doctests())
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("document", ["algebra.md", "lowerings.md", "policy.md"])
def test_documents(document: str) -> None:
    result = doctest.testfile(str(ROOT / "docs" / "builders" / document), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("document", ["gluon.md"])
def test_code_of_documents(document: str) -> None:
    """Its blocks, one after the other: what they assert holds, and they print what their comments say."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / document).read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) > 3
    names: dict[str, object] = {}
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, document, "exec"), names)
        said = [line.removeprefix("# ").rstrip() for line in block.splitlines() if line.startswith("# ")]
        assert all(line in printed.getvalue() for line in said), printed.getvalue()


DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "bench").rglob("*.md")),
]

# A block of code with its language and the file that it is to be saved as, if it is.
BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<body>.*?)^```$', re.DOTALL | re.MULTILINE
)


def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Followed from top to bottom: Python is one session, commands run beside it, and what they print is what
    the block of text behind them says, where `...` stands for anything. Pictures come out as committed."""
    user_environment(tmp_path, monkeypatch)
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    names: dict[str, object] = {}
    printed, checked, variables = "", 0, ""
    for language, file, body in BLOCK.findall(tutorial):
        if file:
            Path(file).write_text(body)
        elif language == "python":
            session = io.StringIO()
            with contextlib.redirect_stdout(session):
                exec(compile(body, "tutorial.md", "exec"), names)
            printed = session.getvalue()
        elif language == "sh":
            printed = run(variables + body)
            variables += "".join(re.findall(r"^[A-Z]+=.*\n", body, re.MULTILINE))
        else:
            assert language == "text"
            said, given = body.strip("\n") + "\n", printed.strip("\n") + "\n"
            assert doctest.OutputChecker().check_output(said, given, doctest.ELLIPSIS), given
            checked += 1
    assert checked > 10
    pictures = re.findall(r"\(img/(tutorial-\w+\.svg)\)", tutorial)
    assert sorted(pictures) == sorted(path.name for path in tmp_path.glob("*.svg"))
    assert sorted(pictures) == sorted(path.name for path in (ROOT / "docs" / "img").glob("tutorial-*"))
    for picture in pictures:
        assert texts(tmp_path / picture) == texts(ROOT / "docs" / "img" / picture), picture


def test_the_script_of_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs without a GPU, the commands behind it take what it writes, and `explain` says of it what
    docs/explain.md shows."""
    user_environment(tmp_path, monkeypatch)
    page = (ROOT / "docs" / "commands.md").read_text()
    Path("script.py").write_text(script_of(page))
    reports = run("python script.py")
    assert re.match(r"transpose for cuda:90: converted; 1 conversion: 1 ours", reports), reports
    for lowering in ("", "--lowering=stock"):
        assert f"triton-linear verify transpose.ttgir {lowering or '--target cuda:90'}" in page
    assert "1 conversion verified, 0 wrong" in run("triton-linear verify transpose.ttgir --target cuda:90")
    assert "1 conversion: 1 right" in run("triton-linear verify transpose.ttgir --lowering=stock")
    assert "st.shared" in run("triton-linear-opt transpose.ttgir --linear-pipeline --emit=ptx")
    before = Path("transpose.ttgir").read_text().partition("ttg.convert_layout")[0]
    view = f"triton-linear view transpose.ttgir:{before.count(chr(10)) + 1} -o conversion.html"
    assert view in page
    run(view)
    assert Path("conversion.html").read_text().startswith("<!DOCTYPE html>")
    shown = (ROOT / "docs" / "explain.md").read_text().partition("$ triton-linear explain script.py\n")[2]
    assert run("triton-linear explain script.py") == shown.partition("```")[0]


def test_the_report_that_the_document_of_the_plugin_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of the script without its lines about the package; times and folders differ."""
    user_environment(tmp_path, monkeypatch)
    script = script_of((ROOT / "docs" / "commands.md").read_text())
    plain = re.sub(
        r"^(import triton_linear|with triton_linear|for report|    print).*\n", "", script, flags=re.M
    )
    assert "triton_linear" not in plain
    Path("script.py").write_text(re.sub(r"^    (source|kernel) =", r"\1 =", plain, flags=re.M))
    said = (
        (ROOT / "docs" / "plugin.md").read_text().partition("$ python -m triton_linear --report script.py\n")[2]
    )
    said = re.sub(r"\d+\.\d\b", "N", said.partition("```")[0]).replace("/home/me/", "")
    printed = run("python -m triton_linear --report script.py 2>&1").replace(f"{Path.cwd()}/", "")
    assert re.sub(r"\d+\.\d\b", "N", printed) == said


SERVER = """
import multiprocessing, os, runpy, sys
from importlib.metadata import entry_points

def load():
    for found in entry_points(group={group!r}):
        if found.name == "triton_linear":
            found.load()()

def work():
    load()
    import triton
    runpy.run_path({kernel!r})

if __name__ == "__main__":
    load()
    worker = multiprocessing.get_context("spawn").Process(target=work)
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
"""
"""What servers do of what the page about them says: they load plugins, also in a worker, which compiles."""


def test_the_page_of_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands from top to bottom in one shell, with servers that only compile one kernel without a GPU."""
    user_environment(tmp_path, monkeypatch)
    kernel = re.sub(
        r"^(import triton_linear|with triton_linear|for report|    print|with open|    file).*\n",
        "",
        script_of((ROOT / "docs" / "commands.md").read_text()),
        flags=re.M,
    )
    Path("kernel.py").write_text(re.sub(r"^    (source|kernel) =", r"\1 =", kernel, flags=re.M))
    for name, group in (("vllm", "vllm.general_plugins"), ("sglang", "sglang.srt.plugins")):
        Path(name).mkdir()
        text = SERVER.format(group=group, kernel=str(tmp_path / "kernel.py"))
        Path(name, "launch_server.py").write_text(text)
    Path("bin").mkdir()
    Path("bin", "vllm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vllm.launch_server "$@"\n')
    Path("bin", "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    page = (ROOT / "docs" / "servers.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.M)
    assert len(blocks) == 4
    printed = run("MODEL=mine\n" + "".join(blocks))
    assert re.search(r"^transpose +cuda:90 +1 +1 ", printed, re.M), printed
    assert re.search(r"^1 kernels, .* MiB, packed into kernels\.tar\.gz$", printed, re.M), printed
    json.loads(re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.M)[0])


PAGES = [path for path in DOCUMENTS if path.name != "CHANGELOG.md" and "results" not in path.parts]
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_is_shown_is_taken(path: Path) -> None:
    """Commands of this package parse, with all their options; values of the variable are read; Python and JSON
    are no other language. What runs without a GPU, others run."""
    for language, body in FENCED.findall(path.read_text()):
        if language == "python" and not body.startswith(">>>"):
            compile(body, path.name, "exec")
        elif language == "json":
            json.loads(body)
        elif language in ("", "sh", "console"):
            for line in body.replace("\\\n", " ").splitlines():
                assert_taken(line)


def assert_taken(line: str) -> None:
    """The command on a line, if it is one of this package's, is no wrong command line."""
    if not re.match(r"(\$ )?([A-Z_]+=\S+ )*(triton-linear\S*|TRITON_LINEAR=)", line) or re.search(
        r" \[|\$\(", line
    ):
        return  # printed text, or a form with parts that may be left out
    words = shlex.split(line.removeprefix("$ "), comments=True)
    while "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        if name == "TRITON_LINEAR":
            environment.parse(value)
    command = list(itertools.takewhile(lambda word: word not in ("|", ">", ";", "&&"), words[1:]))
    try:
        if words[0] == "triton-linear":
            assert cli.parser().parse_known_args(command)[1] == [], line
        elif words[0] == "triton-linear-opt":
            opt_arguments.parse_arguments(command)
    except SystemExit as ended:
        assert ended.code == 0, line


def script_of(page: str) -> str:
    """The script that commands are tried on."""
    return next(body for _, file, body in BLOCK.findall(page) if file == "script.py")


@pytest.mark.parametrize("page", ["diff.md", "view.md"])
def test_what_commands_are_said_to_print(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what they print; `...` stands for anything, also at the end."""
    user_environment(tmp_path, monkeypatch)
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```\n\$ (triton-linear [^\n]*)\n(.*?)^```$", text, re.DOTALL | re.M)
    assert blocks
    for command, shown in blocks:
        given = run(f"cd {ROOT} && {command}")
        said = shown.removesuffix("...\n") + "...\n"
        assert doctest.OutputChecker().check_output(said, f"{given}\n", doctest.ELLIPSIS), given


def test_the_example_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `diff` prints of it, and the time that a page of results has."""
    user_environment(tmp_path, monkeypatch)
    readme = (ROOT / "README.md").read_text()
    ((command, shown),) = re.findall(r"^\$ (triton-linear diff [^\n]*)\n(.*?)^```$", readme, re.DOTALL | re.M)
    given = run(f"cd {ROOT} && {command}")
    assert doctest.OutputChecker().check_output(shown, given, doctest.ELLIPSIS), given
    assert "better" in shown
    page = (ROOT / "bench/results/3.9.0/contested/kernels.md").read_text()
    before, ratio = re.search(r"^\| int4_matmul \| ([\d.]+) \| ([\d.]+) ", page, re.M).groups()
    said = f"{before} µs become {float(before) / float(ratio):.1f}](bench/results/3.9.0/contested/kernels.md)"
    assert said in readme and f"{float(ratio):.2f} times as fast" in readme


def user_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, an empty cache, and this environment's commands."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def run(commands: str) -> str:
    """What a shell prints; it must succeed."""
    done = subprocess.run(["bash", "-euc", commands], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def texts(picture: Path) -> list[str]:
    """What is written in a picture, from place to place."""
    svg = "{http://www.w3.org/2000/svg}"
    return ["".join(text.itertext()) for text in ElementTree.parse(picture).iter(f"{svg}text")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []


def test_every_document_is_linked() -> None:
    """From docs/documents.md by one step or two. The reference and the results are lists of the site's own."""
    index = ROOT / "docs" / "documents.md"
    reached = linked(index) | {index}
    reached |= {page for document in reached for page in linked(document)}
    pages = {path for path in DOCUMENTS if not {"api", "results"} & set(path.relative_to(ROOT).parts)}
    assert sorted(pages - reached) == []


def linked(path: Path) -> set[Path]:
    """The documents that one links to."""
    return {
        (path.parent / link).resolve()
        for link in re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", path.read_text())
        if "://" not in link
    }


def test_the_readme_lists_each_gpu() -> None:
    limits = (ROOT / "README.md").read_text().partition("\n## Limits\n")[2]
    for name in TARGETS:
        vendor, _, called = name.partition(":")
        word = f"{called[:-1]}.{called[-1]}" if vendor == "cuda" else called
        assert re.search(rf"\b{re.escape(word)}\b", limits), name


def test_the_figures_of_the_readme() -> None:
    """Each row is what the results say that it names."""
    results = ROOT / "bench" / "results" / "3.9.0"

    def cases(file: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((results / file).read_text())["cases"]
        return found

    def launches(file: str, contest: bool) -> list[tuple[str, list[float]]]:
        measured = [
            (one["case"], each)
            for one in cases(file)
            for each in (one.get("measured") or {}).get("kernels", [])
        ]
        sides = [
            (case, each.get("beside", {}).get("contest", {}) if contest else each) for case, each in measured
        ]
        return [(case, side["ratio"]) for case, side in sides if "ratio" in side]

    def row(count: str, ratios: Iterable[list[float]]) -> str:
        """The cells of a row: how many, mean, least and most, and how many are surely below 0.98."""
        lows, middles, highs = zip(*ratios, strict=True)
        mean = math.exp(math.fsum(map(math.log, middles)) / len(middles))
        shown = [
            f"{one:.{0 if one > 10 else 1 if one > 2 else 2}f}" for one in (mean, min(middles), max(middles))
        ]
        shown[0] = f"{mean:.3f}" if mean < 1.02 else shown[0]
        below = sum(one < 0.98 for one in highs)
        return f"| {len(lows)} {count} | {shown[0]} | {shown[1]}, {shown[2]} | {below} |"

    steps, models = launches("serving-steps.json", True), cases("contested/models.json")
    kernels = [one for one in cases("contested/kernels.json") if not re.search(r"_\d+(x\d+)+$", one["name"])]
    readme = (ROOT / "README.md").read_text()
    for found in (
        row("steps", [ratio for case, ratio in steps if "int4" in case]),
        row("steps", [ratio for case, ratio in steps if "int4" not in case]),
        row("steps", [one["step"]["ratio"]["free"] for one in models if "step" in one]),
        row("launches", [ratio for _, ratio in launches("serving.json", True)]),
        row("launches", [ratio for _, ratio in launches("contested/foreign.json", True)]),
        row("kernels", [one["modes"]["contest"]["ratio"] for one in kernels]),
        row("launches", [ratio for _, ratio in launches("serving.json", False)]),
    ):
        assert found in readme, found


def test_the_picture_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the command that the README names draws."""
    user_environment(tmp_path, monkeypatch)
    page = (ROOT / "docs" / "view.md").read_text()
    (command,) = re.findall(r"^triton-linear view '#ttg(?:.*\\\n)*.*$", page, re.M)
    run(command)
    assert texts(tmp_path / "conversion.svg") == texts(ROOT / "docs" / "img" / "conversion.svg")


def test_the_targets_of_make_are_documented() -> None:
    """`make help` has those that there are; README has the two to begin with."""
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    targets = set(phony.split()) - {"help", "environment"}
    assert set(re.findall(r'^\t@echo "make (\w+)', makefile, re.M)) == targets
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"`make (\w+)`", contributing)) <= {"help", *targets}
    assert set(re.findall(r"^make (\w+) +#", (ROOT / "README.md").read_text(), re.M)) == {"demo", "test"}
    assert set(re.findall(r"`([A-Z]+)=", contributing)) <= set(re.findall(r"^#   ([A-Z]+)=", makefile, re.M))


def test_the_workflow_makes_what_there_is() -> None:
    """What it runs are targets of make, on each Python that 3.9.0 has a wheel for."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    made = re.findall(r"- run: make (\w+)", workflow)
    assert {"lint", "test", "matrix", "docs", "wheel"} == set(made) <= set(phony.split())
    (pythons,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.M)
    assert pythons == '"3.11", "3.12", "3.13"'


def test_every_result_has_its_command() -> None:
    """bench/README.md has each page under bench/results."""
    page = (ROOT / "bench" / "README.md").read_text()
    results = {path.name for path in (ROOT / "bench" / "results").rglob("*.md")}
    assert sorted(name for name in results if name not in page) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_and_files_that_are_named_are_there(path: Path) -> None:
    """Those that `python` runs, and Python files of this package by their place in it."""
    text = " ".join(path.read_text().split())
    for module in re.findall(r"python -m (bench(?:\.\w+)*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for file in re.findall(r"`(test_[\w*]+\.py)`", text):
        assert any((ROOT / "test" / "unit").rglob(file)), file
    for file in re.findall(r"python ((?:bench|test|examples|docs)/[\w/]+\.py)", text):
        assert (ROOT / file).exists(), file
    for file in re.findall(
        r"`((?:dialect|lowering|passes|plugin|tools|gluon|examples|bench)/[\w/]+\.\w+)`", text
    ):
        assert (ROOT / file).exists(), file


def test_the_tests_that_show_faults_are_there() -> None:
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "faults.md").read_text())
    assert len(named) > 20
    texts = [path.read_text() for path in (ROOT / "test" / "unit").rglob("test_*.py")]
    for test in named:
        assert sum(f"def {test}(" in text for text in texts) == 1, test
