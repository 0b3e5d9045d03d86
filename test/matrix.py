"""Runs what Triton decides (bridge, encodings, plugin, demo) on the other Tritons, and prints a table.

Each row has an environment of its own in `.venvs/`, made on first use and renewed when pyproject.toml changes,
by the Python that the row names or, where there is none of that version, by the one that runs this. The exit
status is 1 if a row fails, or takes too long.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from run import ROOT, tally

_EVERYWHERE = (
    "bridge",
    "encodings*",
    "assign_local",
    "assign_memory",
    "assign_reductions",
    "assign_shapes",
    "defer",
    "load_*",
    "reductions*",
    "versions*",
)
UNITS = (*_EVERYWHERE, "algebra_against_triton", "examples", "functions", "plugin*", "simulate_function")
"""What depends on Triton at all."""
ALIKE = (*_EVERYWHERE, "plugin_compiles", "plugin_one_warp", "plugin_passes", "plugin_autotune*")
"""What a release decides on its own."""
BETWEEN = (
    *(*ALIKE, "algebra_against_triton", "examples", "functions", "simulate_function"),
    *("plugin", "plugin_caches", "plugin_failures", "plugin_gluon"),
)
"""What the releases before and after one do not settle."""
READ = ("bridge", "encodings*", "plugin_compiles", "plugin_one_warp", "versions*")
"""What shows that modules are read, and compiled again."""
ROWS = (("3.6.0", "3.11", UNITS), ("3.7.0", "3.13", READ), ("3.7.1", "3.10", ALIKE), ("3.8.0", "3.12", BETWEEN))
"""Triton, Python and tests of each row; the whole suite runs on the reference version, the demo there and on
the oldest one. 3.7.0 differs from 3.7.1 in a helper of Gluon's alone."""
FUZZ = ("--count", "300", "--target", "all", "--seed", "1", "--shrink", "0")
INSTALL_SECONDS, TEST_SECONDS, DEMO_SECONDS = 420, 600, 180


def interpreter(version: str) -> str:
    """A Python of this version, else the one that runs this."""
    candidates = [
        shutil.which(f"python{version}"),
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
    ]
    for candidate in filter(None, candidates):
        asked = subprocess.run([candidate, "-c", _VERSION], capture_output=True, text=True, check=False)
        if asked.stdout.strip() == version:
            return str(candidate)
    return sys.executable


_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def stopped(command: Sequence[str], seconds: int, log: Path, environment: dict[str, str]) -> str:
    """Why a command failed, "" if it did not; what it prints is in `log`, and its children end with it."""
    with log.open("w") as file:
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=file, start_new_session=True
        )
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            return f"stopped after {seconds} s"
        except BaseException:
            os.killpg(child.pid, 9)
            raise
    return f"exit status {status}" if status else ""


def row(triton: str, python: str, units: Sequence[str], jobs: int, logs: Path) -> tuple[str, ...]:
    """The cells of a row; the last one is why it failed."""
    start = time.monotonic()
    found = interpreter(python)
    asked = subprocess.run([found, "-c", _VERSION], capture_output=True, text=True, check=True)
    python = asked.stdout.strip()
    folder = ROOT / ".venvs" / f"triton-{triton}-python-{python}"
    scripts = folder / "bin"
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    environment |= {"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_CACHE_DIR": str(logs / f"cache-{triton}")}
    make = ["make", "environment", f"VENV={folder}", f"PYTHON={found}", f"TRITON={triton}", "EXTRAS=test"]
    log = logs / f"{triton}.log"
    if reason := stopped(make, INSTALL_SECONDS, log, environment):
        return _failed(triton, python, log, f"environment: {reason}", start)
    files = sorted(str(path) for name in units for path in (ROOT / "test" / "unit").rglob(f"test_{name}.py"))
    report = logs / f"{triton}.xml"
    tests = [str(scripts / "python"), "-m", "pytest", "-n", str(jobs), f"--junit-xml={report}", *files]
    reason = stopped(tests, TEST_SECONDS, log, environment)
    passed, failed, skipped = tally(report, int(bool(reason)))
    counts = f"{passed} passed, {failed} failed, {skipped} skipped"
    if reason:
        return _failed(triton, python, log, f"tests: {reason}", start, counts)
    demo = [str(scripts / "python"), "-m", "triton_linear.tools.demo", "--output", str(logs / f"demo-{triton}")]
    if units is UNITS and (reason := stopped(demo, DEMO_SECONDS, log, environment)):
        return _failed(triton, python, log, f"demo: {reason}", start, counts)
    fuzz = [str(scripts / "python"), "-m", "bench.fuzz", *FUZZ, "--jobs", str(jobs)]
    if reason := stopped([*fuzz, "--failures", str(logs / "fuzz")], DEMO_SECONDS, log, environment):
        return _failed(triton, python, log, f"fuzz: {reason}", start, counts)
    return triton, python, counts, "passed", f"{time.monotonic() - start:.0f} s", ""


def _failed(
    triton: str, python: str, log: Path, reason: str, start: float, counts: str = ""
) -> tuple[str, ...]:
    print("\n".join(log.read_text(errors="replace").splitlines()[-60:]), flush=True)
    return triton, python, counts, "", f"{time.monotonic() - start:.0f} s", reason


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests (default 2)")
    parser.add_argument("--triton", action="append", help="only the row of this version")
    options = parser.parse_args(argv)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for triton, python, units in ROWS:
            if options.triton is None or triton in options.triton:
                print(f"Triton {triton}", flush=True)
                rows.append(row(triton, python, units, options.jobs, Path(folder)))
    table = [("Triton", "Python", "tests", "demo, fuzz", "time", ""), *rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip(), flush=True
        )
    failed = sum(bool(cells[-1]) for cells in rows)
    print(f"{len(rows) - failed} of {len(rows)} rows passed", flush=True)
    return int(failed > 0 or not rows)


if __name__ == "__main__":
    sys.exit(main())
