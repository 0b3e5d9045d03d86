"""Compare the modes of each kernel that a program launches: variants, of which the fastest may be sought, and
`free`, whose results are not looked at.

Each mode is compiled, several in parallel if the plan has jobs, run once on copies of the arguments, and
its results are compared with stock Triton's. Variants with equal code count as one. They are timed
alternately, with warm and with empty caches, in phases:

1. A short phase has all variants.
2. If any may be faster than stock Triton, the next has those that may be the fastest, and selects one.
3. The last has what is selected by then, stock Triton and the plugin. Only its times decide, because earlier
   times are biased in favour of the selected variant.

    {"kernel": KEY, "name": ..., "grid": [...], "module": DIGEST}       a new launch
    {"kernel": KEY, "begin": VARIANT}                                   compiling or running begins
    {"kernel": KEY, "compiled": VARIANT}                                a variant is compiled
    {"kernel": KEY, "mode": VARIANT, "problem": REASON}                 why a variant is left out
    {"kernel": KEY, "mode": "contest", "ratio": ..., ...}               the result (`Contest._compare`)
    {"launches": {KEY: COUNT}}                                          at the end
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton_linear.decisions import ptxas_version
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.report import FREE as LEFT_OUT
from triton_linear.report import NOOP
from triton_linear.tools.measuring import choose
from triton_linear.tools.measuring.beside import in_processes
from triton_linear.tools.measuring.child import Child, compiled, first_line, nothing
from triton_linear.tools.measuring.choose import Interval, Times
from triton_linear.tools.measuring.results import Results
from triton_linear.tools.support.copies import Copies
from triton_linear.tools.support.launches import Launch, again, digest
from triton_linear.tools.support.modes import FREE
from triton_linear.tools.support.timing import side_by_side
from triton_linear.variants import OURS, STOCK

TIMING, COMPILING = "timing", "compiling"
"""The modes of records while variants are timed and, followed by a variant's name, compiled."""
_PATIENCE = 90.0
"""The time limit for compiling a variant, in seconds; less than the time after which the parent kills the
child."""
FIRST, SECOND = 0.25, 0.5
"""The parts of the plan's seconds that the first phase and the next one take; the last takes all."""


@dataclass
class Field:
    """The variants that are compared for a launch.

    copies: of its arguments. runs: functions that launch the kernels with stock Triton's results, by the first
    variant with that code, stock Triton's first. exact: whether their results are bit for bit equal. alike: for
    each variant, the first one with equal code. codes: the first variant by the digest of its code. kept: for
    each conversion that moves data in mode `free`, why it is not free, empty if it is. digest, target: those
    of the kernel in decisions. expected: stock Triton's results. before: the arguments before the launch.
    """

    launch: Launch
    copies: Copies
    runs: dict[str, Callable[[], None]] = dataclasses.field(default_factory=dict)
    exact: dict[str, bool] = dataclasses.field(default_factory=dict)
    alike: dict[str, str] = dataclasses.field(default_factory=lambda: {STOCK: STOCK})
    codes: dict[str, str] = dataclasses.field(default_factory=dict)
    kept: tuple[str, ...] = ()
    digest: str = ""
    target: str = ""
    expected: Results | None = None

    def __post_init__(self) -> None:
        self.before = Results(self.copies)


class Contest(Child):
    """Compares the plan's variants for each launch that a `Watch` observes."""

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Copy the arguments of a launch, and return the function that measures it; None while a graph is
        captured.
        """
        import torch

        if torch.cuda.is_current_stream_capturing():
            return None
        kernel, key = launch.kernel, launch.key
        module = digest(kernel.asm.get("ttgir", ""))
        self.record(kernel=key, name=kernel.metadata.name, grid=list(launch.grid), module=module)
        self._grids[kernel.hash] += 1
        if (
            not self._skip.isdisjoint({(key, CONTEST), (key, TIMING), (key, STOCK)})
            or self._grids[kernel.hash] > self._plan.grids
        ):
            return nothing
        copies = self.copies_of(launch, CONTEST)
        if copies is None:
            return nothing
        compare = functools.partial(self._compare, launch, copies)
        return functools.partial(self._guarded, launch, CONTEST, compare)

    def _compare(self, launch: Launch, copies: Copies) -> None:
        """Find the fastest variant, and record the result.

        The record has everything that a decision needs: the kernel's digest, the target, the versions of
        ptxas, Triton and this package; for each variant the variant with equal code, whether its results are
        bit for bit stock Triton's, and its ratio in the first phase that it was in; and the times of the last
        phase.
        """
        key = launch.key
        field = Field(launch, copies)
        modes = [name for name in self._plan.modes if name != STOCK]
        kernels = {STOCK: compiled(launch.kernel, STOCK)[0]}
        field.codes[code_digest(kernels[STOCK])] = STOCK
        kernels |= self._compiled(field, modes)
        decided = self._plan.decided.get(field.digest, ())
        kernels |= self._compiled(field, [name for name in decided if name not in field.alike])
        if not self._admit(field, kernels):
            return
        best, first = STOCK, dict[str, Interval]()
        last: list[Times] | None = None
        if not self._plan.decide:
            self.record(kernel=key, begin=TIMING)
            last = self._timed(field, field.runs)
        elif len(field.runs) > 1:
            self.record(kernel=key, begin=TIMING)
            last = self._timed(field, field.runs, FIRST)
            first = {name: choose.faster(STOCK, name, last) for name in field.runs}
            if any(choose.may_win(name, last) for name in field.runs if name != STOCK):
                best, last = self._best(field, last), None
            if best != STOCK or last is None:
                three = dict.fromkeys((STOCK, field.alike.get(OURS, STOCK), best))
                finalists = [name for name in three if name in field.runs]
                last = self._timed(field, finalists) if len(finalists) > 1 else None
        if last is None:
            self.record(kernel=key, mode=CONTEST, problem=IDLE)
            return
        self.record(
            kernel=key,
            mode=CONTEST,
            digest=field.digest,
            target=field.target,
            ptxas=ptxas_version(field.target),
            gpu=self._gpu(),
            triton=installed() or "",
            package=CODE_VERSION,
            alike=field.alike,
            exact=field.exact,
            kept=field.kept,
            first={name: vars(ratio) for name, ratio in first.items()},
            best=best,
            second=[dict(times) for times in last],
            microseconds=statistics.median(last[0][STOCK]),
            ratio=choose.faster(STOCK, best, last).ratio,
        )

    def _best(self, field: Field, first: list[Times]) -> str:
        """The fastest variant of the first phase, after a phase of those that may be it."""
        contenders = choose.contenders(list(field.runs), first)
        if len(contenders) < 2:
            return contenders[0]
        names = list(dict.fromkeys((STOCK, *contenders)))
        return choose.candidate(names, self._timed(field, names, SECOND))

    def _admit(self, field: Field, kernels: Mapping[str, Any]) -> bool:
        """Add the kernels with stock Triton's results to the field. False, with a record, if stock Triton's
        own results vary between runs, or its kernel fails.

        Requires: `kernels` begin with stock Triton's, or those of an earlier call did.
        """
        key, copies = field.launch.key, field.copies
        for name, kernel in kernels.items():
            self.record(kernel=key, begin=name)
            try:
                run = again(kernel, field.launch, copies.arguments)
                results = self._results(run, copies)
                if name == FREE:
                    field.runs[name] = run
                    continue
                expected = field.expected or self._results(run, copies)
                differs = results.difference(expected, field.before)
            except Exception as error:
                self.failed(key, CONTEST if name == STOCK else name, error)
                if name == STOCK:
                    return False
                continue
            if differs and field.expected is None:
                self.record(kernel=key, mode=CONTEST, problem=f"stock Triton's results vary: {differs}")
                return False
            if differs:
                self.record(kernel=key, mode=name, problem=f"results: {differs}")
                continue
            field.expected = field.expected or results
            field.exact[name] = results.same(field.expected)
            field.runs[name] = run
        return True

    def _compiled(self, field: Field, names: Sequence[str]) -> dict[str, Any]:
        """Compile variants, and add to the field which have equal code. Returns the kernels with code that is
        new, by the first variant that has it.

        Digest and target are those of the plugin's report, because TRITON_OVERRIDE_ARCH may change the target.
        """
        launch = field.launch
        # Code that crashed an earlier child must not run, whichever variant has it.
        left_out: set[str] = set()
        alike: dict[str, str] = {}
        for name, variant in self._variants(launch, names).items():
            mode = f"{COMPILING}:{name}"
            if isinstance(variant, str):
                self.record(kernel=launch.key, mode=mode, problem=variant)
                continue
            field.digest, field.target = variant.key, variant.target
            if variant.error is not None:
                self.record(kernel=launch.key, mode=mode, problem=f"stock Triton does it: {variant.error}")
                continue
            alike[name] = field.codes.setdefault(variant.digest, name)
            if name == FREE:
                field.kept = variant.kept
            if (launch.key, name) in self._skip:
                left_out.add(alike[name])
        alike = {name: first for name, first in alike.items() if first not in left_out}
        field.alike |= alike
        return {
            name: compiled(launch.kernel, name, cached=True)[0]
            for name, first in alike.items()
            if name == first
        }

    def _variants(self, launch: Launch, names: Sequence[str]) -> dict[str, CompiledVariant | str]:
        """Compile variants into Triton's cache; return for each the plugin's report, or why it failed."""
        kernel, key = launch.kernel, launch.key
        wanted = [name for name in names if (key, f"{COMPILING}:{name}") not in self._skip]
        results: dict[str, CompiledVariant | str] = {}
        calls = {name: functools.partial(compiled_variant, kernel, name) for name in wanted}
        if self._plan.jobs > 1:

            def answered(name: str, _: bool, answer: CompiledVariant | str) -> None:
                results[name] = answer
                self.record(kernel=key, compiled=name)  # without records for long, the parent kills the child

            if calls:
                import_all()
            in_processes(calls, self._plan.jobs, answered, _PATIENCE)
            return {name: results[name] for name in wanted}
        for name, call in calls.items():
            self.record(kernel=key, begin=f"{COMPILING}:{name}")
            try:
                results[name] = call()
            except Exception as error:
                results[name] = first_line(error)
        return {name: results[name] for name in wanted}

    def _results(self, run: Callable[[], None], copies: Copies) -> Results:
        copies.restore()
        run()
        self.synchronize()
        return Results(copies)

    def _timed(self, field: Field, names: Iterable[str], part: float = 1.0) -> list[Times]:
        """Times of variants with warm caches and with empty ones; each takes `part` of the plan's seconds."""
        once = "tt.atomic" in field.launch.kernel.asm.get("ttgir", "")
        runs = {name: field.runs[name] for name in names}
        return [
            {
                name: list(times)
                for name, times in side_by_side(
                    runs,
                    self._clock(flush),
                    before=field.copies.restore,
                    seconds=part * self._plan.seconds,
                    in_a_row=not once and not flush,
                ).microseconds.items()
            }
            for flush in (False, True)
        ]


CONTEST = "contest"
"""The mode of the record with the result for a launch."""
IDLE = "nothing to do"
"""The reason for no result if all variants are stock Triton's kernel."""


@dataclass(frozen=True)
class CompiledVariant:
    """The parts of the plugin's report on a compiled variant that are needed (see `report.Report`).

    digest: of its machine code. kept: see `Field`; empty but in mode `free`.
    """

    key: str
    target: str
    error: str | None
    digest: str
    kept: tuple[str, ...] = ()


def code_digest(kernel: Any) -> str:
    """A digest of the machine code of a compiled kernel."""
    return hashlib.sha256(bytes(kernel.kernel)).hexdigest()[:32]


def compiled_variant(kernel: Any, name: str) -> CompiledVariant:
    """Compile a variant of a kernel. Raises the exception of the compile."""
    made, reports = compiled(kernel, name)
    report = reports[-1]
    moving = [one for one in report.conversions if one.lowering != NOOP] if name == FREE else []
    kept = tuple("" if one.lowering == LEFT_OUT else one.detail for one in moving)
    return CompiledVariant(report.key, report.target, report.error, code_digest(made), kept)


def import_all() -> None:
    """Import the modules that every compile needs, once for all processes that are forked from this one."""
    with contextlib.suppress(ImportError):  # each compile reports it
        for name in ("stage", "passes.attempts", "ptxas.registers", "ptxas.spills"):
            importlib.import_module(f"triton_linear.{name}")
