"""The command `triton-linear doctor`: asks the probes, says what differs, and keeps the verdict."""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triton_linear.dialect import triton_versions, verdicts
from triton_linear.dialect.sources import source_digest
from triton_linear.tools.doctor.probe import FULL, QUICK, Counts, Difference, Found, Probe
from triton_linear.tools.doctor.probes import PROBES
from triton_linear.tools.support.console import WIDTH_WITHOUT_TERMINAL, show
from triton_linear.tools.support.errors import fail

_SAID = 1200  # Characters that are printed of what is said of a case.


def run(arguments: argparse.Namespace) -> int:
    """The exit status is 1 if something differs, or this is no Triton that could be tried out."""
    if arguments.forget:
        count = verdicts.forget()
        print(f"{count} verdict{'' if count == 1 else 's'} removed")
        return 0
    if arguments.jobs < 1:
        fail(f"jobs: {arguments.jobs} is not a number of processes")
    probes = named(arguments.probe)
    version, library = triton_versions.found(), verdicts.libtriton()
    rules = triton_versions.release_of(version)
    if version is None or rules is None:
        raise triton_versions.UnsupportedTriton(triton_versions.refusal(version) or "", name="triton")
    if library is None:
        fail(f"found Triton {version} without a libtriton")
    by = ".".join(map(str, rules))
    seen = verdicts.Library.at(library)
    digest = verdicts.sha256(library)
    print(f"triton {version} in {library.parents[1]}: by the rules of {by}")
    print(f"libtriton {digest}, {seen.size} bytes", flush=True)
    counts = QUICK if arguments.quick else FULL
    counts = dataclasses.replace(counts, jobs=arguments.jobs, seed=arguments.seed)
    with on_trial(version):
        asked = list(answers(probes, counts))
    print(flush=True)
    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL)
    show(console, table_of(asked))
    wrong = [(probe, found) for probe, found, _ in asked if found.differences]
    for probe, found in wrong:
        print(f"\n{probe.name} ({probe.look}):")
        for difference in found.first_of_each():
            count = sum(each.kind == difference.kind for each in found.differences)
            print(in_words(difference, count))
    print(flush=True)
    if version in triton_versions.TESTED:
        print("this is a tested release, which needs no verdict")
    elif len(probes) == len(PROBES):
        path = verdicts.keep(
            verdicts.Verdict(version, by, digest, source_digest(), not wrong, arguments.quick, (seen,))
        )
        print(f"kept in {path}")
    print(f"{len(wrong)} of {len(asked)} probes differ" if wrong else f"it keeps to the rules of {by}")
    return int(bool(wrong))


def named(names: Sequence[str] | None) -> Sequence[Probe]:
    """The probes of these names; all for None. Fails on a name that none has."""
    known = [probe.name for probe in PROBES]
    for name in names or ():
        if name not in known:
            fail(f"probe: no '{name}'; there are {', '.join(known)}")
    return PROBES if names is None else [probe for probe in PROBES if probe.name in names]


@contextmanager
def on_trial(version: str) -> Iterator[None]:
    """Within the block this process, and those that it starts, take this version of Triton as supported."""
    before = os.environ.get(verdicts.TRIAL)
    os.environ[verdicts.TRIAL] = version
    try:
        yield
    finally:
        if before is None:
            del os.environ[verdicts.TRIAL]
        else:
            os.environ[verdicts.TRIAL] = before


def answers(probes: Sequence[Probe], counts: Counts) -> Iterator[tuple[Probe, Found, float]]:
    """What each probe has found, and its seconds; a line for each as it goes."""
    for probe in probes:
        start = time.monotonic()
        try:
            found = probe.run(counts)
        except Exception as error:
            found = Found(0, [Difference("crash", "before the first case", f"{type(error).__name__}: {error}")])
        seconds = time.monotonic() - start
        print(f"{probe.name}: {probe.what}: {outcome(found)}; {seconds:.1f} s", flush=True)
        yield probe, found, seconds


def outcome(found: Found) -> str:
    """What came of a probe, in a few words."""
    if not found.differences:
        return f"{found.cases} cases, none differs"
    return f"{found.cases} cases, {len(found.differences)} DIFFER"


def table_of(asked: Sequence[tuple[Probe, Found, float]]) -> Table:
    """All probes."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, side in (("probe", "left"), ("cases", "right"), ("differ", "right"), ("seconds", "right")):
        table.add_column(name, justify="right" if side == "right" else "left")
    table.add_column("if it differs, look at")
    for probe, found, seconds in asked:
        count = len(found.differences)
        differ = Text(str(count), "bold red" if count else "green")
        table.add_row(probe.name, str(found.cases), differ, f"{seconds:.1f}", probe.look)
    return table


def in_words(difference: Difference, count: int) -> str:
    """The first case of a kind, with how many there are."""
    lines = [f"  {difference.kind}, {count} of its cases, the first one:"]
    return "\n".join([*lines, f"    {difference.case}", f"    {' '.join(difference.said.split())[:_SAID]}"])
