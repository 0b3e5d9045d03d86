"""Runs the whole suite, pytest and then lit; its last line counts both: `N passed, M failed`."""

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
MOST_SECONDS = 1500
"""That each runner may take; single tests are stopped long before."""


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests (default 2)")
    options = parser.parse_args(argv)

    # What the tests run by name (triton-linear-opt, filecheck) is this environment's.
    environment = os.environ | {"PATH": sysconfig.get_path("scripts") + os.pathsep + os.environ.get("PATH", "")}
    totals = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        units, lits = Path(folder, "pytest.xml"), Path(folder, "lit.xml")
        runners = (
            (units, ["-m", "pytest", "-n", str(options.jobs), "--durations=10", f"--junit-xml={units}"]),
            (
                lits,
                [
                    *LIT,
                    "-j",
                    str(options.jobs),
                    "-v",
                    f"--max-time={MOST_SECONDS}",
                    f"--xunit-xml-output={lits}",
                    "test/lit",
                ],
            ),
        )
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
