"""Runs each kernel of the figure at a small size in Triton's interpreter, on the CPU; prints errors as JSON.

    TRITON_INTERPRET=1 python -m bench.paper.interpreted [REGEX]

A process of its own, because Triton decides at import whether kernels are interpreted. An error is the largest
difference from the reference in float64, over the tolerance of the kernel.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import torch
from triton.runtime import interpreter

from bench.kernels.measure import Inputs

from .kernel_case import apart, families

_patch_tensor = interpreter._patch_lang_tensor


def patch_tensor(tensor: Any, scope: Any) -> None:
    """Triton's patch, less its int(array of one element), which NumPy 2.5 refuses."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def errors(only: str) -> dict[str, float]:
    """Of every kernel whose name `only` finds, at each of its small sizes."""
    found = {}
    for name, family in families().items():
        if re.search(only, name):
            for number, small in enumerate(family.small):
                work = family.build(**small)
                given = work.given(Inputs("cpu"))
                results = work.launch(torch, given, "cpu")
                error = apart(work.expected(torch, given), results)
                found[f"{name} {number}"] = error / work.tolerance if error else 0.0
                print(f"{name}, {small}: {error:.2g} of {work.tolerance}", file=sys.stderr, flush=True)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print the errors of all kernels, or of those that a pattern finds."""
    interpreter._patch_lang_tensor = patch_tensor
    patterns = sys.argv[1:] if argv is None else argv
    print(json.dumps(errors(patterns[0] if patterns else "")))


if __name__ == "__main__":
    main()
