"""`triton-linear doctor`: run the probes, print the differences, and store the verdict."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence

from triton_linear.dialect import triton_versions, verdicts
from triton_linear.dialect.nearest import missing
from triton_linear.dialect.sources import source_digest
from triton_linear.tools.doctor.probe import FULL, PROBES, QUICK, Counts, Difference, Findings, Probe
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.inputs import variable

_MOST_CHARACTERS = 1200
"""The number of characters that are printed of the description of a difference."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if something differs, or the installed Triton cannot be tested."""
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
    release = ".".join(map(str, rules))
    file = verdicts.Library.at(library)
    digest = verdicts.sha256(library)
    print(f"triton {version} in {library.parents[1]}: by the rules of {release}")
    print(f"libtriton {digest}, {file.size} bytes", flush=True)
    counts = QUICK if arguments.quick else FULL
    counts = dataclasses.replace(counts, jobs=arguments.jobs, seed=arguments.seed)
    with variable(verdicts.TRIAL, version):  # accept this version, also in the processes of probes
        results = list(run_probes(probes, counts))
    differing = [(probe, findings) for probe, findings in results if findings.differences]
    for probe, findings in differing:
        print(f"\n{probe.name} ({probe.look}):")
        for difference in findings.first_of_each():
            count = sum(each.kind == difference.kind for each in findings.differences)
            print(in_words(difference, count))
    print(flush=True)
    if version in triton_versions.TESTED:
        print("this is a tested release, which needs no verdict")
    elif len(probes) == len(PROBES):
        path = verdicts.keep(
            verdicts.Verdict(version, release, digest, source_digest(), not differing, arguments.quick, (file,))
        )
        print(f"kept in {path}")
    if differing:
        print(f"{len(differing)} of {len(results)} probes differ")
    else:
        print(f"it keeps to the rules of {release}")
    return int(bool(differing))


def named(names: Sequence[str] | None) -> Sequence[Probe]:
    """The probes of these names, all for None. Fails on an unknown name."""
    known = [probe.name for probe in PROBES]
    for name in names or ():
        if name not in known:
            fail(f"probe: {missing(name, known)}")
    return PROBES if names is None else [probe for probe in PROBES if probe.name in names]


def run_probes(probes: Sequence[Probe], counts: Counts) -> Iterator[tuple[Probe, Findings]]:
    """Run each probe and print a line about it; yield it with its findings."""
    for probe in probes:
        start = time.monotonic()
        try:
            findings = probe.run(counts)
        except Exception as error:
            crash = Difference("crash", "before the first case", f"{type(error).__name__}: {error}")
            findings = Findings(0, [crash])
        differing = len(findings.differences)
        outcome = f"{findings.cases} cases, {f'{differing} DIFFER' if differing else 'none differs'}"
        print(f"{probe.name}: {probe.what}: {outcome}; {time.monotonic() - start:.1f} s", flush=True)
        yield probe, findings


def in_words(difference: Difference, count: int) -> str:
    """The lines about the first difference of a kind; `count` is the number of differences of that kind."""
    description = " ".join(difference.description.split())[:_MOST_CHARACTERS]
    lines = [f"  {difference.kind}, {count} of its cases, the first one:"]
    return "\n".join([*lines, f"    {difference.case}", f"    {description}"])
