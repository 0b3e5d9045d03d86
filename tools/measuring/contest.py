"""The child of `triton-linear tune`: variants of a kernel against each other.

Each is compiled, several at once where the plan has jobs, run once on copies of the arguments, and compared
with what stock Triton's gives; those with the same code are one. They are timed in turn, with warm and with
empty caches; then the fastest, stock Triton's and the plugin's are timed again, and that is what decides: the
first figures favour who was lucky.

    {"kernel": KEY, "name": ..., "grid": [...], "warps": ...}           a launch that is new
    {"kernel": KEY, "begin": VARIANT}                                   it is compiled and run
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
from triton_linear.tools.measuring.ahead import CONTEST, Made, make
from triton_linear.tools.measuring.beside import Processes
from triton_linear.tools.measuring.child import Child, MeasuringPlan, compiled, nothing, said
from triton_linear.tools.measuring.results import Results
from triton_linear.tools.support.copies import Copies, NoCopy
from triton_linear.tools.support.launches import Launch, again
from triton_linear.tools.support.modes import VARIANT
from triton_linear.tools.support.timing import side_by_side
from triton_linear.variants import OURS, STOCK

TIMING, COMPILING = "timing", "compiling"
"""What a child says that it is at while variants are timed, and, with a variant's name, compiled."""


class Contest(Child):
    """Has the variants of the plan compete for each launch that a `Watch` shows."""

    def __init__(self, plan: MeasuringPlan) -> None:
        super().__init__(plan)
        self._known = ahead.read(plan.compiled)

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
            not self._skip.isdisjoint({(key, CONTEST), (key, TIMING)})
            or self._grids[kernel.hash] > self._plan.grids
        ):
            return nothing
        try:
            copies = Copies(launch.arguments, launch.types)
        except Exception as error:
            reason = str(error) if isinstance(error, NoCopy) else said(error)
            self.record(kernel=key, mode=CONTEST, problem=reason)
            return nothing
        return lambda: self._guarded(launch, CONTEST, functools.partial(self._hold, launch, copies))

    def _hold(self, launch: Launch, copies: Copies) -> None:
        """Find out which variant is taken, and record it.

        The record has the kernel's digest, target, ptxas and other versions, what each variant's code is the
        same as, whether its results are bit for bit stock Triton's, its ratio to stock Triton's in the first
        round, and the times of the second: all that a decision is made of.
        """
        key = launch.key
        made, about = self._compiled(launch)
        if len(made) < 2:
            self.record(kernel=key, mode=CONTEST, problem="nothing to do")
            return
        # What has the code of a variant that ended another child would end this one.
        left_out = {bytes(kernel.kernel) for name, kernel in made.items() if (key, name) in self._skip}
        made = {name: kernel for name, kernel in made.items() if bytes(kernel.kernel) not in left_out}
        launches: dict[str, Callable[[], None]] = {}
        alike: dict[str, str] = {}
        exact: dict[str, bool] = {}
        codes: dict[bytes, str] = {}
        expected: Results | None = None
        before = Results(copies)
        for name, kernel in made.items():
            code = bytes(kernel.kernel)
            alike[name] = codes.setdefault(code, name)
            if alike[name] != name:
                continue
            self.record(kernel=key, begin=name)
            try:
                run = again(kernel, launch, copies.arguments)
                found = self._results(run, copies)
                varies = "" if expected else self._results(run, copies).difference(found, before)
            except Exception as error:
                self.failed(key, CONTEST if name == STOCK else name, error)
                if name == STOCK:
                    return
                continue
            if varies:
                self.record(kernel=key, mode=CONTEST, problem=f"stock Triton's results vary: {varies}")
                return
            if expected is None:
                expected = found
            elif problem := found.difference(expected, before):
                self.record(kernel=key, mode=name, problem=f"results: {problem}")
                continue
            exact[name] = found.same(expected)
            launches[name] = run
        self.record(kernel=key, begin=TIMING)
        first = self._timed(launch, copies, launches)
        best = choose.candidate(list(launches), first)
        finalists = {name: launches[name] for name in (STOCK, alike.get(OURS, STOCK), best) if name in launches}
        second = self._timed(launch, copies, finalists) if len(finalists) > 1 else first
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
            second=[{name: times[name] for name in finalists} for times in second],
            microseconds=statistics.median(second[0][STOCK]),
            ratio=choose.faster(STOCK, best, second).ratio,
        )

    def _compiled(self, launch: Launch) -> tuple[dict[str, Any], tuple[str, str]]:
        """The kernel in each variant that is made of it, stock Triton's first, and its digest and target as the
        plugin has them: TRITON_OVERRIDE_ARCH has kernels compiled for another target than the GPU."""
        made = {STOCK: compiled(launch.kernel, STOCK)[0]}
        about = ("", "")
        for name, found in self._variants(launch).items():
            compiling = f"{COMPILING}:{name}"
            if isinstance(found, str):
                self.record(kernel=launch.key, mode=compiling, problem=found)
                continue
            about = found.key, found.target
            if found.is_ours:
                made[name] = compiled(launch.kernel, f"{VARIANT}:{name}", cached=True)[0]
            elif found.error is not None:
                self.record(kernel=launch.key, mode=compiling, problem=f"stock Triton does it: {found.error}")
        return made, about

    def _variants(self, launch: Launch) -> dict[str, Made | str]:
        """Compile the variants into Triton's cache: what the plugin says of each, or why there is none."""
        kernel, key = launch.kernel, launch.key
        wanted = [name for name in self._plan.modes if name != STOCK]
        wanted = [name for name in wanted if (key, f"{COMPILING}:{name}") not in self._skip]
        found = {name: self._known[code] for name in wanted if (code := (kernel.hash, name)) in self._known}
        missing = [name for name in wanted if name not in found]
        if self._plan.jobs > 1:
            with Processes(self._plan.jobs, found.__setitem__, found.__setitem__) as processes:
                for name in missing:
                    processes.submit(name, functools.partial(make, kernel, name))
                processes.finish()
            return {name: found[name] for name in wanted}
        for name in missing:
            self.record(kernel=key, begin=f"{COMPILING}:{name}")
            try:
                found[name] = make(kernel, name)
            except Exception as error:
                found[name] = said(error)
        return {name: found[name] for name in wanted}

    def _results(self, run: Callable[[], None], copies: Copies) -> Results:
        copies.restore()
        run()
        self.synchronize()
        return Results(copies)

    def _timed(
        self, launch: Launch, copies: Copies, launches: Mapping[str, Callable[[], None]]
    ) -> list[Mapping[str, list[float]]]:
        """Times with warm caches and with empty ones."""
        once = "tt.atomic" in launch.kernel.asm.get("ttgir", "")
        return [
            {
                name: list(times)
                for name, times in side_by_side(
                    launches,
                    self._clock(flush),
                    before=copies.restore,
                    seconds=self._plan.seconds,
                    in_a_row=not once and not flush,
                ).microseconds.items()
            }
            for flush in (False, True)
        ]
