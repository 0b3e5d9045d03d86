"""The measuring child of `triton-linear tune`: it compares the variants of each kernel.

Each variant is compiled, several in parallel if the plan has jobs, run once on copies of the arguments, and
its results are compared with stock Triton's. Variants with equal code count as one. They are timed
alternately, with warm and with empty caches, in three phases. The first is short and has all variants; if
none is faster than stock Triton, it is the last. The second has the variants that may be the fastest, and
selects one. The third has that variant, stock Triton and the plugin, and only its times decide, because
earlier times are biased in favour of the selected variant.

    {"kernel": KEY, "name": ..., "grid": [...], "warps": ...}           a new launch
    {"kernel": KEY, "begin": VARIANT}                                   compiling or running begins
    {"kernel": KEY, "compiled": VARIANT}                                a variant is compiled
    {"kernel": KEY, "mode": VARIANT, "problem": REASON}                 why a variant is left out
    {"kernel": KEY, "mode": "contest", "ratio": ..., ...}               the result (`Contest._compare`)
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
from triton_linear.tools.measuring.child import Child, MeasuringPlan, compiled, first_line, nothing
from triton_linear.tools.measuring.choose import Times
from triton_linear.tools.measuring.results import Results
from triton_linear.tools.support.copies import Copies, NoCopy
from triton_linear.tools.support.launches import Launch, again
from triton_linear.tools.support.modes import VARIANT
from triton_linear.tools.support.timing import side_by_side
from triton_linear.variants import OURS, STOCK

TIMING, COMPILING = "timing", "compiling"
"""The modes of records while variants are timed and, followed by a variant's name, compiled."""
_PATIENCE = 90.0
"""The time limit for compiling a variant, in seconds; less than the time after which the parent kills the
child."""
FIRST, SECOND = 0.25, 0.5
"""The parts of the plan's seconds that the first and the second phase take; the third takes all."""

Launches = Mapping[str, Callable[[], None]]


class Contest(Child):
    """Compares the plan's variants for each launch that a `Watch` observes."""

    def __init__(self, plan: MeasuringPlan) -> None:
        super().__init__(plan)
        self._compiled_before = CompiledFile(plan.compiled)

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Copy the arguments of a launch, and return the function that measures it; None while a graph is
        captured.
        """
        import torch

        if torch.cuda.is_current_stream_capturing():
            return None
        kernel, key = launch.kernel, launch.key
        if not self.measures(launch):
            return nothing
        entry = {"name": kernel.metadata.name, "grid": list(launch.grid), "warps": kernel.metadata.num_warps}
        self.record(kernel=key, **entry)
        self._grids[kernel.hash] += 1
        if (
            not self._skip.isdisjoint({(key, CONTEST), (key, TIMING), (key, STOCK)})
            or self._grids[kernel.hash] > self._plan.grids
        ):
            return nothing
        try:
            copies = Copies(launch.arguments, launch.types)
        except Exception as error:
            reason = str(error) if isinstance(error, NoCopy) else first_line(error)
            self.record(kernel=key, mode=CONTEST, problem=reason)
            return nothing
        return functools.partial(self._wait_and_compare, launch, copies)

    def _wait_and_compare(self, launch: Launch, copies: Copies) -> None:
        """Wait for the compiling child, then compare the variants."""
        before = self._compiled_before.variants(launch.kernel.hash)
        self._guarded(launch, CONTEST, functools.partial(self._compare, launch, copies, before))

    def _compare(self, launch: Launch, copies: Copies, before: Mapping[str, CompiledVariant | str]) -> None:
        """Find the fastest variant, and record the result.

        The record has everything that a decision needs: the kernel's digest, the target, the versions of
        ptxas, Triton and this package; for each variant the variant with equal code, whether its results are
        bit for bit stock Triton's, and its ratio in the first phase; and the times of the last phase.

        before: the variants that the compiling child has compiled.
        """
        key = launch.key
        kernels, alike, about = self._compiled(launch, before)
        if len(alike) < 2:
            self.record(kernel=key, mode=CONTEST, problem=IDLE)
            return
        correct = self._correct(launch, copies, kernels)
        if correct is None:
            return
        launches, exact = correct
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
        """The variant to be confirmed, after a phase of the variants that may be the fastest."""
        contenders = choose.contenders(list(launches), first)
        if len(contenders) < 2:
            return contenders[0]
        names = dict.fromkeys((STOCK, *contenders))
        more = self._timed(launch, copies, {name: launches[name] for name in names}, SECOND)
        return choose.candidate(list(names), more)

    def _correct(
        self, launch: Launch, copies: Copies, kernels: Mapping[str, Any]
    ) -> tuple[dict[str, Callable[[], None]], dict[str, bool]] | None:
        """For each kernel with stock Triton's results, a function that launches it, and whether the results
        are bit for bit equal. None, with a record, if stock Triton's results vary between runs, or its kernel
        fails.
        """
        key = launch.key
        launches: dict[str, Callable[[], None]] = {}
        exact: dict[str, bool] = {}
        expected: Results | None = None
        before = Results(copies)
        for name, kernel in kernels.items():
            self.record(kernel=key, begin=name)
            try:
                run = again(kernel, launch, copies.arguments)
                results = self._results(run, copies)
                varies = "" if expected else self._results(run, copies).difference(results, before)
            except Exception as error:
                self.failed(key, CONTEST if name == STOCK else name, error)
                if name == STOCK:
                    return None
                continue
            if varies:
                self.record(kernel=key, mode=CONTEST, problem=f"stock Triton's results vary: {varies}")
                return None
            if expected is None:
                expected = results
            elif problem := results.difference(expected, before):
                self.record(kernel=key, mode=name, problem=f"results: {problem}")
                continue
            exact[name] = results.same(expected)
            launches[name] = run
        return launches, exact

    def _compiled(
        self, launch: Launch, before: Mapping[str, CompiledVariant | str]
    ) -> tuple[dict[str, Any], dict[str, str], tuple[str, str]]:
        """The kernels with different code, by the first variant that has the code, stock Triton's first; for
        each variant, the first variant with equal code; and the kernel's digest and target.

        Digest and target are those of the plugin's report, because TRITON_OVERRIDE_ARCH may change the target.
        """
        kernels = {STOCK: compiled(launch.kernel, STOCK)[0]}
        codes = {code_digest(kernels[STOCK]): STOCK}
        alike, about = {STOCK: STOCK}, ("", "")
        # Code that crashed an earlier child must not run, whichever variant has it.
        left_out: set[str] = set()
        for name, variant in self._variants(launch, before).items():
            compiling = f"{COMPILING}:{name}"
            if isinstance(variant, str):
                self.record(kernel=launch.key, mode=compiling, problem=variant)
                continue
            about = variant.key, variant.target
            if variant.is_ours:
                alike[name] = codes.setdefault(variant.digest, name)
                if (launch.key, name) in self._skip:
                    left_out.add(alike[name])
            elif variant.error is not None:
                self.record(kernel=launch.key, mode=compiling, problem=f"stock Triton does it: {variant.error}")
        alike = {name: first for name, first in alike.items() if first not in left_out}
        for name in dict.fromkeys(alike.values()):
            if name != STOCK:
                kernels[name] = compiled(launch.kernel, f"{VARIANT}:{name}", cached=True)[0]
        return kernels, alike, about

    def _variants(
        self, launch: Launch, before: Mapping[str, CompiledVariant | str]
    ) -> dict[str, CompiledVariant | str]:
        """Compile the variants into Triton's cache; return for each the plugin's report, or why it failed."""
        kernel, key = launch.kernel, launch.key
        wanted = [name for name in self._plan.modes if name != STOCK]
        wanted = [name for name in wanted if (key, f"{COMPILING}:{name}") not in self._skip]
        results = {name: before[name] for name in wanted if name in before}
        variants = ahead.Variants(kernel)
        missing = {name: functools.partial(variants.make, name) for name in wanted if name not in results}
        if self._plan.jobs > 1:

            def answered(name: str, answer: CompiledVariant | str) -> None:
                results[name] = answer
                self.record(kernel=key, compiled=name)  # without records for long, the parent kills the child

            if missing:
                ahead.import_all()
            with Processes(self._plan.jobs, answered, answered, _PATIENCE) as processes:
                for name, call in missing.items():
                    processes.submit({name: call})
                processes.finish()
            return {name: results[name] for name in wanted}
        for name, call in missing.items():
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

    def _timed(self, launch: Launch, copies: Copies, launches: Launches, part: float = 1.0) -> list[Times]:
        """Times with warm caches and with empty ones; each takes `part` of the plan's seconds."""
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
