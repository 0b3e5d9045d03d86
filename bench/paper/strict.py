"""`bench.kernels.measure`'s session: nothing falls back in silence, and kernels may come from the cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.kernels import measure
from bench.paper import ways


class Session(measure.Session):
    """A case of Triton's in `ways`: a way that fails raises."""

    def _make(self, mode: str) -> measure.Variant:
        import torch

        with ways.context(mode), measure.loaded() as kernels, torch.no_grad():
            single, outputs = self._captured(1)
            if not self.calls:
                milliseconds = min(measure.replay({"": [single]}, 5)[""])
                calls = math.ceil(measure.GRAPH_MS / max(milliseconds, 1e-3))
                self.calls = max(1, min(measure.MOST_CALLS, calls))
            several = [self._captured(self.calls, pool)[0] for pool in self._pools]
        facts = {"kernels": [measure.kernel_facts(kernel) for kernel in kernels]}
        return measure.Variant(single, several, outputs, facts, list(kernels))


def measured(session: Session, flush: Any, judge: Any) -> Mapping[str, Mapping[str, Any]]:
    """By way what is known of its kernels, what `judge` says of its results, and its times; or its error.

    Raises what stock Triton does, and what leaves the GPU of no use to this process.
    """
    found: dict[str, dict[str, Any]] = {}
    for way in ways.WAYS:
        try:
            found[way] = {**session.variant(way).facts, **judge(session.results(way))}
        except Exception as problem:
            if way == ways.STOCK or measure.lost(problem):
                raise
            found[way] = {"error": f"{type(problem).__name__}: {problem}"[:500]}
    good = [way for way, facts in found.items() if "error" not in facts]
    warm, cold = measure.timed(session, good, flush)
    for way in good:
        found[way] |= warm[way]
        if way in cold:
            found[way]["cold"] = cold[way]
    return found
