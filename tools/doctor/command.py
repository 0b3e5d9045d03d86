"""`triton-linear doctor`: run the probes, print the differences, and store the verdict.

A probe compares, case by case, what the rules of a release predict with what Triton does. Its work is divided
into calls, each in its own process. If libtriton ends the process (SIGABRT, as it does on input that it does
not understand), the call counts as a difference, reported with the case at which it ended.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from triton_linear.dialect import triton_versions, verdicts
from triton_linear.dialect.nearest import missing
from triton_linear.dialect.sources import source_digest
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.inputs import variable
from triton_linear.tools.support.isolated import Isolation, Lost, note

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


MODULES = ("triton_linear.tools.doctor.warm",)
MEMORY = 8 << 30
"""The memory limit of a call, in bytes."""


@dataclass(frozen=True)
class Difference:
    """A case in which Triton differs from the expectation: the kind of case, the case, and the difference."""

    kind: str
    case: str
    description: str


@dataclass
class Findings:
    """The results of a probe: the number of cases, and the differences."""

    cases: int = 0
    differences: list[Difference] = field(default_factory=list)

    def compare(self, kind: str, case: str, difference: Callable[[], str | None]) -> None:
        """Try a case: `difference()` says how Triton differs, None if it does not. An exception is one too."""
        note(f"{kind}: {case}")
        self.cases += 1
        try:
            description = difference()
        except Exception as error:
            description = f"{type(error).__name__}: {error}"
        if description is not None:
            self.differences.append(Difference(kind, case, description))

    def add(self, other: Findings) -> None:
        """Add the findings of another call."""
        self.cases += other.cases
        self.differences += other.differences

    def first_of_each(self) -> list[Difference]:
        """The first difference of each kind."""
        first: dict[str, Difference] = {}
        for each in self.differences:
            first.setdefault(each.kind, each)
        return list(first.values())


@dataclass(frozen=True)
class Counts:
    """The number of cases.

    encodings: for each family. conversions: random ones, for each GPU. targets: the GPUs for which examples
    are compiled. jobs: parallel processes. seed: of all random numbers.
    """

    encodings: int
    conversions: int
    targets: tuple[str, ...]
    jobs: int = 2
    seed: int = 1


FULL = Counts(100, 40, ("cuda:90", "hip:gfx942"))
QUICK = Counts(6, 2, ("cuda:90",))


Calls = Sequence[tuple[object, ...]]
RANDOM = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx90a", "hip:gfx942", "hip:gfx950")
"""The GPUs for which random conversions are compiled."""
ENCODING_PARTS = 15
"""The number of calls for the families of encodings, one family each, so that a crash affects no other
family."""


@dataclass(frozen=True)
class Probe:
    """A probe: its name, what it checks, where to look if it differs, the function that runs it, as
    `module:name` in this folder, and the arguments of its calls."""

    name: str
    what: str
    look: str
    function: str
    calls: Callable[[Counts], Calls]

    def run(self, counts: Counts) -> Findings:
        """Make all calls, each in its own process."""
        return isolated(f"triton_linear.tools.doctor.{self.function}", self.calls(counts), counts.jobs)


PROBES = (
    Probe(
        "hooks",
        "what the plugin wraps is there, and is called as it was",
        "plugin/hook.py",
        "hooks:checked",
        lambda counts: [()],
    ),
    Probe(
        "encodings",
        "layouts of drawn encodings, against Triton's own",
        "dialect/encodings/ and the spans that it asks",
        "encodings:compared",
        lambda counts: [
            (part, ENCODING_PARTS, counts.encodings, counts.seed) for part in range(ENCODING_PARTS)
        ],
    ),
    Probe(
        "conversions",
        "random conversions with our code, run in the interpreter",
        "lowering/emit/, 'python -m bench.fuzz'",
        "conversions:run",
        lambda counts: [(target, counts.conversions, counts.seed) for target in RANDOM],
    ),
    Probe(
        "examples",
        "moved to MLIR and back, and compiled with our code, which is run in the interpreter",
        "dialect/bridge.py, 'python -m triton_linear.tools.demo'",
        "conversions:examples",
        lambda counts: [
            (target, part, counts.jobs) for target in counts.targets for part in range(counts.jobs)
        ],
    ),
)


def isolated(function: str, calls: Calls, jobs: int, seconds: int = 120) -> Findings:
    """The findings of a function, `module:name`, in all calls, `jobs` at a time, each in its own process.

    The function is imported there, so this process does not load Triton.
    """
    isolation: Isolation[Findings] = Isolation(_called, MODULES, seconds, MEMORY)
    total = Findings()
    try:
        results = isolation.map([(function, *call) for call in calls], jobs)
    except (EOFError, OSError) as error:
        return Findings(0, [Difference("crash", "loading Triton", f"{type(error).__name__}: {error}")])
    for result in results:
        total.add(_crash(result) if isinstance(result, Lost) else result)
    return total


def _crash(lost: Lost) -> Findings:
    """The findings of a call that crashed: one difference, with the case that was noted last."""
    kind, _, case = (lost.doing or "crash: before the first case").partition(": ")
    return Findings(1, [Difference(kind, case, lost.reason)])


def _called(function: str, *arguments: object) -> Findings:
    """Call a function of the present process."""
    module, _, name = function.partition(":")
    findings: Findings = getattr(import_module(module), name)(*arguments)
    return findings
