"""The child of `triton-linear tune` that compiles: all variants of all kernels of a program, on all cores.

Variants of one kernel take as long as the slowest of them, and cores wait meanwhile. A run of the program in
which nothing is measured has no such waits. What it compiles is in Triton's cache, and what there is to know
of it in a file, a JSON object a line, for the child that measures (`contest.py`):

    {"code": HASH, "variant": NAME, "outcome": ..., "key": ..., "target": ..., "error": ...}
    {"code": HASH, "variant": NAME, "problem": REASON}
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_linear.report import Outcome
from triton_linear.tools.measuring.beside import Processes
from triton_linear.tools.measuring.child import Child, MeasuringPlan, compiled, nothing
from triton_linear.tools.support.launches import Launch
from triton_linear.tools.support.modes import VARIANT
from triton_linear.variants import STOCK

CONTEST = "contest"
"""The mode of a record by which a launch has ended."""


@dataclass(frozen=True)
class Made:
    """What the plugin says of a variant that it compiled, as far as that is asked for: see `report.Report`."""

    outcome: str
    key: str
    target: str
    error: str | None

    @property
    def is_ours(self) -> bool:
        """Whether there is code of ours in it."""
        return self.outcome == Outcome.CONVERTED.value


Compiled = dict[tuple[str, str], "Made | str"]
"""By the hash of a kernel and the name of a variant; a text says why there is none."""


def make(kernel: Any, name: str) -> Made:
    """Compile a variant of a kernel into Triton's cache."""
    _, reports = compiled(kernel, f"{VARIANT}:{name}")
    report = reports[-1]
    return Made(report.outcome.value, report.key, report.target, report.error)


def read(path: str) -> Compiled:
    """What is in a file; nothing where there is none. The last line may be cut off."""
    found: Compiled = {}
    if not path or not Path(path).exists():
        return found
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        about = record.pop("code"), record.pop("variant")
        found[about] = record["problem"] if "problem" in record else Made(**record)
    return found


class Ahead(Child):
    """Compiles the variants of the plan of each kernel that a `Watch` shows."""

    def __init__(self, plan: MeasuringPlan) -> None:
        super().__init__(plan)
        self._begun: set[str] = set()
        self._file = open(plan.compiled, "a", encoding="utf-8")  # noqa: SIM115
        self._processes = Processes(plan.jobs, self._given, self._failed)

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Begin to compile; the program goes on as soon as there is a core for the last variant."""
        code = launch.kernel.hash
        if code not in self._begun and self.measures(launch) and (launch.key, CONTEST) not in self._skip:
            self._begun.add(code)
            for name in self._plan.modes:
                if name != STOCK:
                    self._processes.submit(f"{code} {name}", functools.partial(make, launch.kernel, name))
        return nothing

    def finish(self) -> None:
        """Wait for what is being compiled."""
        self._processes.finish()

    def _given(self, name: str, made: Made) -> None:
        self._write(name, asdict(made))

    def _failed(self, name: str, problem: str) -> None:
        self._write(name, {"problem": problem})

    def _write(self, name: str, found: dict[str, Any]) -> None:
        code, variant = name.split(" ")
        print(json.dumps({"code": code, "variant": variant, **found}), file=self._file, flush=True)
