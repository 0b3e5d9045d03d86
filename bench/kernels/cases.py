"""Every case of the suite."""

from __future__ import annotations

import functools

from ..harness.cases import called
from . import cases_torch, cases_torch_moves, cases_triton
from .case import Case

FIRST = (
    "row_sum_small",
    "mean_var_middle",
    "embedding_sum",
    "expert_gemv_int8",
    "softmax_plus_transpose",
    "bias_gelu_transpose",
    "batch_norm_channels_last",
    "quantise_columns_transposed",
    "column_sum",
)
"""What a run of few seconds is to have."""


@functools.cache
def cases() -> tuple[Case, ...]:
    """In the order in which they run."""
    modules = (cases_torch, cases_torch_moves, cases_triton)
    every = {case.name: case for module in modules for case in module.CASES}
    first = [every.pop(name) for name in FIRST]
    return (*first, *every.values())


def by_name(name: str) -> Case:
    """The case of that name."""
    return called(name, cases())
