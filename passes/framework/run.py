"""Runs passes over a module: from objects, from a textual pipeline, or the whole pipeline in one call."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TextIO, get_type_hints

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    MLIRError,
    Module,
    Operation,
    PassManager,
    new_context,
    operations,
)
from triton_linear.dialect.triton_versions import OPERANDS_OVERWRITTEN, installed_release
from triton_linear.lowering.plan import FREE, Plan
from triton_linear.lowering.strategies import LEGACY, LINEAR
from triton_linear.lowering.targets import Target
from triton_linear.passes import diagnostics
from triton_linear.passes.assign import AssignLayouts
from triton_linear.passes.attach import AttachLayouts
from triton_linear.passes.await_operands import AwaitOperands
from triton_linear.passes.contract import PermuteContraction
from triton_linear.passes.diagnostics import Diagnostic
from triton_linear.passes.fold import FoldConversions
from triton_linear.passes.free import FreeConversions, plan_between
from triton_linear.passes.gather import GATHER, LowerGathers, Stub, calls_of, gather_stubs
from triton_linear.passes.layouts import LayoutTable
from triton_linear.passes.local import LowerLocal
from triton_linear.passes.narrow import NarrowOperands
from triton_linear.passes.outline import OutlineConversions, stub_plans
from triton_linear.passes.registry import PASSES, Pass
from triton_linear.passes.select import SelectLowering
from triton_linear.passes.split_reductions import SplitReductions
from triton_linear.passes.verifiers import CONVERT, Verifier
from triton_linear.passes.widen import WidenAccesses


class PipelineError(ValueError):
    """A textual pipeline that names no pass or option we know."""


@dataclass(frozen=True)
class Outcome:
    """How a run went: whether every pass succeeded, what was reported, and the seconds each pass took."""

    succeeded: bool
    diagnostics: tuple[Diagnostic, ...]
    seconds: tuple[tuple[str, float], ...]


def linear_pipeline(
    target: str | None = None, scratch_limit: int | None = None, lowering: str = LINEAR
) -> list[Pass]:
    """The passes that take a TritonGPU module's conversions and gathers into our hands, in order; accesses to
    shared memory stay where `lowering` is that before linear layouts."""
    return [
        *([LowerLocal(target, scratch_limit)] if lowering == LINEAR else []),
        AttachLayouts(),
        LowerGathers(target, scratch_limit, lowering),
        FoldConversions(lowering),
        SelectLowering(target, scratch_limit, lowering),
        OutlineConversions(),
    ]


def run(
    module: Module,
    passes: Iterable[Pass | str],
    *,
    verify: bool = False,
    remarks: bool = True,
    print_after_all: TextIO | None = None,
) -> Outcome:
    """Run `passes` over `module`; a string is a pass, or a pipeline of passes, of upstream MLIR.

    The run ends at the first pass that fails. `verify` checks what each pass requires and ensures, and MLIR's
    own rules, between passes. Without `remarks` none is composed, which takes time. `print_after_all` gets the
    module as each pass leaves it.
    """
    context = module.context
    manager = PassManager("builtin.module", context)
    manager.enable_verifier(verify)
    seconds: list[tuple[str, float]] = []
    for pass_ in passes:
        clock = _Clock()
        if isinstance(pass_, str):
            manager.add(clock.start, name="start")
            manager.add(pass_)
            name = pass_
        else:
            manager.add(_guarded(pass_, clock, verify), name=pass_.name)
            name = pass_.name
        manager.add(_observer(name, clock, seconds, print_after_all), name="observe")
    with diagnostics.capture(context, remarks) as found:
        try:
            manager.run(module.operation)
            succeeded = True
        except MLIRError as error:
            found.extend(diagnostics.of_exception(error))
            succeeded = False
    return Outcome(succeeded, tuple(found), tuple(seconds))


class _Clock:
    """Remembers when a pass began."""

    began = 0.0

    def start(self, op: Operation, pass_: Any) -> None:
        self.began = time.perf_counter()


class _Signal:
    """MLIR's pass object as passes use it, which also remembers."""

    def __init__(self, external: Any) -> None:
        self._external = external
        self.failed = False

    def signal_pass_failure(self) -> None:
        self.failed = True
        self._external.signal_pass_failure()


def _guarded(pass_: Pass, clock: _Clock, verify: bool) -> Callable[[Operation, Any], None]:
    """`pass_` as a callback of MLIR, where an exception becomes an error and a failed pass."""

    def callback(op: Operation, external: Any) -> None:
        clock.start(op, external)
        signal = _Signal(external)
        try:
            if verify and not _holds(pass_.requires, op):
                signal.signal_pass_failure()
            if not signal.failed:
                pass_(op, signal)
            if verify and not signal.failed and not _holds(pass_.ensures, op):
                signal.signal_pass_failure()
        except Exception as error:
            diagnostics.error(
                op,
                f"{pass_.name}: internal error: {type(error).__name__}: {error}; this is a bug, please "
                "report it with the module that shows it",
            )
            external.signal_pass_failure()

    return callback


def _holds(verifiers: Sequence[Verifier], op: Operation) -> bool:
    """Whether `op` satisfies every verifier; each has its say."""
    failed = [verifier for verifier in verifiers if not verifier(op)]
    return not failed


def _observer(
    name: str, clock: _Clock, seconds: list[tuple[str, float]], stream: TextIO | None
) -> Callable[[Operation, Any], None]:
    def callback(op: Operation, external: Any) -> None:
        seconds.append((name, time.perf_counter() - clock.began))
        if stream is not None:
            print(f"// -----// IR Dump After {name} //----- //\n{op}\n", file=stream)

    return callback


_ELEMENT = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?:\{(?P<options>[^{}]*)\}\s*)?(?:,|$)")
_ANCHORED = re.compile(r"\s*builtin\.module\s*\((?P<passes>.*)\)\s*", re.DOTALL)


def parse_pipeline(text: str) -> list[Pass | str]:
    """The passes of a textual pipeline, `linear-fold-conversions,linear-select-lowering{target=cuda:90}`.

    The pipeline may be wrapped in `builtin.module(...)`. A name that is not ours is taken as one of MLIR's.
    """
    if match := _ANCHORED.fullmatch(text):
        text = match["passes"]
    passes: list[Pass | str] = []
    at = 0
    while at < len(text):
        found = _ELEMENT.match(text, at)
        if found is None:
            raise PipelineError(f"pass pipeline: cannot read '{text[at:].strip()}'")
        at = found.end()
        options = found["options"] or ""
        if found["name"] in PASSES:
            passes.append(make_pass(found["name"], _options(found["name"], options)))
        else:
            passes.append(_upstream(found["name"], options))
    return passes


def _options(name: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals:
            raise PipelineError(f"{name}: option '{word}' has no value")
        options[key] = value
    return options


def _upstream(name: str, options: str) -> str:
    text = f"{name}{{{options}}}" if options else name
    try:
        PassManager("builtin.module", new_context()).add(text)
    except ValueError as error:
        raise PipelineError(f"pass pipeline: no pass '{name}'; ours are {', '.join(PASSES)}") from error
    return text


def make_pass(name: str, options: Mapping[str, str]) -> Pass:
    """The pass `name` with options given as text, spelled with dashes as in a pipeline."""
    if name not in PASSES:
        raise PipelineError(f"no pass '{name}'; there are {', '.join(PASSES)}")
    kind: Any = PASSES[name]
    types = get_type_hints(kind)
    known = {one.name.replace("_", "-"): one.name for one in fields(kind)}
    values: dict[str, Any] = {}
    for option, text in options.items():
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise PipelineError(f"{name}: no option '{option}'; {has}")
        if "int" in str(types[known[option]]):
            if not re.fullmatch(r"[0-9]+", text):
                raise PipelineError(f"{name}: option '{option}' takes a number, got '{text}'")
            if len(text) > 9:
                raise PipelineError(f"{name}: option '{option}' takes a number of up to 9 digits, got '{text}'")
            values[known[option]] = int(text)
        else:
            values[known[option]] = text
    try:
        made: Pass = kind(**values)
    except ValueError as error:
        raise PipelineError(str(error)) from error
    return made


@dataclass(frozen=True)
class Converted:
    """A conversion that was left after folding, and what becomes of it.

    `kind` is that of its plan, which `detail` sums up; "stock" where Triton lowers it, `detail` then says why.
    `partials`: it was made where a reduction was taken apart.
    """

    location: str
    source: str
    destination: str
    kind: str
    detail: str
    partials: bool = False


@dataclass(frozen=True)
class Gathered:
    """A gather, the types of its source and index as it is lowered, and what becomes of it, as `Converted`; the
    name of its stub, if it has one."""

    location: str
    source: str
    index: str
    kind: str
    detail: str
    stub: str | None = None


@dataclass(frozen=True)
class Prepared:
    """What `run_linear_pipeline` made of a module: plans by stub name, every conversion, the run, whether
    layouts were changed or reductions taken apart, stubs of gathers by name, every gather, how many accesses to
    shared memory go by way of other layouts, and whether products are waited for that Triton leaves in flight
    while their operands are overwritten."""

    plans: Mapping[str, Plan]
    conversions: tuple[Converted, ...]
    outcome: Outcome
    changed: bool = False
    gather_stubs: Mapping[str, Stub] = field(default_factory=dict)
    gathers: tuple[Gathered, ...] = ()
    detours: int = 0
    awaited: bool = False


_CHANGED = (ll.AWAITED, ll.NARROWED, ll.ASSIGNED, ll.PERMUTED, ll.SPLIT, ll.WIDENED)
"""What passes that change layouts or reductions leave on a module."""


class PassFailure(Exception):
    """A pass failed; the message holds its diagnostics."""


def run_linear_pipeline(
    module: Module,
    target: Target,
    scratch_limit: int | None = None,
    *,
    assign: bool = False,
    reductions: bool = False,
    lower: bool = True,
    lowering: str = LINEAR,
    verify: bool = False,
    remarks: bool = True,
) -> Prepared:
    """Take the conversions of `module` into our hands, in place, for `target`.

    First products are waited for whose operands would be overwritten. Then layouts are chosen anew, if asked to
    `assign`; then reductions are taken apart, if asked for `reductions`; then what conversions are left are
    folded and lowered as `lowering` says, unless `lower` is off; last, accesses become as wide as was counted
    upon. Layouts are attached, and shape operations checked against them, only when asked to `verify`: nothing
    that is decided here reads them, and it takes a third of the time.
    """
    collect = _Collect(target, scratch_limit, lowering)
    pipeline = linear_pipeline(target.name, scratch_limit, lowering)
    local = [pass_ for pass_ in pipeline if isinstance(pass_, LowerLocal)]
    attach, *decide, outline = (pass_ for pass_ in pipeline if not isinstance(pass_, LowerLocal))
    passes: list[Pass] = []
    if installed_release() in OPERANDS_OVERWRITTEN:
        passes.append(AwaitOperands(at_once=int(lowering == LEGACY)))
    if assign:
        passes.append(NarrowOperands())
        passes.append(PermuteContraction(target.name, scratch_limit))
        detours = int(lower and lowering == LINEAR)
        passes.append(AssignLayouts(target.name, scratch_limit, int(reductions), detours))
    if reductions:
        passes.append(SplitReductions(target.name, scratch_limit))
    if lower:
        passes += local
    if verify:
        passes.append(attach)
    if lower:
        passes += [*decide, collect, outline]
    if assign:
        passes.append(WidenAccesses())
    outcome = run(module, passes, verify=verify, remarks=remarks)
    if not outcome.succeeded:
        raise PassFailure("\n".join(str(d) for d in outcome.diagnostics if d.severity == "error"))
    changed = any(mark in module.operation.attributes for mark in _CHANGED)
    stubs = gather_stubs(module, target)
    gathers = _gathers(module, stubs) if lower else ()
    detours = sum(ll.DETOUR in op.attributes for op in operations(module.operation))
    plans = stub_plans(module, target)
    awaited = ll.AWAITED in module.operation.attributes
    return Prepared(plans, tuple(collect.found), outcome, changed, stubs, gathers, detours, awaited)


def _gathers(module: Module, stubs: Mapping[str, Stub]) -> tuple[Gathered, ...]:
    """What became of the gathers of a module, but for those that a reduction taken apart has: first ours."""
    ops = operations(module.operation)
    ours = [(op, stubs[name].plan, name) for op, name in calls_of(ops, stubs)]
    left = [op for op in ops if op.name == GATHER and ll.AGREE not in op.attributes]

    def types(op: Operation) -> tuple[str, str]:
        return str(op.operands[0].type), str(op.operands[1].type)

    return (
        *(Gathered(str(op.location), *types(op), plan.kind, plan.summary(), name) for op, plan, name in ours),
        *(Gathered(str(op.location), *types(op), "stock", op.attributes[ll.STOCK].value) for op in left),
    )


def run_free_pipeline(module: Module, target: Target, only: int | None = None) -> Prepared:
    """Let the conversions of `module` cost nothing, in place; `only` is the number of one that is to."""
    collect = _Collect(target, None)
    outcome = run(module, [FreeConversions(only), collect, OutlineConversions()])
    if not outcome.succeeded:
        raise PassFailure("\n".join(str(d) for d in outcome.diagnostics if d.severity == "error"))
    return Prepared(stub_plans(module, target), tuple(collect.found), outcome)


class _Collect:
    """Reads what was decided for each conversion, before the conversions are outlined."""

    name: ClassVar[str] = "collect"
    summary: ClassVar[str] = "read what was decided for each conversion"
    requires: ClassVar[tuple[Verifier, ...]] = ()
    ensures: ClassVar[tuple[Verifier, ...]] = ()

    def __init__(self, target: Target, scratch_limit: int | None, lowering: str = LINEAR) -> None:
        self.found: list[Converted] = []
        self._select = SelectLowering(target.name, scratch_limit, lowering)
        self._target = target

    def __call__(self, op: Operation, pass_: Any) -> None:
        table = LayoutTable()
        for inner in operations(op):
            if inner.name == CONVERT:
                self.found.append(self._converted(inner, table))

    def _converted(self, op: Operation, table: LayoutTable) -> Converted:
        sides = op.operands[0].type, op.results[0].type
        types = str(sides[0]), str(sides[1])
        made = ll.PARTIALS in op.attributes
        if ll.STOCK in op.attributes:
            return Converted(str(op.location), *types, "stock", op.attributes[ll.STOCK].value, made)
        recorded = ll.plan_from_attribute(op.attributes[ll.PLAN]).kind
        if recorded == FREE and not isinstance(free := plan_between(*sides, table), str):
            return Converted(str(op.location), *types, FREE, free.summary())
        plan = self._select.plan_for(op, self._target, table)
        return Converted(str(op.location), *types, plan.kind, plan.summary(), made)
