"""Compile TTGIR text by this package's passes and Triton's own backends, without a GPU, up to any stage.

`compile_text` does what the plugin does: parse, run the pipeline, insert the code of outlined conversions,
and lower (`backend.lower`, which lists the stages). If shared memory is exhausted, it tries again with less
scratch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from triton_linear.dialect import bridge, release_syntax, triton_versions
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
from triton_linear.lowering.plan.plans import Stub
from triton_linear.lowering.target.limits import MOST_REGISTERS
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_by_name
from triton_linear.passes import wellformed
from triton_linear.passes.analysis.flow import is_kernel
from triton_linear.passes.attempts import Attempt, Prepared, concerning, prepare
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.plans import DecidedConversion
from triton_linear.passes.operations.names import FUNCTION
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import PassFailure
from triton_linear.tools.support.backend import FAILED, NOWHERE, Lowered, Place, lower, vendor_of
from triton_linear.tools.support.errors import (
    Diagnostic,
    ToolError,
    captured_stderr,
    fail,
    note_input,
    parse_diagnostics,
)
from triton_linear.tools.support.own_form import hidden, restore

_MEMORY_FILE = re.compile(r"/proc/self/fd/\d+|-")
_COMMENT = re.compile(r"//.*")
DEFAULTS = PipelineOptions()
"""The plugin's default options."""
LOWERING = PipelineOptions(assign=False, reductions=False)
"""Keep layouts and reductions; lower all conversions and accesses by this package."""


def _in_file(diagnostic: Diagnostic, filename: str) -> Diagnostic:
    """The diagnostic, and its notes, with `filename` in place of the name of a file in memory."""
    file = filename if _MEMORY_FILE.fullmatch(diagnostic.file) or not diagnostic.file else diagnostic.file
    notes = tuple(_in_file(note, filename) for note in diagnostic.notes)
    return replace(diagnostic, file=file, notes=notes)


def from_pass(diagnostic: diagnostics.PassDiagnostic) -> Diagnostic:
    """A diagnostic of a pass, in the form that the tools print."""
    notes = tuple(map(from_pass, diagnostic.notes))
    return Diagnostic(diagnostic.severity, diagnostic.message, *position(diagnostic.location), notes)


def read_module(text: str, context: Context, filename: str) -> Module:
    """Parse TTGIR or MLIR text. Raises ToolError with errors in `filename`."""
    note_input(filename)
    text = text.removeprefix("\ufeff")
    if not _COMMENT.sub("", text).strip():
        fail("there is no module in the input", filename)
    module: Module | None = None
    failure: Exception | None = None
    messages: list[Diagnostic] = []
    with captured_stderr() as captured, diagnostics.capture(context) as reported:
        try:
            module = bridge.text_to_upstream(hidden(text), context, filename)
            restore(module)
        except MLIRError as error:
            failure = error
            messages += map(from_pass, diagnostics.of_exception(error))
        except (bridge.BridgeError, RuntimeError) as error:
            failure = error
    messages += map(from_pass, reported)
    messages += parse_diagnostics(captured.text)[0]
    # libtriton reports an unterminated string in an encoding as an error, but returns a module.
    if module is not None and not any(d.severity == "error" for d in messages):
        sys.stderr.write(captured.text)
        _check(module, filename)
        return module
    errors = [_in_file(d, filename) for d in messages if d.severity == "error"]
    errors = errors or [Diagnostic("error", str(failure), filename)]
    raise ToolError(*_with_hints(errors, text)) from failure


def _with_hints(errors: list[Diagnostic], text: str) -> list[Diagnostic]:
    """The errors about a text, with a note on the last if another release of Triton may have printed it."""
    marks = release_syntax.foreign_marks(text, triton_versions.installed_release())
    if not marks:
        return errors
    what = "; ".join(map(str, marks))
    note = Diagnostic("note", f"the module may be another release's: {what}; this is {triton_versions.found()}")
    return [*errors[:-1], replace(errors[-1], notes=(*errors[-1].notes, note))]


def _check(module: Module, filename: str) -> None:
    """Fail if a parsed module is not well-formed."""
    errors = [
        Diagnostic("error", message, *(place if (place := position(str(op.location)))[1] else (filename, 0, 0)))
        for op, message in wellformed.complaints(module)
    ]
    if errors:
        raise ToolError(*errors)


INTERNAL = "internal error: "
"""The beginning of a pass's message about an unexpected exception."""


@contextmanager
def reporting_invalid_input(text: str, filename: str) -> Iterator[None]:
    """If the block fails unexpectedly and `text` is in generic form, report the errors that libtriton finds
    in it.

    Generic form is parsed without verification, so invalid text can be the cause of the failure.
    """
    try:
        yield
    except ToolError as error:
        if any(diagnostic.message.startswith(FAILED) for diagnostic in error.diagnostics):
            raise ToolError(*(_in_file(diagnostic, filename) for diagnostic in error.diagnostics)) from error
        if not any(INTERNAL in diagnostic.message for diagnostic in error.diagnostics):
            raise
        _fail_if_invalid(text, filename)
        raise
    except Exception:
        _fail_if_invalid(text, filename)
        raise


def _fail_if_invalid(text: str, filename: str) -> None:
    """Fail with the errors that libtriton finds in a module in generic form."""
    if not bridge.is_generic(text):
        return
    module = read_module(text, bridge.upstream_context(), filename)
    try:
        to_triton(bridge.triton_text(module))
    except ToolError as error:
        raise ToolError(*(_in_file(diagnostic, filename) for diagnostic in error.diagnostics)) from error


def place_of(module: Module) -> Place:
    """The place of a module's own location."""
    return position(str(module.operation.location))


def set_target(module: Module, name: str | None) -> Target:
    """Set the module's target to `name`, and return the target; without `name`, the module's own target is
    used.

    Fails on a module without a target, or without a number of warps, which every TTGIR module has.
    """
    attributes = module.operation.attributes
    place = place_of(module)
    name_place = NOWHERE
    if name is None:
        if "ttg.target" not in attributes:
            message = (
                "target: the module has no attribute 'ttg.target'; say --target=cuda:NUMBER or hip:gfxNAME"
            )
            fail(message, *place)
        name, name_place = attributes["ttg.target"].value, place
    vendor_of(name.partition("{")[0], name_place)  # thresholds may follow
    try:
        target = target_by_name(name)
    except ValueError as error:
        fail(str(error), *name_place)
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
    """A compiled kernel: the text given to Triton's backend, the stubs whose code is in it, and the backend's
    result.

    failure: the error if the backend failed; `lowered` is then empty.
    """

    embedded: str
    stubs: Mapping[str, Stub]
    lowered: Lowered
    failure: ToolError | None = None


@dataclass(frozen=True)
class Compilation:
    """The result of compiling a module.

    options: the options of the pipeline that apply to the module; None if none does, so that no pass ran.
    module: the module after the passes, with stubs.
    conversions: the decision on each that is left after folding, in the order of the module.
    avoided: the number of the module's own conversions that layout assignment removed.
    """

    target: Target
    num_warps: int
    options: PipelineOptions | None
    module: Module
    stubs: Mapping[str, Stub]
    conversions: tuple[DecidedConversion, ...]
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
    """Compile TTGIR text by the passes and Triton's backend up to the stage `last`, each kernel separately,
    as the plugin does.

    `lenient`: if Triton cannot lower a kernel, record the failure in its `CompiledKernel` instead of raising.

    Raises ToolError with the diagnostics if a pass or Triton fails.
    """
    with reporting_invalid_input(text, filename):
        module = read_module(text, bridge.upstream_context(), filename)
        target = set_target(module, target_name)
        return compile_module(module, target, last, options, lenient=lenient)


def compile_module(
    module: Module, target: Target, last: str, options: PipelineOptions = DEFAULTS, *, lenient: bool = False
) -> Compilation:
    """`compile_text` for a parsed module, which the passes change."""
    stock = bridge.triton_text(module)
    concerned = concerning(options, module)
    prepared = prepared_module(module, target, concerned)
    rewritten = prepared.rewritten
    check_sizes(module)
    if rewritten.stubs and not kernels(module):
        fail("the module has conversions and no kernel: none of its functions is public", *place_of(module))
    compiled_kernels: list[CompiledKernel] = []
    attempts: dict[str, Attempt | None] = {}
    for kernel in kernel_modules(module):
        (name,) = kernels(kernel)
        compiled_kernel, attempts[name] = _compile(prepared, kernel, stock, last, lenient)
        compiled_kernels.append(compiled_kernel)
    # A function that several kernels call is compiled with each of them, and reported as in the first.
    first = next(iter(attempts.values()), None)

    def attempt_of(decided: DecidedConversion) -> Attempt | None:
        return attempts.get(decided.function, first)

    return Compilation(
        target,
        module.operation.attributes["ttg.num-warps"].value,
        concerned,
        module,
        rewritten.stubs,
        tuple(prepared.in_attempt(one, attempt_of(one)) for one in rewritten.conversions),
        rewritten.avoided,
        tuple(map(from_pass, rewritten.run.diagnostics)),
        tuple(compiled_kernels),
    )


def prepared_module(module: Module, target: Target, options: PipelineOptions | None) -> Prepared:
    """`pipeline.prepare`, but an error of a pass is raised as a ToolError."""
    try:
        return prepare(module, options, target, remarks=True)
    except PassFailure as error:
        errors, _ = parse_diagnostics(str(error))
        raise ToolError(*(errors or [Diagnostic("error", str(error), *place_of(module))])) from error


def compiled(
    prepared: Prepared, last: str, *, lenient: bool = False, stock: str | None = None
) -> CompiledKernel:
    """Compile a prepared module of one kernel, as the plugin does; `stock` is its text before the passes."""
    kernel, _ = _compile(prepared, prepared.module, stock, last, lenient)
    return kernel


def _compile(
    prepared: Prepared, kernel: Module, stock: str | None, last: str, lenient: bool
) -> tuple[CompiledKernel, Attempt | None]:
    """Compile a kernel as the plugin does, and return the attempt that succeeded; None for the stock kernel.

    `stock` is the text of the whole module before the passes. If it is None, the last attempt is returned
    even if it exceeds the shared memory.
    """
    name = prepared.target.name
    if not prepared.differs:
        return _lower(bridge.triton_text(kernel), {}, name, last, lenient), None
    for attempt in prepared.attempts(kernel):
        called = {op.attributes["callee"].value for op in operations(kernel.operation) if op.name == "tt.call"}
        stubs = {symbol: stub for symbol, stub in attempt.stubs.items() if symbol in called}
        compiled_kernel = _lower(attempt.text, stubs, name, last, lenient)
        if (compiled_kernel.lowered.metadata.get("shared") or 0) <= attempt.room:
            return compiled_kernel, attempt
    if stock is None:
        return compiled_kernel, attempt
    (wanted,) = kernels(kernel)
    modules = kernel_modules(Module.parse(bridge.expand_aliases(stock), kernel.context))
    text = next(bridge.triton_text(one) for one in modules if kernels(one) == [wanted])
    return _lower(text, {}, name, last, lenient), None


def _lower(text: str, stubs: Mapping[str, Stub], target: str, last: str, lenient: bool) -> CompiledKernel:
    try:
        return CompiledKernel(text, stubs, lower(to_triton(text), target, last))
    except ToolError as error:
        if not lenient:
            raise
        return CompiledKernel(text, stubs, Lowered(), error)


def kernels(module: Module) -> list[str]:
    """The names of the kernels of a module: its public functions."""
    return [op.attributes["sym_name"].value for op in _kernels(module)]


def _kernels(module: Module) -> list[Any]:
    found = (op.operation for op in module.body.operations)
    return [op for op in found if op.name == FUNCTION and is_kernel(op)]


def check_one_kernel(module: Module, stage: str) -> None:
    """Fail unless the module has exactly one kernel: Triton's backends compile one kernel at a time."""
    names = kernels(module)
    if len(names) != 1:
        listed = f": {', '.join(names)}" if names else ""
        place = place_of(module)
        fail(f"emit {stage}: the module must hold exactly one kernel, found {len(names)}{listed}", *place)


def kernel_modules(module: Module) -> Iterator[Module]:
    """For each kernel, the module without the other kernels: Triton compiles one kernel at a time."""
    names = kernels(module)
    if len(names) == 1:
        yield module
        return
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    for name in names:
        copy = Module.parse(text, module.context)
        for op in _kernels(copy):
            if op.attributes["sym_name"].value != name:
                op.erase()
        yield copy


def check_sizes(module: Module) -> None:
    """Fail if a tensor has too many elements per thread, with which Triton's backend would take too long."""
    table = LayoutTable()
    for op in operations(module.operation):
        for value in (*op.results, *block_arguments(op)):
            layout = table.of(value.type)
            if not isinstance(layout, LinearLayout) or not layout.has_in_dim(REGISTER):
                continue
            if (registers := layout.in_dim_size(REGISTER)) > MOST_REGISTERS:
                message = f"a thread holds {registers} elements of '{value.type}'; {MOST_REGISTERS} at most"
                fail(message, *position(str(op.location)))


def to_triton(text: str) -> Any:
    """Parse and verify text in a new libtriton context. Raises ToolError."""
    with captured_stderr() as captured:
        try:
            return bridge.parse_triton(text, bridge.triton_context())
        except bridge.BridgeError as error:
            failure = error
    errors, _ = parse_diagnostics(captured.text)
    raise ToolError(*_with_hints(errors or [Diagnostic("error", str(failure))], text)) from failure
