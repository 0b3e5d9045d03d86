"""All cases, package by package."""

from __future__ import annotations

from .case import Case


def cases() -> list[Case]:
    """All of them, in the order in which they run."""
    from . import cases_fla, cases_gems, cases_liger, cases_others

    return [*cases_liger.CASES, *cases_fla.CASES, *cases_others.CASES, *cases_gems.CASES]
