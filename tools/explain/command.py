"""`triton-linear explain`: why each conversion of a kernel is there, how it is done and what it costs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from triton_linear.tools.errors import Diagnostic, Printer, ToolError, fail
from triton_linear.tools.explain.gate import Condition
from triton_linear.tools.explain.gather import explained
from triton_linear.tools.explain.measure import check_script, measured
from triton_linear.tools.explain.records import Measured, ModuleReport
from triton_linear.tools.explain.render import WIDTH, as_html, show
from triton_linear.tools.launches import digest
from triton_linear.tools.progress import told


def run(arguments: argparse.Namespace) -> int:
    """Explain what was named; the exit status is 1 where something is wrong or a condition holds."""
    conditions = [Condition.parse(text) for text in arguments.fail_on]
    if arguments.top is not None and arguments.top < 0:
        fail(f"top: {arguments.top} is negative")
    times: dict[str, tuple[Measured, ...]] | None = None
    if arguments.measure:
        check_script(arguments.what)
        with told("timing the kernels of the script"):
            times = measured(arguments.what, arguments.arguments)
    reports: list[ModuleReport] = []
    failed = False
    for name, text in modules(arguments.what, arguments.arguments):
        arguments.sources[name] = text
        try:
            with told(f"explaining {name}"):
                report = explained(text, name, arguments.target, stock=arguments.stock)
            reports.append(replace(report, measured=None if times is None else times.get(digest(text), ())))
        except ToolError as error:
            failed = True
            printer = Printer(arguments.sources)
            for diagnostic in error.diagnostics or [Diagnostic("error", "the passes failed", name)]:
                printer.print(diagnostic)
    if not reports and not failed:
        script = Path(arguments.what).suffix == ".py"
        fail("the script compiled no kernel" if script else "no TTGIR module was found", arguments.what)
    if arguments.html is not None:
        _write(arguments.html, as_html(reports, arguments.top))
    if arguments.json:
        print(json.dumps({"modules": [report.as_json() for report in reports]}, indent=2))
    else:
        console = Console()
        show(console if console.is_terminal else Console(width=WIDTH), reports, arguments.top)
    for condition in conditions:
        if condition.met(reports):
            failed = True
            print(
                Diagnostic("error", f"fail-on: {condition.text}: it is {condition.value(reports)}"),
                file=sys.stderr,
            )
    wrong = any(c.figures and (c.figures.wrong or c.figures.races) for r in reports for c in r.conversions)
    return int(failed or wrong)


def modules(what: str, arguments: list[str]) -> Iterator[tuple[str, str]]:
    """(name, text) of each module named. A script's modules are those that it leaves in an empty cache."""
    path = Path(what)
    if what != "-" and path.suffix != ".py" and arguments:
        fail(f"arguments are for a script: {' '.join(arguments)}")
    if not what:
        fail("cannot open input file '': No such file or directory")
    if what == "-":
        yield "<stdin>", sys.stdin.read()
    elif path.is_dir():
        yield from _in_folder(path)
    elif path.suffix == ".py":
        with tempfile.TemporaryDirectory(prefix="triton-linear-") as cache:
            status = _run_script(path, arguments, cache)
            yield from ((Path(name).name, text) for name, text in _in_folder(Path(cache)))
        if status:
            fail(f"the script ended with status {status}", str(path))
    else:
        yield what, _read(path)


def _in_folder(folder: Path) -> Iterator[tuple[str, str]]:
    """Each different module in a folder, by name."""
    seen: set[str] = set()
    for file in sorted(folder.rglob("*.ttgir"), key=lambda file: (file.name, str(file))):
        text = _read(file)
        if text not in seen:
            seen.add(text)
            yield str(file), text


def _run_script(path: Path, arguments: list[str], cache: str) -> int:
    """Run a script with an empty cache; what it prints goes to the standard error stream."""
    if not path.is_file():
        fail("cannot open input file: No such file or directory", str(path))
    environment = {**os.environ, "TRITON_CACHE_DIR": cache}
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.run(
        [sys.executable, os.path.abspath(path), *arguments], env=environment, stdout=2, check=False
    ).returncode


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot open input file: {error.strerror}", str(path))
    except UnicodeDecodeError:
        fail("input file is not UTF-8 text", str(path))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write output file: {error.strerror}", str(path))
