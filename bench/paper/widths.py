"""Width of loads and stores: a tensor [512, k] that lies row after row is copied.

What is compared is what one instruction moves, as PTX has it: v4.b32 is four words. It needs no GPU. The
paper's two columns are its legacy Triton and its linear layouts; ours are Triton 3.0.0 (`widths_old`), stock
Triton of today, and the plugin. A copy by four warps has 128 threads: of 1 KiB, each has 8 bytes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.report import table
from bench.paper.table import Part, Record, Table

ROWS = 512
COLUMNS = (1, 2, 4, 8, 16)
POINTERS = {"f8": "*fp8e4nv", "f16": "*fp16"}
"""Triton's name of a pointer to each type."""
WARPS = 4
TARGET = "cuda:90"
OLD = Path(__file__).parents[1] / "results" / "widths-3.0.0.json"
PAPER: Mapping[tuple[str, int], tuple[str, str]] = {
    ("f8", 1): ("v1.b32", "v1.b32"),
    ("f8", 2): ("v1.b16", "v4.b32"),
    ("f8", 4): ("v1.b32", "v4.b32"),
    ("f8", 8): ("v2.b32", "v4.b32"),
    ("f8", 16): ("v4.b32", "v4.b32"),
    ("f16", 1): ("v2.b32", "v2.b32"),
    ("f16", 2): ("v1.b32", "v4.b32"),
    ("f16", 4): ("v2.b32", "v4.b32"),
    ("f16", 8): ("v4.b32", "v4.b32"),
    ("f16", 16): ("v4.b32", "v4.b32"),
}
"""The paper's table: its legacy Triton, and linear layouts."""
_ACCESS = re.compile(r"\b(?P<kind>ld|st)\.global(?:\.v(?P<count>\d))?\.b(?P<bits>\d+)\b")
_WAYS = ("stock", "ours")


@dataclass(frozen=True)
class Width:
    """A copy of [ROWS, k] elements of a type by some warps."""

    element: str
    k: int
    warps: int = WARPS

    @property
    def key(self) -> str:
        """See `Case`."""
        return f"{self.element} [{ROWS},{self.k}]" + (f", {self.warps} warps" if self.warps != WARPS else "")

    @property
    def share(self) -> int:
        """Bytes of each thread."""
        return ROWS * self.k * int(self.element[1:]) // 8 // (32 * self.warps)


def cases() -> Sequence[Width]:
    """The paper's, and its tensor of 1 KiB with so few warps that each thread has 16 bytes of it."""
    return [*(Width(element, k) for element in POINTERS for k in COLUMNS), Width("f8", 2, 2)]


def widths(ptx: str) -> dict[str, str]:
    """What loads and stores of global memory move at once, "v4.b32" for instance, and how many there are."""
    found: dict[str, Counter[str]] = {"ld": Counter(), "st": Counter()}
    for access in _ACCESS.finditer(ptx):
        found[access["kind"]][f"v{access['count'] or 1}.b{access['bits']}"] += 1
    return {
        kind: ", ".join(f"{count} x {width}" for width, count in sorted(counts.items()))
        for kind, counts in found.items()
    }


def run(case: Width) -> Record:
    """By way: what `widths` finds in the PTX, and the remarks of the plugin."""
    import triton

    import triton_linear
    from bench.paper.widths_kernel import copied
    from triton_linear.examples.spec import KernelSpec, gpu_target

    pointer = POINTERS[case.element]
    constants = {"K": case.k, "ROWS": ROWS}
    source = KernelSpec(
        case.key, copied, {"x_ptr": pointer, "y_ptr": pointer}, constants, ("x_ptr", "y_ptr")
    ).source()
    options = {"num_warps": case.warps}
    found: dict[str, Any] = {}
    found["stock"] = widths(triton.compile(source, target=gpu_target(TARGET), options=options).asm["ptx"])
    with triton_linear.enabled(strict=True):
        found["ours"] = widths(triton.compile(source, target=gpu_target(TARGET), options=options).asm["ptx"])
    return found


def report(records: Mapping[str, Record]) -> Part:
    """The paper's table with ours beside it. A shortfall: a width that is less than the paper's."""
    old = json.loads(OLD.read_text())["widths"] if OLD.exists() else {}
    rows = []
    shortfalls = []
    for case in cases():
        record = records.get(case.key)
        if record is None:
            continue
        before, after = PAPER[case.element, case.k] if case.warps == WARPS else ("", "")
        if "error" in record:
            shortfalls.append(f"{case.key}: {record['error']}")
            continue
        shown = [_shown(old.get(case.key)), *(_shown(record[way]) for way in _WAYS)]
        rows.append((case.key, before, *shown[:2], after, shown[2]))
        if after and (least := _least(record["ours"])) < _bytes(after):
            shortfalls.append(
                f"{case.key}: {least} bytes at once, the paper has {_bytes(after)}; a thread has {case.share}"
            )
    lines = table("tensor | paper: legacy | Triton 3.0.0 | stock | paper: linear | ours", rows)
    prose = (
        f"Copies of [{ROWS}, k] by {WARPS} warps, unless it says otherwise: what the loads and stores of a "
        "thread move in PTX, and how many there are. Where the two differ, loads stand first."
    )
    return Part("Width of loads and stores", "\n".join([prose, "", *lines]), shortfalls)


def _shown(found: Mapping[str, str] | None) -> str:
    if found is None:
        return ""
    return found["ld"] if found["ld"] == found["st"] else f"{found['ld']} / {found['st']}"


def _least(found: Mapping[str, str]) -> int:
    """Bytes of the narrowest access."""
    return min(_bytes(part.split()[-1]) for text in found.values() for part in text.split(", "))


def _bytes(width: str) -> int:
    """Of "v4.b32", 16."""
    count, bits = width.removeprefix("v").split(".b")
    return int(count) * int(bits) // 8


TABLE = Table("widths", timed=False, gpu=False, cases=cases, run=run, report=report)
