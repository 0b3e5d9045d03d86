"""Compile TTGIR text through our passes and Triton's own backends, without a GPU, up to any stage.

`compile_text` is the plugin's road: read, run the pipeline, put the code of outlined conversions in, and lower
(`backend.lower`, which has the stages), with less scratch where shared memory is exhausted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from triton_linear.dialect import bridge, release_marks, triton_versions
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.locations import position
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Context,
    MLIRError,
    Module,
    block_arguments,
    operations,
)
from triton_linear.lowering.plan.stubs import Stub
from triton_linear.lowering.target.policy import NVIDIA
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes import wellformed
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.plans import DecidedConversion, DecidedGather
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import PassFailure
from triton_linear.pipeline import Attempt, Prepared, concerning, prepare
from triton_linear.tools.support.backend import (
    FAILED,
    NOWHERE,
    Lowered,
    Place,
    lower,
    vendor_of,
)
from triton_linear.tools.support.errors import (
    Diagnostic,
    ToolError,
    captured_stderr,
    fail,
    now_at,
    parse_diagnostics,
)

_MEMORY_FILE = re.compile(r"/proc/self/fd/\d+|-")
_COMMENT = re.compile(r"//.*")
DEFAULTS = PipelineOptions()
"""What the plugin does where nobody says anything else."""


def _in_file(diagnostic: Diagnostic, filename: str) -> Diagnostic:
    """The diagnostic with the name that the user gave to the text."""
    file = filename if _MEMORY_FILE.fullmatch(diagnostic.file) or not diagnostic.file else diagnostic.file
    notes = tuple(_in_file(note, filename) for note in diagnostic.notes)
    return replace(diagnostic, file=file, notes=notes)


def from_pass(diagnostic: diagnostics.PassDiagnostic) -> Diagnostic:
    """What a pass reported, as the tools print it."""
    notes = tuple(map(from_pass, diagnostic.notes))
    return Diagnostic(diagnostic.severity, diagnostic.message, *position(diagnostic.location), notes)


def read_module(text: str, context: Context, filename: str) -> Module:
    """Parse TTGIR or MLIR text; what is wrong with it is reported in `filename`."""
    now_at(filename)
    text = text.removeprefix("\ufeff")
    if not _COMMENT.sub("", text).strip():
        fail("there is no module in the input", filename)
    module: Module | None = None
    failure: Exception | None = None
    found: list[Diagnostic] = []
    with captured_stderr() as captured, diagnostics.capture(context) as reported:
        try:
            module = bridge.text_to_upstream(text, context, filename)
        except MLIRError as error:
            failure = error
            found += map(from_pass, diagnostics.of_exception(error))
        except (bridge.BridgeError, RuntimeError) as error:
            failure = error
    found += map(from_pass, reported)
    found += parse_diagnostics(captured.text)[0]
    # A string that does not end inside an encoding is an error that libtriton reports, and goes on.
    if module is not None and not any(d.severity == "error" for d in found):
        sys.stderr.write(captured.text)
        _check(module, filename)
        return module
    errors = [_in_file(d, filename) for d in found if d.severity == "error"]
    errors = errors or [Diagnostic("error", str(failure), filename)]
    raise ToolError(*_with_hints(errors, text)) from failure


def _with_hints(errors: list[Diagnostic], text: str) -> list[Diagnostic]:
    """Errors about a text, the last with a note where the text has the words of another release of Triton."""
    marks = release_marks.foreign_marks(text, triton_versions.installed_release())
    if not marks:
        return errors
    what = "; ".join(map(str, marks))
    note = Diagnostic("note", f"the module may be another release's: {what}; this is {triton_versions.found()}")
    return [*errors[:-1], replace(errors[-1], notes=(*errors[-1].notes, note))]


def _check(module: Module, filename: str) -> None:
    """Fail with what is wrong with a module that could be parsed."""
    errors = [
        Diagnostic("error", message, *(place if (place := position(str(op.location)))[1] else (filename, 0, 0)))
        for op, message in wellformed.complaints(module)
    ]
    if errors:
        raise ToolError(*errors)


INTERNAL = "internal error: "
"""In what passes say of an exception that nobody meant to raise."""


@contextmanager
def blaming_the_input(text: str, filename: str) -> Iterator[None]:
    """Within the block, a failure that nobody meant becomes what libtriton finds wrong with `text`, if it is in
    generic form: that is taken as it stands, whether or not it is valid."""
    try:
        yield
    except ToolError as error:
        if any(diagnostic.message.startswith(FAILED) for diagnostic in error.diagnostics):
            raise ToolError(*(_in_file(diagnostic, filename) for diagnostic in error.diagnostics)) from error
        if not any(INTERNAL in diagnostic.message for diagnostic in error.diagnostics):
            raise
        _blame(text, filename)
        raise
    except Exception:
        _blame(text, filename)
        raise


def _blame(text: str, filename: str) -> None:
    """Fail with what libtriton finds wrong with a module in generic form."""
    if not bridge.is_generic(text):
        return
    module = read_module(text, bridge.upstream_context(), filename)
    try:
        to_triton(bridge.triton_text(module))
    except ToolError as error:
        raise ToolError(*(_in_file(diagnostic, filename) for diagnostic in error.diagnostics)) from error


def place_of(module: Module) -> Place:
    """Where a module begins."""
    return position(str(module.operation.location))


def set_target(module: Module, name: str | None) -> Target:
    """Say in the module that it is for the target called `name`; by default it says so itself.

    Fails on a module that does not say how many warps it is for, as every TTGIR module does.
    """
    attributes = module.operation.attributes
    place = place_of(module)
    said_by = NOWHERE
    if name is None:
        if "ttg.target" not in attributes:
            message = (
                "target: the module has no attribute 'ttg.target'; say --target=cuda:NUMBER or hip:gfxNAME"
            )
            fail(message, *place)
        name, said_by = attributes["ttg.target"].value, place
    vendor_of(name.partition("{")[0], said_by)  # thresholds may follow
    try:
        target = target_called(name)
    except ValueError as error:
        fail(str(error), *said_by)
    if "ttg.threads-per-warp" in attributes:
        lanes = attributes["ttg.threads-per-warp"].value
        if lanes != target.lanes:
            message = f"target: '{name}' has {target.lanes} lanes, the module's ttg.threads-per-warp is {lanes}"
            fail(message, *place)
    if "ttg.num-warps" not in attributes:
        fail("the module has no 'ttg.num-warps': is it TTIR rather than TTGIR?", *place)
    attributes["ttg.target"] = Attribute.parse(f'"{target.name}"', module.context)
    return target


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as it is compiled: the text that Triton's backend took, the stubs whose code is in it, and what
    the backend made of it; `failure` says why there is nothing of that."""

    embedded: str
    stubs: Mapping[str, Stub]
    lowered: Lowered
    failure: ToolError | None = None


@dataclass(frozen=True)
class Compilation:
    """A module after the whole road.

    options: what of the pipeline concerned it; None where nothing did.
    module: what the passes made of it, stubs and all.
    conversions, gathers: what becomes of each that was left after folding, in the order of the module.
    avoided: the module's own conversions that choosing layouts has made needless.
    """

    target: Target
    num_warps: int
    options: PipelineOptions | None
    module: Module
    stubs: Mapping[str, Stub]
    conversions: tuple[DecidedConversion, ...]
    gathers: tuple[DecidedGather, ...]
    avoided: int
    remarks: tuple[Diagnostic, ...]
    kernels: tuple[CompiledKernel, ...]


def compile_text(
    text: str,
    filename: str,
    target_name: str | None,
    last: str,
    options: PipelineOptions = DEFAULTS,
    *,
    lenient: bool = False,
) -> Compilation:
    """Take TTGIR text through the passes and Triton's backend up to the stage `last`, each kernel by itself, as
    the plugin does.

    `lenient`: a kernel that Triton does not lower says so, instead of failing.

    Raises ToolError with what was reported where any of them fails.
    """
    with blaming_the_input(text, filename):
        module = read_module(text, bridge.upstream_context(), filename)
        target = set_target(module, target_name)
        return compile_module(module, target, last, options, lenient=lenient)


def compile_module(
    module: Module,
    target: Target,
    last: str,
    options: PipelineOptions = DEFAULTS,
    *,
    lenient: bool = False,
) -> Compilation:
    """`compile_text` for a module that was read, which the passes change."""
    stock = bridge.triton_text(module)
    concerned = concerning(options, module)
    prepared = prepared_module(module, target, concerned)
    found = prepared.rewritten
    check_sizes(module)
    if found.stubs and not kernels(module):
        fail("the module has conversions and no kernel: none of its functions is public", *place_of(module))
    made: list[CompiledKernel] = []
    attempts: dict[str, Attempt | None] = {}
    for kernel in one_by_one(module):
        (name,) = kernels(kernel)
        one, attempts[name] = _compiled(prepared, kernel, stock, last, lenient)
        made.append(one)
    # Functions that kernels call are compiled with each of them, and shown as with the first.
    first = next(iter(attempts.values()), None)

    def attempt_at(found: DecidedConversion | DecidedGather) -> Attempt | None:
        return attempts.get(found.function, first)

    return Compilation(
        target,
        module.operation.attributes["ttg.num-warps"].value,
        concerned,
        module,
        found.stubs,
        tuple(prepared.in_attempt(one, attempt_at(one)) for one in found.conversions),
        tuple(prepared.in_attempt(one, attempt_at(one)) for one in found.gathers),
        found.avoided,
        tuple(map(from_pass, found.run.diagnostics)),
        tuple(made),
    )


def prepared_module(module: Module, target: Target, options: PipelineOptions | None) -> Prepared:
    """`pipeline.prepare`, where what a pass reports as an error is a ToolError."""
    try:
        return prepare(module, options, target, remarks=True)
    except PassFailure as error:
        found, _ = parse_diagnostics(str(error))
        raise ToolError(*(found or [Diagnostic("error", str(error), *place_of(module))])) from error


def compiled(
    prepared: Prepared, last: str, *, lenient: bool = False, stock: str | None = None
) -> CompiledKernel:
    """A module of one kernel after the passes, as the plugin compiles it; `stock`: its text before them."""
    made, _ = _compiled(prepared, prepared.module, stock, last, lenient)
    return made


def _compiled(
    prepared: Prepared, kernel: Module, stock: str | None, last: str, lenient: bool
) -> tuple[CompiledKernel, Attempt | None]:
    """A kernel as the plugin compiles it, and in which attempt; None: it is the stock kernel.

    `stock` is the text of the whole module before the passes; without it, the last attempt is as good as it
    gets.
    """
    name = prepared.target.name
    if not prepared.differs:
        return _lowered(bridge.triton_text(kernel), {}, name, last, lenient), None
    for attempt in prepared.attempts(kernel):
        called = {op.attributes["callee"].value for op in operations(kernel.operation) if op.name == "tt.call"}
        stubs = {symbol: stub for symbol, stub in attempt.stubs.items() if symbol in called}
        made = _lowered(attempt.text, stubs, name, last, lenient)
        if (made.lowered.metadata.get("shared") or 0) <= attempt.room:
            return made, attempt
    if stock is None:
        return made, attempt
    (wanted,) = kernels(kernel)
    modules = one_by_one(Module.parse(bridge.expand_aliases(stock), kernel.context))
    text = next(bridge.triton_text(one) for one in modules if kernels(one) == [wanted])
    return _lowered(text, {}, name, last, lenient), None


def _lowered(text: str, stubs: Mapping[str, Stub], target: str, last: str, lenient: bool) -> CompiledKernel:
    try:
        return CompiledKernel(text, stubs, lower(to_triton(text), target, last))
    except ToolError as error:
        if not lenient:
            raise
        return CompiledKernel(text, stubs, Lowered(), error)


def kernels(module: Module) -> list[str]:
    """The names of the kernels of a module: its public functions."""
    return [op.attributes["sym_name"].value for op in module.body.operations if _is_kernel(op)]


def _is_kernel(op: Any) -> bool:
    attributes = op.attributes
    if op.operation.name != "tt.func":
        return False
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def check_one_kernel(module: Module, stage: str) -> None:
    """Triton's backends compile one kernel at a time."""
    names = kernels(module)
    if len(names) != 1:
        listed = f": {', '.join(names)}" if names else ""
        place = place_of(module)
        fail(f"emit {stage}: the module must hold exactly one kernel, found {len(names)}{listed}", *place)


def one_by_one(module: Module) -> Iterator[Module]:
    """The module once for each of its kernels, without the others: Triton compiles one kernel at a time."""
    names = kernels(module)
    if len(names) == 1:
        yield module
        return
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    for name in names:
        copy = Module.parse(text, module.context)
        for op in list(copy.body.operations):
            if _is_kernel(op) and op.attributes["sym_name"].value != name:
                op.operation.erase()
        yield copy


def check_sizes(module: Module) -> None:
    """Fail on a tensor of which a thread has more than Triton's backend gets through in any useful time."""
    table = LayoutTable()
    for op in operations(module.operation):
        for value in (*op.results, *block_arguments(op)):
            layout = table.of(value.type)
            if not isinstance(layout, LinearLayout) or not layout.has_in_dim(REGISTER):
                continue
            if (registers := layout.in_dim_size(REGISTER)) > (most := NVIDIA.most_registers):
                held = f"a thread holds {registers} elements of '{value.type}'"
                fail(f"{held}; at most {most} are compiled", *position(str(op.location)))


def to_triton(text: str) -> Any:
    """Parse and verify text in a libtriton context of its own."""
    with captured_stderr() as captured:
        try:
            return bridge.parse_triton(text, bridge.triton_context())
        except bridge.BridgeError as error:
            failure = error
    found, _ = parse_diagnostics(captured.text)
    raise ToolError(*_with_hints(found or [Diagnostic("error", str(failure))], text)) from failure
