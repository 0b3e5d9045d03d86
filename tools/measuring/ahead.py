"""The child of `triton-linear tune` that compiles: all variants of all kernels of a program, on all cores.

Variants of one kernel take as long as the slowest of them, and cores wait meanwhile. A run of the program in
which nothing is measured has no such waits: it only notes what kernels there are, and goes on compiling when
the program has ended. What it compiles is in Triton's cache, and what there is to know of it in a file, a JSON
object a line, for the child that measures meanwhile (`contest.py`):

    {"code": HASH, "variants": [NAME, ...]}                                          these are to be compiled
    {"code": HASH, "variant": NAME, "outcome": ..., "key": ..., "target": ..., "error": ..., "digest": ...}
    {"code": HASH, "variant": NAME, "problem": REASON}
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import hashlib
import importlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_linear.report import Outcome
from triton_linear.tools.measuring.beside import Processes
from triton_linear.tools.measuring.child import NO_ROOM, Child, MeasuringPlan, compiled, nothing
from triton_linear.tools.measuring.shared import SharedStages, shared_stages
from triton_linear.tools.support.launches import Launch
from triton_linear.tools.support.modes import VARIANT
from triton_linear.variants import OURS, STOCK

CONTEST = "contest"
"""The mode of a record by which a launch has ended."""
IDLE = "nothing to do"
"""Why there is no contest where all variants are stock Triton's kernel."""
ENDED = "ended"
"""The record of the child that compiles when the program has ended."""
_POLL = 0.02


@dataclass(frozen=True)
class CompiledVariant:
    """What the plugin says of a variant that it compiled, as far as that is asked for: see `report.Report`.

    digest: of its machine code.
    """

    outcome: str
    key: str
    target: str
    error: str | None
    digest: str

    @property
    def is_ours(self) -> bool:
        """Whether there is code of ours in it."""
        return self.outcome == Outcome.CONVERTED.value


def code_digest(kernel: Any) -> str:
    """What tells the machine code of a compiled kernel from that of others."""
    return hashlib.sha256(bytes(kernel.kernel)).hexdigest()[:32]


class Variants:
    """Compiles variants of one kernel into Triton's cache: what is the same in two of them once, and nothing
    more where the plugin has found nothing to do."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._known = SharedStages()
        self._idle: CompiledVariant | None = None

    def make(self, name: str) -> CompiledVariant:
        """Compile a variant. Raises what that raises."""
        if self._idle is not None:
            return self._idle
        with shared_stages(self._known):
            kernel, reports = compiled(self._kernel, f"{VARIANT}:{name}")
        report = reports[-1]
        made = CompiledVariant(
            report.outcome.value, report.key, report.target, report.error, code_digest(kernel)
        )
        if name == OURS and report.outcome is Outcome.NOTHING_TO_DO:
            self._idle = made
        return made


class CompiledFile:
    """What a child that compiles has written so far, as one that measures reads it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._awaited: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], CompiledVariant | str] = {}

    def variants(self, code: str) -> dict[str, CompiledVariant | str]:
        """What became of the variants of a kernel, by the hash of its code; a text says why there is none.

        Waits until all are compiled that are announced, or nobody compiles any more.
        """
        if not self._path:
            return {}
        writing = True
        while True:
            self._refresh()
            left = [name for name in self._awaited.get(code, ()) if (code, name) not in self._known]
            if not (left and writing):
                break
            writing = self._is_written()
            time.sleep(_POLL)
        return {name: found for (about, name), found in self._known.items() if about == code}

    def _refresh(self) -> None:
        """Read what has been added; the last line may be cut off."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read)
                added = file.read()
        except OSError:
            return
        whole, end, _ = added.rpartition(b"\n")
        self._read += len(whole) + len(end)
        for line in whole.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            code = record.pop("code")
            if "variants" in record:
                self._awaited[code] = record["variants"]
                continue
            name = record.pop("variant")
            self._known[code, name] = record["problem"] if "problem" in record else CompiledVariant(**record)

    def _is_written(self) -> bool:
        """Whether a process still holds the file."""
        try:
            with open(self._path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


def read_compiled(path: Path) -> bytes:
    """The lines of a file that say what became of a variant, for a file that begins with them."""
    lines = path.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if b'"variant"' in line and line.endswith(b"}\n"))


class Ahead(Child):
    """Compiles the variants of the plan of each kernel that a `Watch` shows."""

    def __init__(self, plan: MeasuringPlan) -> None:
        super().__init__(plan)
        self._begun: set[str] = set()
        self._file = open(plan.compiled, "a", encoding="utf-8")  # noqa: SIM115
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._known = CompiledFile(plan.compiled)
        self._processes = Processes(plan.jobs, self._given, self._failed)
        self._lock = threading.RLock()

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Note what is to be compiled, and begin where there is a core for it. Threads may launch at once."""
        with self._lock:
            self._note(launch)
        return nothing

    def _note(self, launch: Launch) -> None:
        kernel, code = launch.kernel, launch.kernel.hash
        if code not in self._begun and self.measures(launch) and (launch.key, CONTEST) not in self._skip:
            if not self._begun:
                import_all()
            self._begun.add(code)
            known = self._known.variants(code)
            names = [name for name in self._plan.modes if name != STOCK and name not in known]
            if names:
                self._write(code, variants=names)
                self._processes.submit(calls(kernel, names, code))

    def finish(self) -> None:
        """Say that the program has ended, and wait for what is to be compiled."""
        self.record(**{ENDED: True})
        free_memory()
        with self._lock:
            self._processes.finish()

    def _given(self, name: str, made: CompiledVariant) -> None:
        code, variant = name.split(" ")
        self._write(code, variant=variant, **asdict(made))

    def _failed(self, name: str, problem: str) -> None:
        code, variant = name.split(" ")
        self._write(code, variant=variant, problem=problem)

    def _write(self, code: str, **found: Any) -> None:
        try:
            print(json.dumps({"code": code, **found}), file=self._file, flush=True)
        except OSError:
            os._exit(NO_ROOM)  # as where a record cannot be kept


def calls(kernel: Any, names: Sequence[str], code: str) -> dict[str, Callable[[], CompiledVariant]]:
    """What compiles variants of a kernel, one after another."""
    variants = Variants(kernel)
    return {f"{code} {name}": functools.partial(variants.make, name) for name in names}


def import_all() -> None:
    """Import what every compile takes, once for all processes that are forked from this one."""
    with contextlib.suppress(ImportError):  # which each compile says
        for name in (
            "stage",
            "pipeline",
            "ptxas.registers",
            "ptxas.veto",
            "kept.registers",
            "kept.comparisons",
        ):
            importlib.import_module(f"triton_linear.{name}")


def free_memory() -> None:
    """Give back what the program has left of the GPU's memory: another process needs it."""
    gc.collect()
    with contextlib.suppress(Exception):  # it may have left the GPU in any state
        import torch

        torch.cuda.empty_cache()
