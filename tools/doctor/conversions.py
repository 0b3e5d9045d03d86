"""Random conversions, alone and in programs, through Triton's backend and the interpreter."""

from __future__ import annotations

from triton_linear.tools.doctor.probe import Counts, Difference, Found
from triton_linear.tools.fuzzing.main import TARGETS
from triton_linear.tools.fuzzing.run import FuzzPlan, fuzz
from triton_linear.tools.fuzzing.write import write


def fuzzed(counts: Counts) -> Found:
    """As many as are asked for, over all targets; what stock Triton fails on alone does not count."""
    share = max(1, counts.conversions // len(TARGETS))
    plans = [FuzzPlan(target, counts.seed, share) for target in TARGETS]
    found = Found()
    for target, totals in fuzz(plans, counts.jobs).items():
        found.cases += totals.conversions
        for failure in totals.failures:
            program = write(failure.program).text.splitlines()[0]
            found.differences.append(Difference(f"{failure.kind} for {target}", program, failure.message))
        if not totals.ok and not totals.failures:
            found.differences.append(Difference(f"counts for {target}", f"seed {counts.seed}", str(totals)))
        if totals.conversions < share // 2:
            said = f"stock Triton fails on most: {dict(totals.stock)}"
            found.differences.append(Difference(f"few for {target}", f"seed {counts.seed}", said))
    return found
