"""Makes the mistakes of code_mutants.py one at a time and runs the tests that are to catch them.

python test/mutants.py --jobs 2 --write bench/results/mutants.md

Mistakes in plans are met by the proof of plans as well: what tests find is found with the proof disabled. The
exit status is 1 where a mistake survives the tests, or its text is not in its file any more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/unit/support"))

from code_mutants import MUTANTS  # noqa: E402
from code_mutants_base import CodeMutant  # noqa: E402

_ROOMS = ("dialect", "passes", "lowering", "tools", "examples", "gluon")
_TREE = (
    *_ROOMS,
    "plugin",
    "src",
    "test",
    "bench",
    "docs",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "Makefile",
)
_PROOFS = "lowering/prove/plans.py"
_PLAIN = ("-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain", "--tb=no")
"""Explaining a failure takes longer than finding it."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """What became of a mutant: the test that caught it, and whether the proof does (None: no plan is wrong)."""

    name: str
    file: str
    breaks: str
    caught_by: str | None
    by_proof: bool | None
    seconds: float
    slow: bool = False
    """Some tests did not end in time, so that a mutant that nothing caught is undecided."""

    @property
    def outcome(self) -> str:
        return self.caught_by or ("UNDECIDED, tests took too long" if self.slow else "SURVIVES")


class Tree:
    """A copy of the project in which mistakes are made."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds, self.slow = folder, seconds, False
        for name in _TREE:
            source, copy = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(
                    source, copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "results")
                )
            elif source.exists():
                shutil.copy(source, copy)

    def catch(self, mutant: CodeMutant) -> Found:
        """Make the mistake, run its tests, and take it back."""
        began = time.perf_counter()
        by_proof = None
        changes = [(mutant.file, mutant.of)]
        if mutant.planned:
            by_proof = self._run(changes, mutant.proof) is not None
            changes.append((_PROOFS, unproved))
        self.slow = False
        caught = next((test for name in mutant.tests if (test := self._run(changes, name))), None)
        return Found(
            mutant.name, mutant.file, mutant.breaks, caught, by_proof, time.perf_counter() - began, self.slow
        )

    def _run(self, changes: Sequence[tuple[str, Callable[[str], str]]], tests: str) -> str | None:
        """The first test that fails with these changes, or None."""
        originals = {name: (self.folder / name).read_text() for name, _ in changes}
        try:
            for name, change in changes:
                path = self.folder / name
                path.write_text(change(path.read_text()))
            return self._first_failure(tests)
        finally:
            for name, text in originals.items():
                (self.folder / name).write_text(text)

    def _first_failure(self, tests: str) -> str | None:
        pytest = ["-m", "pytest", "-x", "-q", "--no-header", *_PLAIN, tests]
        lit = ["-c", "from lit.main import main; main()", "-q", tests]
        environment = os.environ | {
            "PYTHONPATH": str(self.folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", ""),
        }
        command = [sys.executable, *(lit if tests.endswith(".mlir") else pytest)]
        try:
            ran = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=self.seconds,
            )
        except subprocess.TimeoutExpired:
            self.slow = True
            return None
        if not ran.returncode:
            return None
        if found := _FAILED.search(ran.stdout):
            return found[1]
        return tests


def unproved(text: str) -> str:
    """The proof of plans, disabled: nothing is refuted."""
    assert "\ndef refuted(" in text
    return text + "\n\ndef refuted(*arguments): return None\n"


def run(mutants: Sequence[CodeMutant], jobs: int, seconds: float) -> Iterator[Found]:
    """What becomes of each, in order."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: Queue[Tree] = Queue()
        for number in range(jobs):
            trees.put(Tree(Path(folder, str(number)), seconds))

        def catch(mutant: CodeMutant) -> Found:
            tree = trees.get()
            try:
                return tree.catch(mutant)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(catch, mutants)


def short(test: str) -> str:
    """A test without the folders that all have."""
    return test.removeprefix("test/unit/").removeprefix("test/").replace("|", "\\|")


def table(found: Sequence[Found]) -> str:
    """The results as a document."""
    planned = [one for one in found if one.by_proof is not None]
    lines = [
        "# Mistakes made on purpose",
        "",
        f"{len(found)} of the {len(MUTANTS)} mistakes listed were made, one at a time; "
        f"{sum(one.caught_by is not None for one in found)} are caught by tests. {len(planned)} of them "
        f"make plans wrong; the proof of plans refutes {sum(bool(one.by_proof) for one in planned)}, "
        f"and tests with the proof disabled catch {sum(one.caught_by is not None for one in planned)} "
        "(`python test/mutants.py`).",
        "",
        "| file | what is broken | caught by | the proof refutes it |",
        "| --- | --- | --- | --- |",
    ]
    for one in found:
        proof = {None: "", True: "yes", False: "no"}[one.by_proof]
        missing = "not decided: tests took too long" if one.slow else "**nothing**"
        caught = f"`{short(one.caught_by)}`" if one.caught_by else missing
        lines.append(f"| `{one.file}` | {one.breaks} | {caught} | {proof} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=300, help="for one file of tests (default %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose name contains it")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep results there, and begin behind them")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table there")
    chosen = parser.parse_args(argv)
    mutants = [mutant for mutant in MUTANTS if chosen.only in mutant.name]
    for mutant in mutants:
        mutant.of((ROOT / mutant.file).read_text())
    found: list[Found] = []
    if chosen.resume is not None and chosen.resume.exists():
        known = [Found(**json.loads(line)) for line in chosen.resume.read_text().splitlines()]
        by_name = {one.name: one for one in known if one.caught_by is not None}
        found = [by_name[mutant.name] for mutant in mutants if mutant.name in by_name]
        mutants = [mutant for mutant in mutants if mutant.name not in by_name]
    for one in run(mutants, chosen.jobs, chosen.seconds):
        found.append(one)
        if chosen.resume is not None:
            with chosen.resume.open("a") as record:
                record.write(json.dumps(asdict(one)) + "\n")
        proof = {None: "", True: ", refuted", False: ", not refuted"}[one.by_proof]
        print(f"{one.seconds:4.0f} s  {one.outcome}{proof}: {one.name}", flush=True)
        if chosen.write is not None:
            chosen.write.write_text(table(found))
    survivors = [one for one in found if one.caught_by is None]
    print(f"{len(found)} mutants, {len(survivors)} survive")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
