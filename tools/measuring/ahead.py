"""The compiling child of `triton-linear tune`: it compiles all variants of all kernels of a program, on all
cores.

If variants are compiled kernel by kernel, cores are idle until the slowest variant of a kernel is done. This
child runs the program without measuring: it collects the kernels, and continues compiling after the program
has ended. The compiled code is in Triton's cache. A description of it is in a file, one JSON object per line,
which the measuring child (`contest.py`) reads at the same time:

    {"code": HASH, "variants": [NAME, ...]}                                          variants to be compiled
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
from triton_linear.variants import OURS, STOCK, Part, keeps_stock, refinements, variant

CONTEST = "contest"
"""The mode of the record with the result for a launch."""
IDLE = "nothing to do"
"""The reason for no result if all variants are stock Triton's kernel."""
ENDED = "ended"
"""The key of the compiling child's record that the program has ended."""
_POLL = 0.02


@dataclass(frozen=True)
class CompiledVariant:
    """The parts of the plugin's report on a compiled variant that are needed (see `report.Report`).

    digest: of its machine code.
    """

    outcome: str
    key: str
    target: str
    error: str | None
    digest: str


def code_digest(kernel: Any) -> str:
    """A digest of the machine code of a compiled kernel."""
    return hashlib.sha256(bytes(kernel.kernel)).hexdigest()[:32]


class Variants:
    """Compiles variants of one kernel into Triton's cache.

    Stages with equal inputs run once. If the plugin has nothing to do, no further variant with other code than
    stock Triton's is compiled, unless it concerns loads of loops.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._known = SharedStages()
        self._idle: CompiledVariant | None = None

    def make(self, name: str) -> CompiledVariant:
        """Compile a variant. Raises the exception of the compile."""
        if self._idle is not None and not (keeps_stock(name) or Part.LOADS in variant(name).parts):
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
    """The measuring child's view of the file that the compiling child writes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._awaited: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], CompiledVariant | str] = {}

    def variants(self, code: str) -> dict[str, CompiledVariant | str]:
        """The compiled variants of a kernel, by name; a string is the reason why a variant failed.

        `code` is the hash of the kernel's code. Waits until all announced variants are compiled, or the writing
        process has ended.
        """
        if not self._path:
            return {}
        writing = True
        while True:
            self._refresh()
            missing = [name for name in self._awaited.get(code, ()) if (code, name) not in self._known]
            if not (missing and writing):
                break
            writing = self._is_written()
            time.sleep(_POLL)
        return {name: variant for (other, name), variant in self._known.items() if other == code}

    def _refresh(self) -> None:
        """Read the new lines; the last line may be incomplete."""
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
        """Whether a process holds the lock on the file."""
        try:
            with open(self._path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


def read_compiled(path: Path) -> bytes:
    """The lines of a file about compiled or failed variants, which a new file can begin with."""
    lines = path.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if b'"variant"' in line and line.endswith(b"}\n"))


class Ahead(Child):
    """Compiles the plan's variants of each kernel that a `Watch` observes, and the refinements of stock
    Triton's kernel. Those of others depend on what is measured."""

    def __init__(self, plan: MeasuringPlan) -> None:
        super().__init__(plan)
        self._started: set[str] = set()
        self._file = open(plan.compiled, "a", encoding="utf-8")  # noqa: SIM115
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._known = CompiledFile(plan.compiled)
        self._processes = Processes(plan.jobs, self._succeeded, self._failed)
        self._lock = threading.RLock()

    def visit(self, launch: Launch) -> Callable[[], None] | None:
        """Submit the kernel's variants for compiling. Several threads may launch at once."""
        with self._lock:
            self._note(launch)
        return nothing

    def _note(self, launch: Launch) -> None:
        kernel, code = launch.kernel, launch.kernel.hash
        if code not in self._started and (launch.key, CONTEST) not in self._skip:
            if not self._started:
                import_all()
            self._started.add(code)
            known = self._known.variants(code)
            modes = [*self._plan.modes, *refinements(STOCK, self._plan.modes)]
            names = [name for name in modes if name != STOCK and name not in known]
            if names:
                self._write(code, variants=names)
                self._processes.submit(calls(kernel, names, code))

    def finish(self) -> None:
        """Record that the program has ended, and wait for all compiles."""
        self.record(**{ENDED: True})
        free_memory()
        with self._lock:
            self._processes.finish()

    def _succeeded(self, name: str, compiled_variant: CompiledVariant) -> None:
        code, variant = name.split(" ")
        self._write(code, variant=variant, **asdict(compiled_variant))

    def _failed(self, name: str, problem: str) -> None:
        code, variant = name.split(" ")
        self._write(code, variant=variant, problem=problem)

    def _write(self, code: str, **entries: Any) -> None:
        try:
            print(json.dumps({"code": code, **entries}), file=self._file, flush=True)
        except OSError:
            os._exit(NO_ROOM)  # as `Child.record` does


def calls(kernel: Any, names: Sequence[str], code: str) -> dict[str, Callable[[], CompiledVariant]]:
    """Functions that compile variants of a kernel, to be called one after another in one process."""
    variants = Variants(kernel)
    return {f"{code} {name}": functools.partial(variants.make, name) for name in names}


def import_all() -> None:
    """Import the modules that every compile needs, once for all processes that are forked from this one."""
    with contextlib.suppress(ImportError):  # each compile reports it
        for name in (
            "stage",
            "pipeline",
            "ptxas.fences",
            "ptxas.registers",
            "ptxas.veto",
            "kept.registers",
            "kept.comparisons",
        ):
            importlib.import_module(f"triton_linear.{name}")


def free_memory() -> None:
    """Free the GPU memory that the program left allocated, because another process needs it."""
    gc.collect()
    with contextlib.suppress(Exception):  # the program may have left the GPU in an error state
        import torch

        torch.cuda.empty_cache()
