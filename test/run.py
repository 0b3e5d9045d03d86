"""Runs tests, pytest's and then lit's; the last line counts both: `N passed, M failed`.

python test/run.py --check      the part for daily work: laws, encodings, planners, proofs and the passes
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LIT = ("-c", "from lit.main import main; main()")
UNITS = ("test/unit",)
LITS = ("test/lit",)
CHECKED_UNITS = (
    "test/unit/dialect",
    "test/unit/lowering",
    "test/unit/passes/framework/test_framework.py",
    "test/unit/passes/test_passes.py",
    "test/unit/passes/operations/test_operations.py",
    "test/unit/passes/test_priced_choices.py",
    "test/unit/passes/analysis/test_addressing.py",
    "test/unit/passes/assignment/test_assign_decisions.py",
    "test/unit/passes/assignment/test_solve.py",
    "test/unit/passes/reductions/test_split_reductions.py",
    "test/unit/passes/reductions/test_reductions_proof.py",
    "test/unit/passes/analysis/test_widths.py",
    "test/unit/project/test_ceiling.py",
    "test/unit/project/test_mutants.py",
    "test/unit/project/test_import_cycles.py",
    "test/unit/project/test_lit_hygiene.py",
)
"""Of these, `make check` runs what is not marked slow."""
CHECKED_LITS = ("test/lit/dialect", "test/lit/passes")
MOST_SECONDS = 3000
"""That each runner may take on a slow machine; single tests are stopped long before."""


def tally(report: Path, status: int) -> tuple[int, int, int]:
    """(passed, failed, skipped) of a JUnit report; a runner that failed without one counts as a failure."""
    passed = failed = skipped = 0
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            outcomes = {child.tag for child in case}
            failed += bool(outcomes & {"failure", "error"})
            skipped += "skipped" in outcomes
            passed += not outcomes & {"failure", "error", "skipped"}
    return passed, max(failed, int(status != 0)), skipped


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests (default 2)")
    parser.add_argument("--check", action="store_true", help="the part for daily work, in two minutes")
    options = parser.parse_args(argv)
    tests = ("-m", "not slow", *CHECKED_UNITS) if options.check else UNITS

    # What the tests run by name (triton-linear-opt, filecheck) is this environment's.
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ.get("PATH", "")
    # Each run iterates over sets in the same order; some tests compare runs with other orders.
    environment = os.environ | {"PATH": path, "PYTHONHASHSEED": "0"}
    totals = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        units, lits = Path(folder, "pytest.xml"), Path(folder, "lit.xml")
        jobs = str(options.jobs)
        # Neighbouring tests share what a process remembers; who is done takes from who is not.
        pytest = [
            "-m",
            "pytest",
            "-n",
            jobs,
            "--dist=worksteal",
            "--durations=10",
            f"--junit-xml={units}",
            *tests,
        ]
        lit = [*LIT, "-j", jobs, "-v", f"--max-time={MOST_SECONDS}", f"--xunit-xml-output={lits}"]
        runners = ((units, pytest), (lits, [*lit, *(CHECKED_LITS if options.check else LITS)]))
        for report, command in runners:
            try:
                status = subprocess.run(
                    [sys.executable, *command], cwd=ROOT, env=environment, check=False, timeout=MOST_SECONDS
                ).returncode
            except subprocess.TimeoutExpired:
                print(f"stopped after {MOST_SECONDS} seconds: {' '.join(command)}", flush=True)
                status = 1
            totals = [a + b for a, b in zip(totals, tally(report, status), strict=True)]
    passed, failed, skipped = totals
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
