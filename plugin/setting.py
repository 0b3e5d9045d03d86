"""What the plugin is asked to do, and the key under which kernels compiled that way are cached."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import field, fields, replace
from typing import Any, Final, TypedDict, TypeVar

from triton_linear import __version__
from triton_linear.decisions import NO_DECISIONS, NONE, DecisionError, Decisions, DecisionWarning, load
from triton_linear.dialect import mlir_provider
from triton_linear.dialect.nearest import missing
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.passes import user_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.user_passes import UserPass
from triton_linear.report import Report

FINGERPRINT = "triton_linear"
STDERR: Final = "-"
"""Stands for the standard error in place of a file of reports."""

INTERNAL: Final = {"internal": True}
"""Metadata of options that users do not set."""
ASIDE: Final = {"aside": True}
"""Metadata of options that do not change the compiled kernel, so they are not in the cache key."""


def _path(given: Any) -> str:
    return os.path.abspath(given) if given and given != STDERR else given or ""


def _source(given: Any) -> str:
    place: str = os.fspath(given)
    if place in ("", NONE):
        return place
    return os.path.abspath(os.path.expanduser(place))


def _patterns(given: Any) -> Any:
    if isinstance(given, bool):
        return "*" if given else ""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return given  # `Options` checks the type and raises
    return ":".join(given)


PATH: Final = {"takes": "a path", "read": _path}
PATTERNS: Final = {"takes": "patterns", "read": _patterns}
"""Metadata of options that are texts: what they take, and a function of what users give. Files have absolute
paths, as processes in other folders read them. The variable `TRITON_LINEAR` has no commas in a text."""
PATTERNS_OR_FLAG: Final = {**PATTERNS, "flag": True}
"""The same of options that also take a bool: True stands for '*', False for no pattern."""


class Given(TypedDict, total=False):
    """What users may give for each of the `Options`."""

    strict: bool
    scratch_limit: int | None
    assign: bool
    lower: bool
    occupancy: bool
    reductions: bool
    dump: str | os.PathLike[str]
    only: str | Iterable[str]
    skip: str | Iterable[str]
    decisions: str | os.PathLike[str]
    exact: bool
    autotune: bool
    passes: UserPass | str | os.PathLike[str] | Iterable[UserPass | str | os.PathLike[str]]
    gluon: bool | str | Iterable[str]
    report: str | os.PathLike[str]
    cache: bool
    wait: bool


@dataclass(frozen=True, slots=True)
class Options:
    """What the plugin is asked to do. `install` and `enabled` take these:

    strict: if the plugin fails, raise; otherwise warn and compile with stock Triton.
    scratch_limit: the most bytes of shared memory one conversion may use as scratch; None: the target's
    default.
    assign: choose new layouts for a kernel's tensors if that saves conversions.
    lower: emit code for the remaining conversions; otherwise Triton lowers them.
    occupancy: assemble a kernel with fewer registers if another CTA then fits on a multiprocessor.
    reductions: split reductions across warps into cheaper steps, if there are any; needs `lower`.
    dump: a folder for the TTGIR of each kernel before and after the passes; "" for none.
    only, skip: names of kernels as patterns (`fnmatch`: `*`, `?`, `[...]`), a list or between colons. Stock
    Triton compiles a kernel that matches no pattern of a nonempty `only`, or that matches one of `skip`.
    decisions: the file of measured decisions to follow; "" for the user's own file, "none" for none.
    exact: give the bits that stock Triton gives: no float sum is reordered and no rounding is moved.
    autotune: have `triton.autotune` and Inductor measure each configuration with the plugin and without it.
    passes: your own passes (`ttgir_pass`), or names of files that define some; they run before or after ours.
    gluon: patterns of the Gluon kernels whose layouts may be changed; "*" or True for all.
    report: a file to which each compile appends its report as a line of JSON; "-": each is printed to standard
    error, as it is for people; "" for none.
    cache: keep the results of a compile on disk, and reuse them.
    wait: a first launch waits until the plugin has compiled the kernel. False: it runs stock Triton's, ours is
    compiled beside the program, and launches take turns until the faster kernel is known (`contests`).

    The other options are for measuring:

    without: the name of a pass that does not run.
    thresholds: changes to thresholds of the GPU's policy, in the syntax that `targets.target` reads.
    register_thresholds: further changes, for what ptxas is told of registers alone: passes do not see them.
    distinct: launches are checked for arguments that lead to one memory (`checked`).
    measured: launches decide between the kernel and stock Triton's, so the bytes that both spill are not
    compared. The report has the key under which decisions about the kernel are kept.
    """

    strict: bool = False
    scratch_limit: int | None = None
    assign: bool = True
    lower: bool = True
    occupancy: bool = True
    reductions: bool = True
    dump: str = field(default="", metadata=PATH)
    only: str = field(default="", metadata=PATTERNS)
    skip: str = field(default="", metadata=PATTERNS)
    decisions: str = field(default="", metadata={**PATH, "read": _source})
    exact: bool = False
    autotune: bool = False
    passes: tuple[UserPass, ...] = field(default=(), metadata={"read": user_passes.chosen})
    gluon: str = field(default="", metadata=PATTERNS_OR_FLAG)
    report: str = field(default="", metadata={**PATH, **ASIDE})
    cache: bool = field(default=True, metadata=ASIDE)
    wait: bool = False
    without: str = field(default="", metadata=INTERNAL)
    thresholds: str = field(default="", metadata=INTERNAL)
    register_thresholds: str = field(default="", metadata=INTERNAL)
    measured: bool = field(default=False, metadata=INTERNAL)
    distinct: bool = field(default=False, metadata=INTERNAL)

    def __post_init__(self) -> None:
        for option in fields(self):
            name, value, takes = option.name, getattr(self, option.name), option.metadata.get("takes")
            if isinstance(option.default, bool) and not isinstance(value, bool):
                raise TypeError(f"{name} takes a bool, got {value!r}")
            if takes and not isinstance(value, str):
                raise TypeError(f"{name} takes {takes}, got {value!r}")
            if takes and "," in value:
                raise ValueError(
                    f"{name} takes {takes} without commas, which TRITON_LINEAR divides options by: {value!r}"
                )
        if not all(isinstance(each, UserPass) for each in self.passes):
            raise TypeError(f"passes takes what ttgir_pass makes, got {self.passes!r}")
        if any("," in each.place for each in self.passes):
            raise ValueError("passes takes files without commas, which TRITON_LINEAR divides options by")
        if self.scratch_limit is None:
            return
        if not isinstance(self.scratch_limit, int) or isinstance(self.scratch_limit, bool):
            raise TypeError(f"scratch_limit takes an int or None, got {self.scratch_limit!r}")
        if self.scratch_limit < 0:
            raise ValueError(f"scratch_limit {self.scratch_limit} is negative")

    def leaves_out(self, kernel: str) -> str | None:
        """The reason why stock Triton compiles a kernel of this name; None if the plugin may.

        >>> Options(only="softmax*:matmul").leaves_out("attention")
        "its name matches none of only='softmax*:matmul'"
        """
        if self.only and not _matches(kernel, self.only):
            return f"its name matches none of only='{self.only}'"
        if self.skip and _matches(kernel, self.skip):
            return f"its name matches one of skip='{self.skip}'"
        return None

    def pipeline_for(self, kernel: str, *, gluon: bool) -> PipelineOptions:
        """The options of the passes for a kernel of this name. gluon: the kernel is written in Gluon.

        >>> Options(gluon="mine*").pipeline_for("mine_too", gluon=True).assign
        True
        >>> Options(gluon="mine*").pipeline_for("other", gluon=True).assign
        False
        """
        if gluon and not _matches(kernel, self.gluon):
            return self.pipeline.keeping_layouts()
        return self.pipeline

    @property
    def autotunes(self) -> bool:
        """True if autotuners measure each configuration with the plugin and without it. With contests they
        always do: what they measure must not be turns of one."""
        return self.autotune or not self.wait

    @property
    def changes_code(self) -> bool:
        """True if some pass may change a kernel; otherwise only registers are ours."""
        return self.assign or self.lower or self.reductions or bool(self.passes)

    @property
    def undecided(self) -> bool:
        """True if every option that affects which variant is fastest has its default. Decisions were measured
        with these defaults, so only then are they followed."""
        defaults = Options(**{name: getattr(self, name) for name in _BESIDE_DECISIONS})
        return self == defaults

    @property
    def pipeline(self) -> PipelineOptions:
        """Those of the options that the passes take."""
        names = (f.name for f in fields(PipelineOptions) if f.name != "layouts")  # which screening decides
        return PipelineOptions(**{name: getattr(self, name) for name in names})


_LAUNCHED = ("wait", "distinct")
_BESIDE_DECISIONS = ("strict", "dump", "report", "only", "skip", "decisions", "autotune", "cache", *_LAUNCHED)
"""The options that do not affect which variant of a kernel is fastest."""

PUBLIC: Final = {option.name: option for option in fields(Options) if "internal" not in option.metadata}
"""The options that users set, by name."""


def options_of(given: Given) -> Options:
    """The options that a user gave by name."""
    if unknown := given.keys() - PUBLIC.keys():
        raise TypeError(f"there is {missing(min(unknown), PUBLIC).replace('no ', 'no option ', 1)}")
    read = {name: PUBLIC[name].metadata.get("read", lambda value: value) for name in given}
    return Options(**{name: read[name](value) for name, value in given.items()})


Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(*, wait: bool) -> Callable[[Function], Function]:
    """Give a function that takes options and `on_report` the signature and the text of its options. wait: the
    default of that option."""

    def described(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=wait if name == "wait" else option.default,
                annotation=Given.__annotations__[name].__forward_arg__,
            )
            for name, option in PUBLIC.items()
        ]
        parameters.append(signature.parameters["on_report"])
        vars(function)["__signature__"] = signature.replace(parameters=parameters)
        options = inspect.cleandoc(Options.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{options}"
        return function

    return described


def _matches(kernel: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(kernel, pattern) for pattern in filter(None, patterns.split(":")))


Listener = Callable[[Report], object]
"""What is called with the report of each compile."""


@dataclass(frozen=True, eq=False)
class Setting:
    """The options of one `install` or `enabled`, its listeners, and the kernels it has warned of.

    decided: the decisions to follow; None: load those that the option `decisions` names.
    """

    options: Options = Options()
    listeners: tuple[Listener, ...] = ()
    warned: set[tuple[str, str]] = field(default_factory=set)
    decided: Decisions | None = None

    @functools.cached_property
    def decisions(self) -> Decisions:
        """The decisions to follow, loaded at the first access.

        If they cannot be read, warn once and follow none (strict: raise). Threads whose first accesses overlap
        get the same object."""
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
    def checked(self) -> Setting:
        """The same for kernels whose launches are checked."""
        options = replace(self.options, distinct=True)
        return Setting(options, self.listeners, self.warned, self.decisions)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A key that is equal for two settings if and only if version, sources, MLIR, options and decisions
        are.

        `dump` is in the key, though it changes no code: a kernel from the cache would not be dumped. `report`
        is not: people leave it on for weeks, and turning it on should not recompile every kernel."""
        keyed = [f for f in fields(self.options) if not f.metadata.get("aside")]
        options = "-".join(f"{f.name}={getattr(self.options, f.name)}" for f in keyed)
        decided = self.decisions.digest
        text = f"{__version__}-{source_digest()}-{mlir_provider.installed()}-{options}-{decided}"
        return f"{FINGERPRINT}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
