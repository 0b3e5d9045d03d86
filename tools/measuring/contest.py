"""The child of `triton-linear tune`: variants of a kernel against each other.

Each is compiled, several at once where the plan has jobs, run once on copies of the arguments, and compared
with what stock Triton's gives; those with the same code are one. They are timed in turn, with warm and with
empty caches, in three rounds. A short one of all; where nobody is faster than stock Triton, that is all. One of
those that may be the fastest yet, which names one. And one of that, stock Triton's and the plugin's, which
decides alone: the figures before favour who was lucky.

    {"kernel": KEY, "name": ..., "grid": [...], "warps": ...}           a launch that is new
    {"kernel": KEY, "begin": VARIANT}                                   it is compiled and run
    {"kernel": KEY, "compiled": VARIANT}                                it is, beside others
    {"kernel": KEY, "mode": VARIANT, "problem": REASON}                 why it does not take part
    {"kernel": KEY, "mode": "contest", "ratio": ..., ...}               how it ended (`Contest._hold`)
    {"launches": {KEY: COUNT}}                                          at the end
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from triton_linear.decisions import ptxas_version
from triton_linear.dialect.sources import source_digest
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.tools.measuring import ahead, choose
from triton_linear.tools.measuring.ahead import CONTEST, IDLE, CompiledFile, CompiledVariant, code_digest
from triton_linear.tools.measuring.beside import Processes
from triton_linear.tools.measuring.child import Child, MeasuringPlan, compiled, nothing, said
from triton_linear.tools.measuring.choose import Times
from triton_linear.tools.measuring.results import Results
from triton_linear.tools.support.copies import Copies, NoCopy
from triton_linear.tools.support.launches import Launch, again
from triton_linear.tools.support.modes import VARIANT
from triton_linear.tools.support.timing import side_by_side
from triton_linear.variants import OURS, STOCK

TIMING, COMPILING = "timing", "compiling"
"""What a child says that it is at while variants are timed, and, with a variant's name, compiled."""
_PATIENCE = 90.0
"""Seconds that one variant may take to be compiled: fewer than who watches waits for a record."""
FIRST, SECOND = 0.25, 0.5
"""The parts of the plan's seconds that the first round takes, and the second; the last one takes all."""

Launches = Mapping[str, Callable[[], None]]


class Contest(Child):
    """Has the variants of the plan compete for each launch that a `Watch` shows."""

    def __init__(self, plan: MeasuringPlan) -> None:
        super().__init__(plan)
        self._compiled_before = CompiledFile(plan.compiled)

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Copy the arguments of a launch; what is returned measures it. None while a graph is captured."""
        import torch

        if torch.cuda.is_current_stream_capturing():
            return None
        kernel, key = launch.kernel, launch.key
        if not self.measures(launch):
            return nothing
        about = {"name": kernel.metadata.name, "grid": list(launch.grid), "warps": kernel.metadata.num_warps}
        self.record(kernel=key, **about)
        self._grids[kernel.hash] += 1
        if (
            not self._skip.isdisjoint({(key, CONTEST), (key, TIMING), (key, STOCK)})
            or self._grids[kernel.hash] > self._plan.grids
        ):
            return nothing
        try:
            copies = Copies(launch.arguments, launch.types)
        except Exception as error:
            reason = str(error) if isinstance(error, NoCopy) else said(error)
            self.record(kernel=key, mode=CONTEST, problem=reason)
            return nothing
        return functools.partial(self._begin, launch, copies)

    def _begin(self, launch: Launch, copies: Copies) -> None:
        """Hold the contest, as soon as the variants are compiled."""
        before = self._compiled_before.variants(launch.kernel.hash)
        self._guarded(launch, CONTEST, functools.partial(self._hold, launch, copies, before))

    def _hold(self, launch: Launch, copies: Copies, before: Mapping[str, CompiledVariant | str]) -> None:
        """Find out which variant is taken, and record it.

        The record has the kernel's digest, target, ptxas and other versions, what each variant's code is the
        same as, whether its results are bit for bit stock Triton's, its ratio to stock Triton's in the first
        rounds, and the times of the last: all that a decision is made of.

        before: what became of variants that were compiled by another process.
        """
        key = launch.key
        made, alike, about = self._compiled(launch, before)
        if len(alike) < 2:
            self.record(kernel=key, mode=CONTEST, problem=IDLE)
            return
        ready = self._right(launch, copies, made)
        if ready is None:
            return
        launches, exact = ready
        self.record(kernel=key, begin=TIMING)
        first = self._timed(launch, copies, launches, FIRST)
        best, last = STOCK, first
        if any(choose.may_win(name, first) for name in launches if name != STOCK):
            best = self._best(launch, copies, launches, first)
            ours = alike.get(OURS, STOCK)
            finalists = {name: launches[name] for name in (STOCK, ours, best) if name in launches}
            last = self._timed(launch, copies, finalists) if len(finalists) > 1 else first
        self.record(
            kernel=key,
            mode=CONTEST,
            digest=about[0],
            target=about[1],
            ptxas=ptxas_version(about[1]),
            gpu=self._gpu(),
            triton=installed() or "",
            package=source_digest(),
            alike=alike,
            exact=exact,
            first={name: vars(choose.faster(STOCK, name, first)) for name in launches},
            best=best,
            second=[dict(times) for times in last],
            microseconds=statistics.median(last[0][STOCK]),
            ratio=choose.faster(STOCK, best, last).ratio,
        )

    def _best(self, launch: Launch, copies: Copies, launches: Launches, first: list[Times]) -> str:
        """The variant to be confirmed, after a round of those only that may be the fastest."""
        contenders = choose.contenders(list(launches), first)
        if len(contenders) < 2:
            return contenders[0]
        names = dict.fromkeys((STOCK, *contenders))
        more = self._timed(launch, copies, {name: launches[name] for name in names}, SECOND)
        return choose.candidate(list(names), more)

    def _right(
        self, launch: Launch, copies: Copies, made: Mapping[str, Any]
    ) -> tuple[dict[str, Callable[[], None]], dict[str, bool]] | None:
        """What launches each code that gives stock Triton's results, and whether they are the same to the last
        bit; None, and a record, where those vary by themselves or stock Triton's fails."""
        key = launch.key
        launches: dict[str, Callable[[], None]] = {}
        exact: dict[str, bool] = {}
        expected: Results | None = None
        before = Results(copies)
        for name, kernel in made.items():
            self.record(kernel=key, begin=name)
            try:
                run = again(kernel, launch, copies.arguments)
                found = self._results(run, copies)
                varies = "" if expected else self._results(run, copies).difference(found, before)
            except Exception as error:
                self.failed(key, CONTEST if name == STOCK else name, error)
                if name == STOCK:
                    return None
                continue
            if varies:
                self.record(kernel=key, mode=CONTEST, problem=f"stock Triton's results vary: {varies}")
                return None
            if expected is None:
                expected = found
            elif problem := found.difference(expected, before):
                self.record(kernel=key, mode=name, problem=f"results: {problem}")
                continue
            exact[name] = found.same(expected)
            launches[name] = run
        return launches, exact

    def _compiled(
        self, launch: Launch, before: Mapping[str, CompiledVariant | str]
    ) -> tuple[dict[str, Any], dict[str, str], tuple[str, str]]:
        """Each code of the kernel by the first variant that has it, stock Triton's first; what the code of each
        variant is the same as; and the kernel's digest and target as the plugin has them: TRITON_OVERRIDE_ARCH
        has kernels compiled for another target than the GPU."""
        made = {STOCK: compiled(launch.kernel, STOCK)[0]}
        codes = {code_digest(made[STOCK]): STOCK}
        alike, about = {STOCK: STOCK}, ("", "")
        # What has the code of a variant that ended another child would end this one.
        left_out: set[str] = set()
        for name, found in self._variants(launch, before).items():
            compiling = f"{COMPILING}:{name}"
            if isinstance(found, str):
                self.record(kernel=launch.key, mode=compiling, problem=found)
                continue
            about = found.key, found.target
            if found.is_ours:
                alike[name] = codes.setdefault(found.digest, name)
                if (launch.key, name) in self._skip:
                    left_out.add(alike[name])
            elif found.error is not None:
                self.record(kernel=launch.key, mode=compiling, problem=f"stock Triton does it: {found.error}")
        alike = {name: first for name, first in alike.items() if first not in left_out}
        for name in dict.fromkeys(alike.values()):
            if name != STOCK:
                made[name] = compiled(launch.kernel, f"{VARIANT}:{name}", cached=True)[0]
        return made, alike, about

    def _variants(
        self, launch: Launch, before: Mapping[str, CompiledVariant | str]
    ) -> dict[str, CompiledVariant | str]:
        """Compile the variants into Triton's cache: what the plugin says of each, or why there is none."""
        kernel, key = launch.kernel, launch.key
        wanted = [name for name in self._plan.modes if name != STOCK]
        wanted = [name for name in wanted if (key, f"{COMPILING}:{name}") not in self._skip]
        found = {name: before[name] for name in wanted if name in before}
        variants = ahead.Variants(kernel)
        missing = {name: functools.partial(variants.make, name) for name in wanted if name not in found}
        if self._plan.jobs > 1:

            def answered(name: str, answer: CompiledVariant | str) -> None:
                found[name] = answer
                self.record(kernel=key, compiled=name)  # who watches gives up where nothing is said for long

            if missing:
                ahead.import_all()
            with Processes(self._plan.jobs, answered, answered, _PATIENCE) as processes:
                for name, call in missing.items():
                    processes.submit({name: call})
                processes.finish()
            return {name: found[name] for name in wanted}
        for name, call in missing.items():
            self.record(kernel=key, begin=f"{COMPILING}:{name}")
            try:
                found[name] = call()
            except Exception as error:
                found[name] = said(error)
        return {name: found[name] for name in wanted}

    def _results(self, run: Callable[[], None], copies: Copies) -> Results:
        copies.restore()
        run()
        self.synchronize()
        return Results(copies)

    def _timed(self, launch: Launch, copies: Copies, launches: Launches, part: float = 1.0) -> list[Times]:
        """Times with warm caches and with empty ones, for such a part of the plan's seconds each."""
        once = "tt.atomic" in launch.kernel.asm.get("ttgir", "")
        return [
            {
                name: list(times)
                for name, times in side_by_side(
                    launches,
                    self._clock(flush),
                    before=copies.restore,
                    seconds=part * self._plan.seconds,
                    in_a_row=not once and not flush,
                ).microseconds.items()
            }
            for flush in (False, True)
        ]
