"""Probes: comparisons of this package's expectations with the installed Triton, in processes that may crash.

A probe compares, case by case, what the rules of a release predict with what Triton does. Its work is divided
into calls, each in its own process. If libtriton ends the process (SIGABRT, as it does on input that it does
not understand), the call counts as a difference, reported with the case at which it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from triton_linear.tools.support.isolated import Isolation, Lost, note

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
        """Try a case: `difference()` describes how Triton differs, None if it does not. An exception is one
        too.
        """
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
    """A probe: its name, what it checks, the sources to look at if it differs, the function that runs it, as
    `module:name` in this folder, and the arguments of its calls.
    """

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
        "examples:compiled",
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
