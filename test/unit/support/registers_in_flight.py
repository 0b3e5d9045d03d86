"""Reads machine code for registers that are used while a product in flight has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SHOWN = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);")
_LOOP = re.compile(r"BRA.*`\((\.L_x_\d+)\)")
_PREDICATE = re.compile(r"^@!?U?P\w+ ")
_PRODUCT = re.compile(r"GMMA\.\d+x(\d+)x\S* R(\d+), (?:R(\d+))?")
_HELD_BACK = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
_WRITTEN = re.compile(r"^(\S+)\s+(?:P\w+, )*R(\d+)")
_WRITES_NONE = ("ST", "RED", "LDGSTS", "LDGDEPBAR", "DEPBAR", "BAR", "BRA", "NOP", "R2UR", "SYNCS", "WARP")


def touched(shown: str) -> list[str]:
    """Instructions, of what nvdisasm shows of a cubin for 9.0, that use an accumulator of a product in flight,
    or write to a left operand of one; from first to last, and of loops going round twice."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    runs: list[tuple[int, int, int]] = []
    for line in shown.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif found := _SHOWN.match(line):
            instructions.append(_PREDICATE.sub("", found[1]))
            if (branch := _LOOP.search(found[1])) and branch[1] in labels:
                runs.append((labels[branch[1]], len(instructions), 2))
    return [
        text
        for first, last, times in [(0, len(instructions), 1), *runs]
        for text in _touched(instructions[first:last] * times)
    ]


def _touched(instructions: Sequence[str]) -> Iterator[str]:
    flying: list[tuple[set[int], set[int]]] = []
    group: tuple[set[int], set[int]] = set(), set()
    for text in instructions:
        if product := _PRODUCT.search(text):
            sums, left = int(product[2]), product[3]
            read = set(range(int(left), int(left) + 4)) if left else set()
            group = group[0] | set(range(sums, sums + int(product[1]) // 2)), group[1] | read
            if "gsb0" in text:  # the last of a group
                flying.append(group)
                group = set(), set()
        elif wait := _HELD_BACK.search(text):
            flying = flying[max(0, len(flying) - int(wait[1], 16)) :]
        else:
            used, changed = {int(number) for number in re.findall(r"\bR(\d+)", text)}, _changed(text)
            if any(used & sums or changed & read for sums, read in [*flying, group]):
                yield text


def _changed(text: str) -> set[int]:
    """The registers that an instruction writes."""
    found = _WRITTEN.match(text)
    if found is None or found[1].startswith(_WRITES_NONE):
        return set()
    size = 4 if ".128" in found[1] else 2 if ".64" in found[1] or ".WIDE" in found[1] else 1
    return set(range(int(found[2]), int(found[2]) + size))
