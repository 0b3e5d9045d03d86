"""Without a GPU: every case at a small size on the CPU, eager and as Dynamo and AOTAutograd see it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..harness.cases import say
from ..harness.child import guarded
from .work import Work, apart
from .zoo import Case


def run(case: Case) -> dict[str, Any]:
    """How far the compiled model is from the eager one, and how many graphs it is."""
    import torch
    import torch._dynamo

    begun = time.perf_counter()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager = Work(case, "cpu", tiny=True).results()
    compiled = Work(
        case, "cpu", lambda model: torch.compile(model, dynamic=False, backend="aot_eager"), tiny=True
    ).results()
    counted = torch._dynamo.utils.counters
    return {
        "tensors": len(eager),
        **apart(eager, compiled, case.trains),
        "graphs": counted["stats"]["unique_graphs"],
        "breaks": dict(counted["graph_break"]),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def check(cases: Sequence[Case]) -> int:
    """Run and print all; the exit status."""
    failed = 0
    for case in cases:
        found = guarded(run, case)
        bad = "error" in found or not found["apart"] <= 1e-3
        failed += bad
        print(f"{case.name}: {'FAILED ' if bad else ''}{found}", flush=True)
    say(f"models: {len(cases)} cases, {failed} failed")
    return int(bool(failed))
