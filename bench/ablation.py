"""What each threshold decides: every field of `Policy` at its neutral value, and which modules change.

    python -m bench.ablation [--modules DIR...] [--foreign DIR] [--fields NAME...] [--no-assembly]

Modules are TTGIR files: those of test/data, and of the folders given. A module changes if the text that goes to
Triton's backend does. Clocks are those of the cost model, of the modules that change, before and after: the
price that `linear-assign-layouts` gives the layouts that are left, by the thresholds as they are, and for each
conversion that of the plan that is taken. No GPU is asked, so these are the model's opinion: a threshold that
was set because the model was wrong somewhere shows as clocks that are saved without it.

The thresholds of plugin/ptxas decide after the PTX: there a kernel changes if what is told to ptxas does, and
clocks are not known. A field that no pass read of a module is not tried on it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import hashlib
import os
import random
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from bench.harness.results import of_release, publish
from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.planners.select import cost, select
from triton_linear.lowering.target.policy import FAMILIES, UNBOUNDED, Policy, Threshold, thresholds
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import TARGETS, Target, target, with_policy
from triton_linear.passes.analysis.axis import AxisAnalysis
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.candidates import NoLayout
from triton_linear.passes.assignment.costs import AssignmentCosts
from triton_linear.passes.assignment.plan import AssignmentPrice, assign
from triton_linear.passes.assignment.scopes import Frequencies
from triton_linear.passes.attempts import prepare
from triton_linear.passes.framework.layouts import LayoutTable, Unknown, element_of
from triton_linear.passes.framework.planning import unfit
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline
from triton_linear.passes.reductions.split_reductions import SplitReductions
from triton_linear.ptxas.registers import Assembler
from triton_linear.tools.support import backend

ASSEMBLED = {
    "more_ctas",
    "registers_near",
}
"""Fields that decide after the PTX."""
_TARGET = re.compile(r'ttg\.target"? = "([^"]+)"')
_FOREIGN = 60
_NAMED = 3
STOCK = "as it is"
_PRICED = (AssignLayouts, SplitReductions)
"""The passes behind which the model prices a module."""


class Watched(Policy):
    """A policy that remembers which of its fields were asked for."""

    def __getattribute__(self, name: str) -> Any:
        if name in _NAMES:
            _asked.add(name)
        return super().__getattribute__(name)


_NAMES = frozenset(entry.name for entry in fields(Policy))
_asked: set[str] = set()


@dataclass
class Subject:
    """A module: what becomes of it with the thresholds as they are, and which of them are asked for."""

    path: Path
    name: str
    gpu: Target
    module: Any
    text: str = ""
    asked: frozenset[str] = frozenset()
    is_assembled: bool = True
    clocks: float | None = None
    ptx: str | None = None
    cubins: dict[str, object] = field(default_factory=dict)


@contextlib.contextmanager
def known_as(name: str, gpu: Target) -> Iterator[None]:
    """Within the block a target's name stands for another one; passes go by names."""
    before = TARGETS[name]
    TARGETS[name] = gpu
    try:
        yield
    finally:
        TARGETS[name] = before


def caches() -> list[Any]:
    """Every cache of the package that depends on arguments."""
    kind = functools._lru_cache_wrapper
    found = [entry for entry in gc.get_objects() if isinstance(entry, kind)]
    return [entry for entry in found if entry.__module__.startswith("triton_linear.")]


def emitted(subject: Subject, gpu: Target) -> str:
    """A hash of what Triton's backend gets."""
    text = _text(subject, gpu)
    return STOCK if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(subject: Subject, gpu: Target) -> str | None:
    """What Triton's backend gets, None where that is the module as it is."""
    module = bridge.to_upstream(subject.module, bridge.upstream_context())
    with known_as(gpu.name, gpu):
        prepared = prepare(module, PipelineOptions(), gpu)
        return next(prepared.attempts()).text if prepared.differs else None


def modelled(subject: Subject, gpu: Target) -> float | None:
    """Clocks of the model for what the passes leave with these thresholds; None where it does not apply."""
    module = bridge.to_upstream(subject.module, bridge.upstream_context())
    name, base = gpu.name, subject.gpu
    passes = [pass_ for pass_ in pipeline(PipelineOptions(), name) if isinstance(pass_, _PRICED)]
    with known_as(name, gpu):
        outcome = run_passes(module, passes, remarks=False)
    ops = operations(module.operation)
    if not outcome.succeeded or unfit(module.operation, ops):
        return None
    warps = module.operation.attributes["ttg.num-warps"].value
    costs = AssignmentCosts(Situation.on(base), warps, apart=True)
    try:
        price = assign(build(ops, base), costs, admits_new=False).before
    except NoLayout:
        return None
    more = _plans(module, gpu, base, warps) - _plans(module, base, base, warps)
    return AssignmentPrice(price.memory, price.other + more).clocks


def _plans(module: Module, chooser: Target, base: Target, warps: int) -> float:
    """Clocks of all conversions by the plans of one target and the costs of another."""
    ops, table, total = operations(module.operation), LayoutTable(), 0.0
    makers = {result: op for op in ops for result in op.results}
    frequencies = Frequencies(AxisAnalysis(makers), base.policy.unknown_trips)
    for op in ops:
        if op.name != CONVERT:
            continue
        source, wanted = (table.of(value.type) for value in (op.operands[0], op.results[0]))
        if isinstance(source, Unknown | None) or isinstance(wanted, Unknown | None):
            continue
        element = element_of(op.operands[0].type)
        plan = select(source, wanted, element, Situation.on(chooser)).plan
        if plan is not None:
            busy = Situation.on(base).busy(warps)
            total += cost(plan, element, base, warps).expected(busy) * frequencies.of(op.block)
    return total


def assembled(subject: Subject, gpu: Target) -> str:
    """What ptxas is told of registers."""
    if subject.ptx is None:
        subject.ptx = _ptx(subject)
    compiler = backend.backend_for(gpu.name)
    options = compiler.parse_options(backend.options_of(subject.module))

    def cubin(text: object, metadata: Any) -> object:
        found = subject.cubins.get(str(text))
        if found is None:
            found = compiler.make_cubin(text, dict(metadata), options, compiler.target.arch)
            subject.cubins[str(text)] = found
        return found

    metadata = {"shared": subject.module.get_int_attr("ttg.shared") or 0, "name": "kernel"}
    made = Assembler(lambda *_: subject.ptx, cubin, lambda: gpu).text(None, metadata)
    told = re.findall(r"^\.(?:maxnreg|minnctapersm).*$", str(made), re.M)
    return " ".join(told) or STOCK


def _ptx(subject: Subject) -> str:
    text = _text(subject, subject.gpu)
    module = bridge.parse_triton(subject.path if text is None else text, bridge.triton_context())
    return backend.lower(module, subject.gpu.name, "ptx").text("ptx")


def readable(path: Path) -> bool:
    """Whether Triton reads a module; it may end the process instead."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        status = 1
        with contextlib.suppress(Exception):
            bridge.parse_triton(path, bridge.triton_context())
            status = 0
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def subjects(paths: Sequence[Path], assembled: Collection[Path] = ()) -> list[Subject]:
    """The modules of some files, each with what becomes of it."""
    found: list[Subject] = []
    known: list[Any] = []
    for path in paths:
        if not readable(path):
            print(f"{path.name}: Triton cannot read it", file=sys.stderr)
            continue
        name = _TARGET.search(path.read_text())
        gpu = target(name[1] if name else "cuda:90")
        module = bridge.parse_triton(path, bridge.triton_context())
        subject = Subject(path, path.stem, gpu, module, is_assembled=path in assembled)
        policy = Watched(**{entry.name: getattr(gpu.policy, entry.name) for entry in fields(Policy)})
        known = known if len(found) > 1 else caches()  # the first modules bring all code in
        for cache in known:  # what is remembered is not asked for
            cache.cache_clear()
        _asked.clear()
        try:
            subject.text = emitted(subject, replace(gpu, policy=policy))
        except Exception as error:
            print(f"{path.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        subject.asked = frozenset(_asked)
        found.append(subject)
    return found


def tried(name: str, threshold: Threshold, found: Sequence[Subject], assembly: bool) -> dict[str, Any]:
    """What one field at its neutral value changes."""
    outcome: Callable[[Subject, Target], str] = emitted
    eligible = [subject for subject in found if name in subject.asked]
    if name in ASSEMBLED:
        outcome = assembled
        eligible = [s for s in found if s.gpu.vendor == "nvidia" and s.is_assembled] if assembly else []
    changed, sums = [], [0.0, 0.0]
    for subject in eligible:
        if getattr(subject.gpu.policy, name) == threshold.neutral:
            continue
        gpu = with_policy(subject.gpu, **{name: type(getattr(subject.gpu.policy, name))(threshold.neutral)})
        before = subject.text if outcome is emitted else assembled(subject, subject.gpu)
        try:
            after = outcome(subject, gpu)
        except Exception as error:
            after = f"{type(error).__name__}: {error}"
        if after == before:
            continue
        row: dict[str, Any] = {"module": subject.name, "target": subject.gpu.name}
        if outcome is assembled:
            row |= {"before": before, "after": after}
        else:
            if subject.clocks is None:
                subject.clocks = modelled(subject, subject.gpu)
            clocks = modelled(subject, gpu)
            if clocks is not None and subject.clocks is not None:
                row |= {"before": round(subject.clocks, 1), "after": round(clocks, 1)}
                sums = [sums[0] + subject.clocks, sums[1] + clocks]
        changed.append(row)
    return {
        "field": name,
        "unit": threshold.unit,
        "value": {family: getattr(policy, name) for family, policy in FAMILIES.items()},
        "neutral": threshold.neutral,
        "asked": len(eligible),
        "changed": changed,
        "before": round(sums[0], 1),
        "after": round(sums[1], 1),
    }


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    lines = [
        f"Every threshold of `Policy` at its neutral value, {result['modules']} modules, Triton "
        f"{result['triton']}, Python {result['python']}, {result['date']}, {result['seconds']} s: modules in "
        "which it is asked for, modules whose code changes, and the model's clocks of those with the threshold "
        "and without.",
        "",
        "| threshold | unit | value | neutral | asked for | changed | clocks | without it | such as |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in result["rows"]:
        neutral = "none" if row["neutral"] == UNBOUNDED else f"{row['neutral']:g}"
        names = ", ".join(entry["module"] for entry in row["changed"][:_NAMED])
        clocks = f"{row['before']:.0f} | {row['after']:.0f}" if row["before"] else " | "
        lines.append(
            f"| `{row['field']}` | {row['unit']} | {_value(row['value'])} | {neutral} | {row['asked']} | "
            f"{len(row['changed'])} | {clocks} | {names} |"
        )
    return "\n".join(lines) + "\n"


def _value(values: dict[str, float]) -> str:
    """The value of measured NVIDIA GPUs, and those of families where it is another."""
    (_, usual), *others = values.items()
    shown = [f"{value:g} ({family})" for family, value in others if value != usual]
    return ", ".join([f"{usual:g}", *shown])


def files(options: argparse.Namespace) -> tuple[list[Path], frozenset[Path]]:
    """The modules that are asked for, and those of them that are assembled."""
    data = Path(__file__).parent.parent / "test" / "data"
    found = sorted(path for folder in (data, *options.modules) for path in folder.rglob("*.ttgir"))
    foreign = sorted(options.foreign.rglob("*.ttgir")) if options.foreign is not None else []
    sample = random.Random(0).sample(foreign, min(options.sample, len(foreign)))
    return found + foreign, frozenset([*found, *sample])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", nargs="+", type=Path, default=[], metavar="DIR")
    parser.add_argument("--foreign", type=Path, metavar="DIR", help="of these, a sample is assembled")
    parser.add_argument("--sample", type=int, default=_FOREIGN)
    parser.add_argument("--fields", nargs="+", default=list(thresholds()), choices=list(thresholds()))
    parser.add_argument("--no-assembly", action="store_true", help="leave out what decides after the PTX")
    parser.add_argument("--output", type=Path, default=of_release())
    options = parser.parse_args(argv)
    began = time.perf_counter()
    found = subjects(*files(options))
    rows = []
    for name in options.fields:
        rows.append(tried(name, thresholds()[name], found, not options.no_assembly))
        seconds = time.perf_counter() - began
        print(f"{name}: {len(rows[-1]['changed'])} of {rows[-1]['asked']}, {seconds:.0f} s", file=sys.stderr)
    publish(options.output, "ablation", markdown, modules=len(found), seconds=round(seconds), rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
