"""Why a case is not won: what might have won it, as a kernel, timed beside stock Triton's.

    python -m bench.reported --reasons

A bound on registers is Triton's own option. Atomics in another layout are the TTGIR of stock Triton, in which
the layout that only they have is another one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import triton

from triton_linear.examples.spec import gpu_target

from ..harness.report import measured_on, not_run, one_line, page
from ..harness.ttgir import linear
from ..kernels import modes
from ..kernels.kernel import Kernel
from .case import Added, Reported

ACCUMULATOR = "accumulator"
"""A layout of atomics: that of the dot's result. A thread has pairs of columns."""
FOURS = linear(
    {
        "register": [[0, 1], [0, 2], [8, 0], [0, 16], [0, 32], [0, 64]],
        "lane": [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]],
        "warp": [[16, 0], [32, 0], [64, 0]],
        "block": [],
    }
)
"""The accumulator of 128x128 and eight warps with two registers of a pair of lanes exchanged: four columns."""
BOUND = 64
"""Registers that two CTAs of 512 threads have, of the 65,536 of a multiprocessor."""

_ADDRESSES = (
    *("tt.make_range", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.addptr"),
    *("arith.constant", "arith.addi", "arith.muli", "ttg.convert_layout", "tt.atomic_rmw"),
)
"""Operations that do the same in any layout."""


def in_layout(text: str, layout: str) -> str:
    """A module whose atomics have a layout, with their addresses and masks.

    Requires: the layout that they had is only theirs, so that whatever is converted to it is an operand.
    Raises ValueError where it is not.
    """
    atomics = re.search(r"tt\.atomic_rmw .*-> tensor<\S+, (#\w+)>", text)
    accumulator = re.search(r"^#mma = (.*)$", text, re.MULTILINE)
    if atomics is None or accumulator is None:
        raise ValueError("a module without atomics, or without a dot on tensor cores")
    name = atomics[1]
    for line in map(str.strip, text.splitlines()):
        operation = re.match(r"(?:%\S+ = )?([\w.]+)", line)
        if operation and operation[1] not in _ADDRESSES and re.search(rf"{name}\b", line):
            raise ValueError(f"{name} is not of atomics alone: {line}")
    chosen = accumulator[1] if layout == ACCUMULATOR else layout
    return re.sub(rf"^{name} = .*$", f"{name} = {chosen}", text, count=1, flags=re.MULTILINE)


@dataclass(frozen=True)
class Laid(Added):
    """A kernel whose atomics have another layout than stock Triton gives them."""

    layout: str = ACCUMULATOR
    _held: list[Any] = field(default_factory=list, compare=False)

    def compiled(self, target: str | None = None) -> Any:
        """Triton's kernel, of its own TTGIR but for that layout; None: for the GPU that is here."""
        gpu = gpu_target(target) if target else triton.runtime.driver.active.get_current_target()
        stock = triton.compile(self.source(), target=gpu, options=dict(self.options))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.ttgir"
            path.write_text(in_layout(stock.asm["ttgir"], self.layout))
            return triton.compile(str(path), target=gpu)

    def start(self, arguments: Mapping[str, Any]) -> None:
        """Launch it on tensors and numbers. The first call compiles."""
        if not self._held:
            self._held.append(self.compiled())
        names = [name for name in self.function.arg_names if name in arguments]
        self._held[0][self.grid](*(arguments[name] for name in names))


def _atomics(kernel: Kernel) -> dict[str, Kernel]:
    held = {f.name: getattr(kernel, f.name) for f in fields(Kernel)}
    return {"pairs": Laid(**held, layout=ACCUMULATOR), "fours": Laid(**held, layout=FOURS)}


def _bounded(kernel: Kernel) -> dict[str, Kernel]:
    return {f"{BOUND} registers": replace(kernel, options={**kernel.options, "maxnreg": BOUND})}


REASONS: Mapping[str, Callable[[Kernel], dict[str, Kernel]]] = {
    "dot_atomics": _atomics,
    "layer_norm": _bounded,
}
"""Of cases that are not won, what else is measured: each way of it."""


def ways(case: Reported) -> dict[str, tuple[Kernel, str]]:
    """Stock Triton's kernel, ours, and what might have won it; each with how it is compiled."""
    other = {name: (kernel, modes.STOCK) for name, kernel in REASONS[case.name](case.kernel).items()}
    return {mode: (case.kernel, mode) for mode in (modes.STOCK, modes.OURS)} | other


def lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was measured: a line for each way.

    >>> way = {"microseconds": 2.0, "result": "identical", "counts": [{"registers": 64}]}
    >>> lines([{"name": "layer_norm", "ways": {"a": {**way, "ratio": [0.9, 1.0, 1.1]}}}])
    ['layer_norm, a: 2.0 µs, 1.000 (0.900 to 1.100) times as fast as stock, identical, 64 registers']
    """
    found = []
    for record in records:
        if "error" in record:
            found.append(f"{record['name']}: {one_line(record['error'])}")
        for way, facts in record.get("ways", {}).items():
            parts = [f"{facts['microseconds']:.1f} µs"]
            if "ratio" in facts:
                low, middle, high = facts["ratio"]
                parts.append(f"{middle:.3f} ({low:.3f} to {high:.3f}) times as fast as stock")
            parts.append(facts["result"])
            parts += [f"{n} {kind}" for counts in facts["counts"] for kind, n in counts.items() if n]
            found.append(f"{record['name']}, {way}: {', '.join(parts)}")
    return found


def markdown(report: Mapping[str, Any]) -> str:
    """The page of a run."""
    return page(
        "# What might have won the cases that are not won",
        "",
        f"{measured_on(report)}. `docs/reported.md` says what it means.",
        "",
        *(f"- {line}" for line in lines(report["cases"])),
        *not_run(report),
    )
