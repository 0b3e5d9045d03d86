"""Compiles one case in each mode and times the modes side by side. Runs in the process that has the GPU.

What is timed are CUDA graphs of some calls, in turn (`harness/turns.py`). Warm: one after another, inputs as
the replay before has left them, results in one of some places, the same for all modes. Cold: graphs of one
call, each after a buffer larger than the L2 cache was written, untimed.
"""

from __future__ import annotations

import copy
import gc
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triton_linear.report import Outcome, Report

from ..harness import contests
from ..harness.child import Failed, told
from ..harness.turns import FLUSH_BYTES, calls_for, captured, memory_pools, replay, summary
from . import inductor, modes
from .case import TORCH, Case

TOLERANCES = {"float8_e4m3fn": 0.13, "bfloat16": 1.6e-2, "float16": 2e-3, "float32": 1e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Effort:
    """How much to measure: turns warm and cold; whether configurations are those chosen with stock Triton; how
    many megabytes are taken before inputs are made."""

    turns: int = 40
    cold: int = 16
    pinned: bool = True
    dump: str | None = None
    room: int = 0


class Inputs:
    """See `case.Inputs`; on another device than a GPU they are others."""

    def __init__(self, device: str = "cuda") -> None:
        import torch

        self._torch, self._device = torch, device
        self._generator = torch.Generator(device).manual_seed(0)

    def normal(self, *shape: int, dtype: str = "float16") -> Any:
        made = self._torch.randn(shape, device=self._device, generator=self._generator)
        return made.to(getattr(self._torch, dtype))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Any:
        kind, device = getattr(self._torch, dtype), self._device
        return self._torch.randint(low, high, shape, device=device, generator=self._generator, dtype=kind)


@contextmanager
def loaded() -> Iterator[list[Any]]:
    """The list of Triton's kernels that are made, or come from its cache, in the block."""
    from triton.compiler.compiler import CompiledKernel

    kernels: list[Any] = []
    stock = CompiledKernel.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        kernels.append(self)

    CompiledKernel.__init__ = __init__
    try:
        yield kernels
    finally:
        CompiledKernel.__init__ = stock


@dataclass
class Variant:
    """A case in one mode: a graph of one call, one of several for each place, what is known of its kernels."""

    single: Any
    several: list[Any]
    outputs: list[Any]
    facts: dict[str, Any]
    held: list[Any] = field(default_factory=list)


class Session:
    """One case, with the variants made of it so far; in a `strict` one nothing falls back in silence."""

    def __init__(self, case: Case, effort: Effort, configs: Sequence[str] = (), strict: bool = False) -> None:
        import torch

        self.case, self.effort, self.strict = case, effort, strict
        self.variants: dict[str, Variant] = {}
        self.calls = 0
        self.seconds: dict[str, float] = {}
        self._pools = memory_pools()
        self._room = torch.empty(effort.room << 20, dtype=torch.uint8, device="cuda") if effort.room else None
        torch.manual_seed(0)
        function, arguments = case.make(torch, Inputs())
        self.compiled: inductor.Compiled | None = None
        self._configured: dict[tuple[int, str], Session] = {}
        start = time.perf_counter()
        if case.kind == TORCH:
            self.compiled = inductor.Compiled(function, arguments, configs)
            self._call: Callable[[], Any] = self.compiled.call
            if effort.dump:
                for number, kernel in enumerate(self.compiled.tried()):
                    _write(effort.dump, f"{case.name}-{kernel.name}-tried{number}", kernel, ("ttgir",))
        else:
            self._call = lambda: function(*arguments)
        self.seconds["first"] = time.perf_counter() - start

    def variant(self, mode: str) -> Variant:
        """The case in `mode`; made when it is first asked for."""
        if mode not in self.variants:
            start = time.perf_counter()
            self.variants[mode] = self._make(mode)
            self.seconds[mode] = time.perf_counter() - start
        return self.variants[mode]

    def configured(self, number: int, name: str) -> Session:
        """The case with kernel `number` of Inductor's in the configuration `name`, the others as chosen.

        Requires: the case was compiled by Inductor, and its variant with stock Triton is made.
        """
        if (number, name) not in self._configured:
            if self.compiled is None or not self.calls:
                raise ValueError(f"{self.case.name}: there is no kernel of Inductor's to configure")
            other = self
            if inductor.config_name(self.compiled.chosen[number]) != name:
                other = copy.copy(self)
                other.compiled = self.compiled.choosing(number, name)
                other.variants, other.seconds, other._configured = {}, {}, {}
            self._configured[number, name] = other
        return self._configured[number, name]

    def _make(self, mode: str) -> Variant:
        import torch

        if mode == modes.CONTEST:
            for kernel in self.variant(modes.STOCK).held:
                contests.prepare(kernel)
        with modes.context(mode, self.strict) as reports, loaded() as launched, torch.no_grad():
            kernels, configs = launched, None
            if self.compiled is not None:
                pinned = mode in (modes.STOCK, modes.AGAIN) or (self.effort.pinned and mode != modes.UNPINNED)
                kernels, configs = self.compiled.compile(pinned)
            ended = self._settled(kernels) if mode == modes.CONTEST else {}
            single, outputs = self._captured(1)
            if not self.calls:
                self.calls = calls_for(min(replay({"": [single]}, 5)[""]))
            several = [self._captured(self.calls, pool)[0] for pool in self._pools]
        if self.effort.dump and mode != modes.AGAIN:
            for number, kernel in enumerate(kernels):
                repeated = "" if kernel.name not in [k.name for k in kernels[:number]] else f"{number}"
                _write(self.effort.dump, f"{self.case.name}-{kernel.name}{repeated}-{mode}", kernel)
        # A mode whose conversions are all Triton's, or folded by Triton, has no report of a kernel.
        facts = {
            "kernels": [kernel_facts(kernel) for kernel in kernels],
            "conversions": conversions(reports, {kernel.name for kernel in kernels}),
            "fell_back": [f"{r.kernel}: {r.error}" for r in reports if r.outcome is Outcome.FAILED],
        }
        if configs is not None:
            facts["configs"] = configs
        if ended:
            facts["contests"] = ended
        return Variant(single, several, outputs, facts, list(kernels))

    def _settled(self, kernels: Sequence[Any]) -> dict[str, Any]:
        """Call until the contests of the `kernels`, which fill as calls compile them, have ended."""

        def call() -> Sequence[Any]:
            self._call()
            return kernels

        return contests.settle(call)

    def _captured(self, calls: int, pool: Any = None) -> tuple[Any, list[Any]]:
        """A graph of `calls` calls, and the results of the last."""
        import torch

        def seeded() -> None:
            torch.manual_seed(0)
            self._call()

        graph, result = captured(self._call, calls, pool, seeded)
        return graph, tensors(result)

    def results(self, mode: str) -> list[Any]:
        """What a replay of `mode` leaves in memory that held something else."""
        import torch

        variant = self.variant(mode)
        for output in variant.outputs:
            output.untyped_storage().fill_(0x5A)
        torch.manual_seed(0)
        variant.single.replay()
        torch.cuda.synchronize()
        return [output.clone() for output in variant.outputs]


def tensors(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in tensors(part)]
    return [result]


def timed(
    session: Session, names: Sequence[str], flush: Callable[[], object]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Warm and cold, per mode: microseconds of a call, and stock's time over the mode's with its interval."""
    effort = session.effort
    variants = {name: session.variant(name) for name in names}
    warm = replay({name: v.several for name, v in variants.items()}, effort.turns)
    singles = {name: [v.single] for name, v in variants.items()}
    cold = replay(singles, effort.cold, flush) if effort.cold else {}
    return summary(warm, session.calls), summary(cold, 1)


def compare(case: Case, expected: Sequence[Any], found: Sequence[Any]) -> dict[str, Any]:
    """Whether results have the same bits, or how far they are apart relative to the largest magnitude."""
    if len(expected) != len(found):
        return {"result": "WRONG", "why": f"{len(found)} results, not {len(expected)}"}
    worst, verdict = 0.0, "identical"
    for want, got in zip(expected, found, strict=True):
        if want.shape != got.shape or want.dtype != got.dtype:
            return {"result": "WRONG", "why": f"{got.dtype} {tuple(got.shape)}"}
        if same([want], [got]):
            continue
        verdict = "within tolerance" if verdict == "identical" else verdict
        a, b = want.double(), got.double()
        finite = a.isfinite()
        if not same([finite, a[~finite].nan_to_num()], [b.isfinite(), b[~finite].nan_to_num()]):
            return {"result": "WRONG", "why": "not finite in other places"}
        a, b = a[finite], b[finite]
        apart = float((a - b).abs().max()) if a.numel() else 0.0
        if want.dtype.is_floating_point:
            apart /= max(float(a.abs().max()), 1e-30) if a.numel() else 1.0
            usual = TOLERANCES.get(str(want.dtype).removeprefix("torch."), 0.0)
            allowed = usual if case.tolerance is None else case.tolerance
        else:
            allowed = case.slack
        worst = max(worst, apart)
        if apart > allowed:
            verdict = "WRONG"
    return {"result": verdict, "apart": worst}


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two lists of tensors hold the same bytes."""
    import torch

    return all(
        torch.equal(a.flatten().view(torch.uint8), b.flatten().view(torch.uint8))
        for a, b in zip(left, right, strict=True)
    )


def kernel_facts(kernel: Any) -> dict[str, Any]:
    """What is known of a compiled kernel; `conversions` are those of its TTGIR."""
    return {
        "name": kernel.name,
        "conversions": len(re.findall(r"\bttg\.convert_layout\b", kernel.asm["ttgir"])),
        "warps": kernel.metadata.num_warps,
        "shared": kernel.metadata.shared,
        "registers": getattr(kernel, "n_regs", None),
        "spilled": getattr(kernel, "n_spills", None),
    }


def conversions(reports: Sequence[Report], kernels: set[str]) -> dict[str, int]:
    """What became of the conversions of some kernels, by the plugin's reports."""
    kinds: Counter[str] = Counter()
    for report in reports:
        if report.kernel in kernels:
            kinds.update(conversion.lowering for conversion in report.conversions)
            kinds["folded"] += report.folded
    return {kind: count for kind, count in sorted(kinds.items()) if count}


def _write(folder: str, stem: str, kernel: Any, stages: Sequence[str] = ("ttgir", "ptx")) -> None:
    for stage in stages:
        if stage in kernel.asm:
            (Path(folder) / f"{stem}.{stage}").write_text(kernel.asm[stage])


_session: Session | None = None
_flush: Any = None


def start() -> dict[str, Any]:
    """Ready this process; gives what there is to know of it. Raises where there is no GPU."""
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()  # Kernels from a cache would have no reports.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    missing = inductor.prepare()
    gc.freeze()  # Each capture of a graph may collect garbage.
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": torch.cuda.get_device_name(),
        "target": f"cuda:{properties.major}{properties.minor}",
        "torch": torch.__version__,
        "driver": getattr(torch.version, "cuda", None),
        "settings_missing": missing,
    }


def run(name: str, wanted: Sequence[str], effort: Effort, configs: Sequence[str] = ()) -> dict[str, Any]:
    """Measure the case `name` in some modes; stock comes first. What the last call made of it is used again.

    `configs` are those of Inductor's kernels, if another process has chosen them. Raises Failed.
    """
    return told(_run, name, wanted, effort, configs)


def opened(name: str | Case, effort: Effort, configs: Sequence[str] = ()) -> Session:
    """The session of the last call if it was of this case, or a new one in its place.

    A case is named, or given where it is none of the suite's.
    """
    global _session  # noqa: PLW0603
    import torch

    from .cases import by_name

    same_case = _session is not None and name in (_session.case.name, _session.case)
    if _session is None or not same_case or _session.effort != effort:
        _session = None
        gc.collect()
        torch.cuda.empty_cache()
        _session = Session(by_name(name) if isinstance(name, str) else name, effort, configs)
    return _session


def lost(problem: BaseException) -> bool:
    """Whether an error is one after which this process can use the GPU no more."""
    return "CUDA error" in str(problem) or "[CUDA]" in str(problem)


def _run(name: str, wanted: Sequence[str], effort: Effort, configs: Sequence[str]) -> dict[str, Any]:
    global _flush  # noqa: PLW0603
    import torch

    begun = time.perf_counter()
    session = opened(name, effort, configs)
    if _flush is None:
        _flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    found = judged(session, wanted)
    good = timeable(found)
    warm, cold = timed(session, good, _flush.zero_)
    for mode in good:
        found[mode] |= warm[mode]
        if mode in cold:
            found[mode]["cold"] = cold[mode]
    return {
        "calls": session.calls,
        "modes": found,
        "seconds": {key: round(value, 2) for key, value in session.seconds.items()}
        | {"all": round(time.perf_counter() - begun, 2)},
    }


def timeable(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The modes that a case could be made in."""
    return [mode for mode, facts in found.items() if "error" not in facts and "unavailable" not in facts]


def judged(session: Session, wanted: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Make a case in stock Triton and in some modes: facts of its kernels, and their results beside stock's.

    Raises what stock Triton does, and what loses the GPU; what else a mode raises is its fact.
    """
    found: dict[str, dict[str, Any]] = {}
    for mode in (modes.STOCK, *(mode for mode in wanted if mode != modes.STOCK)):
        try:
            found[mode] = dict(session.variant(mode).facts)
        except modes.Unavailable as problem:
            found[mode] = {"unavailable": str(problem)}
        except Exception as problem:
            if mode == modes.STOCK or lost(problem):
                raise
            found[mode] = dict(Failed.of(problem).facts())
    expected = session.results(modes.STOCK)
    for mode in timeable(found):
        if mode == modes.AGAIN:
            continue
        got = session.results(mode)
        found[mode] |= compare(session.case, expected, got)
        found[mode]["deterministic"] = same(got, session.results(mode))
    return found
