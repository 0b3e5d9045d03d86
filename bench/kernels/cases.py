"""Every case of the suite."""

from __future__ import annotations

import functools

from . import cases_torch, cases_triton
from .case import Case


@functools.cache
def cases() -> tuple[Case, ...]:
    """In the order in which they run."""
    return (*cases_torch.CASES, *cases_triton.CASES)


def by_name(name: str) -> Case:
    """The case of that name."""
    return next(case for case in cases() if case.name == name)
