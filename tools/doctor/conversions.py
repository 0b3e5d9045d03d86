"""Compile random conversions, alone and in programs, by Triton's backend and run them in the interpreter."""

from __future__ import annotations

from triton_linear.tools.doctor.probe import Counts, Difference, Findings
from triton_linear.tools.fuzzing.main import TARGETS
from triton_linear.tools.fuzzing.run import FuzzPlan, fuzz
from triton_linear.tools.fuzzing.write import write


def fuzzed(counts: Counts) -> Findings:
    """Fuzz `counts.conversions` conversions over all targets. Cases on which stock Triton fails
    do not count.
    """
    share = max(1, counts.conversions // len(TARGETS))
    plans = [FuzzPlan(target, counts.seed, share) for target in TARGETS]
    findings = Findings()
    for target, totals in fuzz(plans, counts.jobs).items():
        findings.cases += totals.conversions
        for failure in totals.failures:
            program = write(failure.program).text.splitlines()[0]
            findings.differences.append(Difference(f"{failure.kind} for {target}", program, failure.message))
        if not totals.ok and not totals.failures:
            findings.differences.append(Difference(f"counts for {target}", f"seed {counts.seed}", str(totals)))
        if totals.conversions < share // 2:
            description = f"stock Triton fails on most: {dict(totals.stock)}"
            findings.differences.append(Difference(f"few for {target}", f"seed {counts.seed}", description))
    return findings
