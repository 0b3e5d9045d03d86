"""`triton-linear tune SCRIPT`: measure variants of a program's kernels, and store which is the fastest.

The program runs in child processes (tools/measuring), with stock Triton; each launch is measured after the
program's own launch. Each decision is written to the file of decisions as soon as it is known. If a run is
interrupted, its records remain, and the next run resumes from them.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import itertools
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from triton_linear.decisions import Decision, DecisionError, DecisionFile, default_file
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.dialect.verdicts import folder as own_folder
from triton_linear.gpus import gpu_names
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.contested import Contested, contested
from triton_linear.tools.measuring.rounds import Ended, check_script, done, gpu_name, rounds, run_child
from triton_linear.tools.support.arguments import in_order
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail
from triton_linear.tools.support.progress import say
from triton_linear.tools.tune import figures
from triton_linear.tools.tune.figures import TunedKernel
from triton_linear.tools.tune.journal import Journal, store
from triton_linear.variants import COMPARED, VARIANTS, variant


@dataclass(frozen=True)
class Tuned:
    """The results of a run: kernels with a decision, all observed launches, and the program's exit status."""

    kernels: tuple[TunedKernel, ...]
    launches: tuple[Contested, ...]
    status: int


def run(chosen: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if the program failed, or a checked decision does not hold."""
    check_script(chosen.script, chosen.module)
    file = DecisionFile(chosen.decisions or default_file())
    before = _read(file)
    if chosen.check and not before:
        fail("there are no decisions to check", str(file.path))
    device = gpu_name("tune")
    results = tune(
        chosen.script,
        chosen.arguments,
        module=chosen.module,
        decisions=file.path,
        variants=chosen.variants,
        seconds=chosen.seconds,
        grids=chosen.grids,
        jobs=chosen.jobs,
        again=chosen.again or chosen.check,
        keep=not chosen.check,
        checked=before if chosen.check else (),
    )
    if not results.launches:
        why = f"the program ended with status {results.status}" if results.status else "the program ended"
        fail(f"{why} without launching a kernel of Triton's", chosen.script)
    return _show(results, device, before, chosen)


def tune(
    script: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    decisions: Path | None = None,
    variants: Iterable[str] = VARIANTS,
    seconds: float = 0.5,
    grids: int = 4,
    jobs: int = 1,
    again: bool = False,
    keep: bool = True,
    checked: Iterable[Decision] = (),
) -> Tuned:
    """Run a program, measure the variants of its kernels, and store the fastest ones in the file `decisions`.

    decisions: None is the user's own file. keep: if False, nothing is stored. variants: `stock` and `ours`
    are always measured. checked: decisions whose variants are measured too, each for its own kernel. The other
    arguments are the command's options.

    Raises ToolError if decisions cannot be stored, ValueError for an unknown variant.
    """
    names = {variant(name).name for name in (*COMPARED, *variants)}
    file = DecisionFile(decisions or default_file())
    plan = MeasuringPlan(
        records="",
        script=script,
        arguments=list(arguments),
        module=module,
        modes=in_order(names),
        seconds=seconds,
        grids=grids,
        decided=_by_kernel(checked),
    )
    journal = own_folder() / "tune" / _digest(plan, keep)
    if again:
        _remove(journal.glob("run-*"))
    before = list(journal.glob("run-*"))
    reader = Journal(journal, file if keep else None)
    reader.follow(loud=False)
    known = list(reader.records)
    if known:
        say(f"going on where an earlier run ended: {len(figures.tuned(contested(known)))} decided")
    run_folder = _new_folder(journal)
    lock = _lock(run_folder)
    resumed = replace(plan, skip=done(known), jobs=jobs)

    def run(part: MeasuringPlan, shown: bool) -> Ended:
        return run_child(part, shown, watch=reader.follow)

    say("measuring: each kernel is compiled and measured behind its first launch")
    try:
        records, ended = rounds(resumed, run_folder, run, loud=True)
    except OSError as error:
        reader.follow()
        fail(f"cannot keep records: {error.strerror or error}", str(run_folder))
    except BaseException:
        reader.follow()
        raise
    launches = contested([*known, *records])
    kernels = figures.tuned(launches)
    reader.follow()
    if keep:
        store(file, kernels)
    if lock is not None:
        lock.close()
    _remove((*before, run_folder))
    with contextlib.suppress(OSError):
        journal.rmdir()
    return Tuned(tuple(kernels), tuple(launches), ended.status)


def _by_kernel(decisions: Iterable[Decision]) -> dict[str, list[str]]:
    """The variants of the decisions that hold for this Triton and emitted code, by the kernel's digest."""
    found = defaultdict[str, list[str]](list)
    for each in decisions:
        about = each.circumstances
        if (about.triton, about.package) == (installed(), CODE_VERSION):
            found[about.kernel].append(each.variant)
    return {kernel: list(dict.fromkeys(names)) for kernel, names in found.items()}


def _digest(plan: MeasuringPlan, keep: bool) -> str:
    """The digest that identifies a run: a run with an equal digest can resume an interrupted one."""
    script = plan.script if plan.module else str(Path(plan.script).resolve())
    place = sorted(gpu_names())
    identity = [script, plan.arguments, plan.modes, plan.grids, installed(), CODE_VERSION, place, keep]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def _new_folder(journal: Path) -> Path:
    """Create a new folder for the records of a run."""
    for number in itertools.count():
        folder = journal / f"run-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            fail(f"cannot keep records: {error.strerror}", str(folder))
        return folder
    raise AssertionError("numbers do not end")


def _lock(folder: Path) -> IO[bytes] | None:
    """Lock the folder of a run, for as long as the returned file is open; None if another run has the lock."""
    try:
        file = open(folder / "lock", "wb")  # noqa: SIM115
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _remove(folders: Iterable[Path]) -> None:
    """Remove folders of runs, except those that another run has locked."""
    for folder in folders:
        if (lock := _lock(folder)) is not None:
            lock.close()
            shutil.rmtree(folder, ignore_errors=True)


def _read(file: DecisionFile) -> list[Decision]:
    if not file.path.exists():
        return []
    try:
        return file.read()
    except DecisionError as error:
        fail(str(error))


def _show(results: Tuned, device: str, before: Sequence[Decision], chosen: argparse.Namespace) -> int:
    """Print the results; return 1 if a checked decision does not hold. Raises ToolError if the program
    failed.
    """
    from triton_linear.tools.support.console import opened, show

    console = opened()
    show(console, figures.table_of(results.kernels, results.launches, device))
    console.print(figures.sentence(results.kernels), highlight=False, soft_wrap=True)
    wrong = []
    if chosen.check:
        all_checked = figures.checked(before, results.kernels)
        wrong = [each for each in all_checked if each.problem]
        for each in wrong:
            console.print(
                f"{each.decision.name}: {each.problem}", markup=False, highlight=False, soft_wrap=True
            )
        console.print(f"{len(all_checked)} decisions checked, {len(wrong)} do not hold", highlight=False)
    if results.status:
        message = f"the program ended with status {results.status}; the figures are for what it did before"
        raise ToolError(Diagnostic("error", message, chosen.script))
    return int(bool(wrong))
