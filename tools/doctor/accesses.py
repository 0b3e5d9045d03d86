"""Loads, stores and accesses to shared memory: what is predicted of them, beside what Triton emits."""

from __future__ import annotations

import itertools
import random
from functools import partial

from triton_linear.tools.doctor import global_accesses, local_accesses, staged_accesses
from triton_linear.tools.doctor.probe import Difference, Found


def of_global_memory(count: int, seed: str) -> Found:
    """Loads and stores: how many instructions, and how wide."""
    found, rng = Found(), random.Random(seed)
    for _ in range(count):
        kernel = global_accesses.global_kernel(rng)

        def otherwise(kernel: global_accesses.GlobalKernel = kernel) -> str | None:
            count, width = global_accesses.predicted(global_accesses.access_of(kernel.text), kernel.layout)
            emitted, widths = global_accesses.emitted(kernel.text, kernel.is_store)
            if (emitted, widths) == (count, {width}):
                return None
            return f"{emitted} instructions of {sorted(widths)} bytes, {count} of {width} are foreseen"

        found.compare("store" if kernel.is_store else "load", str(kernel), otherwise)
    return found


def of_shared_memory(count: int, seed: str) -> Found:
    """Stores to and loads from shared memory: which instructions, and how wide."""
    found, rng = Found(), random.Random(seed)
    for number in range(count):
        access = ("store", "alloc", "load")[number % 3]
        kernel = local_accesses.LocalKernel(*local_accesses.tile(rng), access)

        def otherwise(kernel: local_accesses.LocalKernel = kernel) -> str | None:
            return local_accesses.emitted_otherwise(kernel)

        found.compare(f"shared {access}", str(kernel), otherwise)
    return found


def staged(target: str, count: int, seed: int) -> Found:
    """Accesses to shared memory, run in the interpreter: the wavefronts of Triton's, and of staged ones.

    What stock Triton refuses is drawn again.
    """
    found, kind = Found(), f"wavefronts for {target}"
    drawn = zip(staged_accesses.random_cases(seed, target), range(4 * count), strict=False)
    taken = (case for case, _ in drawn if not staged_accesses.is_refused(case))
    for case in itertools.islice(taken, count):
        found.compare(kind, str(case), partial(staged_accesses.taken_otherwise, case))
    if found.cases < count:
        found.differences.append(Difference(kind, f"seed {seed}", "stock Triton refuses most"))
    return found
