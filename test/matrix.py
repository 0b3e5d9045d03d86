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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run import ROOT, tally

_READ = ("dialect/bridge", "dialect/encodings*", "dialect/versions*", "plugin/stage", "plugin/plugin_one_warp")
"""What shows that modules are read, and compiled again."""
_ALIKE = (
    *(
        *_READ,
        "passes/shared_memory",
        "passes/global_memory",
        "passes/assign_reductions",
        "passes/shape_change",
    ),
    *("passes/load_*", "passes/reductions*", "passes/split_reductions", "plugin/user_passes"),
)
"""What a release decides on its own."""
_BETWEEN = (
    *(
        *_ALIKE,
        "bench/whole_kernels",
        "plugin/hook",
        "plugin/fallback",
        "plugin/autotuner",
        "plugin/plugin_gluon",
    ),
)
"""What the releases before and after one do not settle."""
UNITS = (
    *(*_BETWEEN, "dialect/algebra_against_triton", "examples/examples", "lowering/simulate_function"),
    *("passes/defer", "plugin/inductor*", "plugin/known", "plugin/plugin_widths", "plugin/setting"),
    *(f"plugin/ptxas_{name}" for name in ("output", "registers")),
    "plugin/spills",
)
"""What depends on Triton at all. A name is that of a test file in a folder, or below it."""
ROWS = (
    *(("3.6.0", "3.11", UNITS), ("3.7.0", "3.13", _READ)),
    *(("3.7.1", "3.10", _ALIKE), ("3.8.0", "3.12", _BETWEEN)),
)
"""Triton, Python and tests of each row; the whole suite runs on the reference version, the demo there and on
the oldest one. 3.7.0 differs from 3.7.1 in a helper of Gluon's alone."""
FUZZ = ("--count", "200", "--target", "all", "--seed", "1", "--shrink", "0")
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


def files_of(names: Sequence[str]) -> list[str]:
    """The test files that names stand for; each stands for some."""
    found: set[Path] = set()
    for folder, _, name in (each.partition("/") for each in names):
        some = set((ROOT / "test" / "unit" / folder).rglob(f"test_{name}.py"))
        if not some:
            raise ValueError(f"no test file in {folder} has the name {name}")
        found |= some
    return sorted(map(str, found))


def prepared(triton: str, python: str, logs: Path) -> tuple[str, Path, str]:
    """The Python of a row's environment, its scripts, and why it could not be made."""
    found = interpreter(python)
    asked = subprocess.run([found, "-c", _VERSION], capture_output=True, text=True, check=True)
    python = asked.stdout.strip()
    folder = ROOT / ".venvs" / f"triton-{triton}-python-{python}"
    make = ["make", "environment", f"VENV={folder}", f"PYTHON={found}", f"TRITON={triton}", "EXTRAS=test"]
    return python, folder / "bin", stopped(make, INSTALL_SECONDS, logs / f"{triton}.log", dict(os.environ))


def row(
    triton: str, units: Sequence[str], jobs: int, logs: Path, made: tuple[str, Path, str]
) -> tuple[str, ...]:
    """The cells of a row; the last one is why it failed."""
    start, log = time.monotonic(), logs / f"{triton}.log"
    python, scripts, reason = made
    if reason:
        return _failed(triton, python, log, f"environment: {reason}", start)
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    environment |= {"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_CACHE_DIR": str(logs / f"cache-{triton}")}
    report, files = logs / f"{triton}.xml", files_of(units)
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
    wanted = [each for each in ROWS if options.triton is None or each[0] in options.triton]
    rows = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        logs = Path(folder)
        # Environments are made one after the other while the rows before them run.
        made = [pool.submit(prepared, triton, python, logs) for triton, python, _ in wanted]
        for (triton, _, units), one in zip(wanted, made, strict=True):
            print(f"Triton {triton}", flush=True)
            rows.append(row(triton, units, options.jobs, logs, one.result()))
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
