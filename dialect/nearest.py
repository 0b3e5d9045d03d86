"""Suggest the known word that is nearest to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LEAST_SIMILARITY = 0.75
"""The least similarity of a suggested name, from 0 to 1: high, as all names of passes have `linear-` in
common."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """A question that suggests the known name nearest to `name`; "" if none is near.

    >>> suggestion("canonicalise", ["canonicalize", "cse"])
    "did you mean 'canonicalize'?"
    """
    meant = nearest(name, known)
    return f"did you mean '{meant}'?" if meant else ""


def missing(name: str, known: Iterable[str]) -> str:
    """The message that there is no such name, with the nearest known one, or all if none is near.

    >>> missing("ours", ["stock", "outs"]), missing("x", ["stock"])
    ("no 'ours'; did you mean 'outs'?", "no 'x'; there are stock")
    """
    names = list(known)
    hint = suggestion(name, names) or f"there are {', '.join(names)}"
    return f"no '{name}'; {hint}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name nearest to `name`: the only one that begins with it, or a similar one; "" if there is
    none.

    >>> passes = ["linear-outline-conversions", "linear-select-lowering"]
    >>> nearest("linear-out", passes), nearest("linear-select-lower", passes), nearest("linear", passes)
    ('linear-outline-conversions', 'linear-select-lowering', '')
    """
    names = list(known)
    completions = [each for each in names if name and each.startswith(name)]
    if len(completions) == 1:
        return completions[0]
    similar = get_close_matches(name, names, n=1, cutoff=_LEAST_SIMILARITY)
    return similar[0] if similar else ""
