"""Reads PTX for registers that are written while a product in flight reads them (PTX ISA, wait_group)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_LABEL = re.compile(r"^(\$\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
_LEFT = re.compile(r"wgmma\.mma_async\S*\s*\{[^}]*\}\s*,\s*\{([^}]*)\}")
_WAIT = re.compile(r"wgmma\.wait_group\.sync\.aligned\s+(\d+)")
_WRITES = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?P<name>[a-z][\w.:]*)\s+(?P<first>\{[^}]*\}|%\w+)")
_REGISTER = re.compile(r"%\w+")
_STORES = ("st.", "bra", "bar.", "red.", "wgmma.", "cp.", "mbarrier.", "stmatrix", "fence")


def overwritten(ptx: str) -> set[str]:
    """Registers that a loop writes, going round twice, while a product in flight has them as left operand."""
    found: set[str] = set()
    for lines in _loops(ptx.splitlines()):
        flying: list[set[str]] = []
        group: set[str] = set()
        for line in [*lines, *lines]:
            if left := _LEFT.search(line):
                group |= set(_REGISTER.findall(left[1]))
            elif "wgmma.commit_group" in line:
                flying.append(group)
                group = set()
            elif wait := _WAIT.search(line):
                flying = flying[max(0, len(flying) - int(wait[1])) :]
            else:
                found |= _written(line) & group.union(*flying)
    return found


def _loops(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Runs of lines that a branch at their end leads back to."""
    labels: dict[str, int] = {}
    for i, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = i
        elif (branch := _BRANCH.search(line)) and branch[1] in labels:
            yield lines[labels[branch[1]] : i]


def _written(line: str) -> set[str]:
    found = _WRITES.match(line)
    if found is None or found["name"].startswith(_STORES):
        return set()
    return set(_REGISTER.findall(found["first"]))
