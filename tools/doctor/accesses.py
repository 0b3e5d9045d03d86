"""Compare predictions of loads, stores and accesses to shared memory with the code that Triton emits."""

from __future__ import annotations

import itertools
import random
from functools import partial

from triton_linear.tools.doctor import global_accesses, local_accesses, staged_accesses
from triton_linear.tools.doctor.probe import Difference, Findings


def of_global_memory(count: int, seed: str) -> Findings:
    """Compare the number and the width of the instructions of loads and stores."""
    findings, rng = Findings(), random.Random(seed)
    for _ in range(count):
        kernel = global_accesses.global_kernel(rng)

        def difference(kernel: global_accesses.GlobalKernel = kernel) -> str | None:
            count, width = global_accesses.predicted(global_accesses.access_of(kernel.text), kernel.layout)
            emitted, widths = global_accesses.emitted(kernel.text, kernel.is_store)
            if (emitted, widths) == (count, {width}):
                return None
            return f"{emitted} instructions of {sorted(widths)} bytes, {count} of {width} are foreseen"

        findings.compare("store" if kernel.is_store else "load", str(kernel), difference)
    return findings


def of_shared_memory(count: int, seed: str) -> Findings:
    """Compare the kind and the width of the instructions that access shared memory."""
    findings, rng = Findings(), random.Random(seed)
    for number in range(count):
        access = ("store", "alloc", "load")[number % 3]
        kernel = local_accesses.LocalKernel(*local_accesses.tile(rng), access)

        def difference(kernel: local_accesses.LocalKernel = kernel) -> str | None:
            return local_accesses.instruction_difference(kernel)

        findings.compare(f"shared {access}", str(kernel), difference)
    return findings


def staged(target: str, count: int, seed: int) -> Findings:
    """Compare the wavefronts of accesses to shared memory, Triton's own and staged ones, run in the
    interpreter.

    Cases that stock Triton rejects are drawn again.
    """
    findings, kind = Findings(), f"wavefronts for {target}"
    drawn = zip(staged_accesses.random_cases(seed, target), range(4 * count), strict=False)
    accepted = (case for case, _ in drawn if not staged_accesses.is_refused(case))
    for case in itertools.islice(accepted, count):
        findings.compare(kind, str(case), partial(staged_accesses.wavefront_difference, case))
    if findings.cases < count:
        findings.differences.append(Difference(kind, f"seed {seed}", "stock Triton refuses most"))
    return findings
