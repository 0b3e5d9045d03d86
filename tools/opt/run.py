"""Run `triton-linear-opt`: read the input, run passes over its parts, compile them to a stage, and print what
comes of them."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, Operation, load_upstream
from triton_linear.dialect.nearest import suggestion
from triton_linear.lowering.target.targets import Target
from triton_linear.passes import parse, user_passes
from triton_linear.passes.attempts import EXHAUSTED, Prepared, concerning
from triton_linear.passes.conversions.stubs import StubError
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.run import PipelineRun, name_of, run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline, rewritten
from triton_linear.passes.registry import DIALECTS, PASSES
from triton_linear.passes.user_passes import PassError, UserPass
from triton_linear.tools.opt.arguments import BINARY, PIPELINE, PLUGIN, TEXT, parse_arguments
from triton_linear.tools.opt.expectations import compare
from triton_linear.tools.support import backend
from triton_linear.tools.support import compile as compiler
from triton_linear.tools.support.arguments import pipeline_options
from triton_linear.tools.support.errors import Diagnostic, Printer, ToolError, fail
from triton_linear.tools.support.inputs import display_name, read_input, write
from triton_linear.tools.support.own_form import own_form

_SPLIT = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


@dataclass
class Result:
    """The result for a part: the output (None after an error), the diagnostics, and the times of passes."""

    output: str | bytes | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: tuple[tuple[str, float], ...] = ()


def run(argv: Sequence[str], printer: Printer) -> int:
    """Run the command; the exit status is 1 after an error."""
    arguments = parse_arguments(argv)
    file = display_name(arguments.file)
    text = read_input(arguments.file)
    printer.sources[file] = text
    if arguments.split_input_file and arguments.emit in BINARY:
        fail(f"emit {arguments.emit}: not with --split-input-file; binaries cannot be divided")
    pass_steps(arguments.passes)  # report errors in the flags before those in the input
    files = {name: _loaded(name, printer) for flag, name in arguments.passes if flag == PLUGIN}
    parts = _parts(text) if arguments.split_input_file else [text]
    results = [process(part, file, arguments, files) for part in parts]
    if arguments.mlir_timing:
        _print_times([took for result in results for took in result.seconds])
    reported = [diagnostic for result in results for diagnostic in result.diagnostics]
    if arguments.verify_diagnostics is not None:
        unmet = compare(text, file, reported, arguments.verify_diagnostics == "only-expected")
        for diagnostic in unmet:
            printer.print(diagnostic)
        return 1 if unmet else 0
    for diagnostic in reported:
        printer.print(diagnostic)
    outputs = [result.output for result in results if result.output is not None]
    if outputs:
        whole = [output if isinstance(output, bytes) else output.encode() for output in outputs]
        write(arguments.output, b"// -----\n".join(whole))
    return 0 if len(outputs) == len(results) else 1


def _parts(text: str) -> list[str]:
    """The parts of the input between lines `// -----`, behind so many empty lines that line numbers stay."""
    marks = list(_SPLIT.finditer(text))
    starts = [0, *(mark.end() for mark in marks)]
    ends = [*(mark.start() for mark in marks), len(text)]
    return [
        "\n" * text.count("\n", 0, start) + text[start:end] for start, end in zip(starts, ends, strict=True)
    ]


def _print_times(seconds: Sequence[tuple[str, float]]) -> None:
    total = sum(took for _, took in seconds)
    print("===- pass execution timing -===", file=sys.stderr)
    print(f"  total: {total:.4f} seconds", file=sys.stderr)
    for name, took in seconds:
        share = 100 * took / total if total else 0.0
        print(f"  {took:8.4f} ({share:5.1f}%)  {name}", file=sys.stderr)


# Passes


def _loaded(file: str, printer: Printer) -> tuple[UserPass, ...]:
    """The passes of a user's file, whose text becomes one of the printer's sources. Raises ToolError."""
    path = os.path.abspath(file)
    if os.path.isfile(path):
        printer.sources[path] = Path(path).read_text(errors="replace")
    try:
        return user_passes.load(file)
    except PassError as error:
        raise ToolError(_diagnostic(error)) from error


def _diagnostic(error: PassError) -> Diagnostic:
    cause = error.__cause__
    if isinstance(cause, ToolError):  # raised by `_verify`, with Triton's diagnostics
        message = error.message.partition(";")[0]
        return Diagnostic("error", message, error.file, error.line, 1, cause.diagnostics)
    return Diagnostic("error", error.message, error.file, error.line, min(error.line, 1))


@dataclass(frozen=True)
class PluginPass(Pass):
    """A user's pass as a step of a run over `module`. Its errors are appended to `reported`."""

    which: UserPass
    module: Module
    verify: bool
    reported: list[Diagnostic] = field(compare=False)
    summary: ClassVar[str] = "a user pass"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the user's function."""
        return self.which.name

    def __call__(self, op: Operation, pass_: PassRun) -> None:
        try:
            user_passes.run_passes([self.which], self.module, self._verify)
        except PassError as error:
            self.reported.append(_diagnostic(error))
            pass_.signal_pass_failure()

    def _verify(self, module: Module) -> None:
        if self.verify:
            compiler.to_triton(bridge.triton_text(module))


def pass_steps(
    flags: Sequence[tuple[str, str]],
    pipeline: Sequence[Pass] = (),
    plugins: Mapping[str, Sequence[Pass]] = MappingProxyType({}),
) -> list[Pass | str]:
    """The passes that the flags name, in order; a string is a pass of upstream MLIR.

    `pipeline`: the passes of the flag `--linear-pipeline`. `plugins`: the passes of users' files, by file.
    """
    steps: list[Pass | str] = []
    for name, options in flags:
        try:
            if name == PIPELINE:
                steps += pipeline
            elif name == PLUGIN:
                steps += plugins.get(options, ())
            elif name == TEXT:
                steps += parse.parse_pipeline(options)
            else:
                steps += parse.parse_pipeline(f"{name}{{{options}}}")
        except parse.PipelineError as error:
            fail(str(error))
    return steps


def process(
    text: str, file: str, arguments: argparse.Namespace, files: Mapping[str, Sequence[UserPass]]
) -> Result:
    """Parse a part, run the passes, and compile it to the requested stage. `files`: users' passes, by file."""
    result = Result()
    try:
        with compiler.reporting_invalid_input(text, file):
            _process(text, file, arguments, files, result)
    except ToolError as error:
        result.diagnostics += error.diagnostics
    return result


def _process(
    text: str,
    file: str,
    arguments: argparse.Namespace,
    files: Mapping[str, Sequence[UserPass]],
    result: Result,
) -> None:
    context = bridge.upstream_context()
    if any(isinstance(step, str) for step in pass_steps(arguments.passes)):
        load_upstream(context, DIALECTS)
    module = compiler.read_module(text, context, file)
    target = _target(module, arguments)
    if target is not None and arguments.emit not in ("mlir", "ttgir"):
        target_place = backend.NOWHERE if arguments.target else compiler.place_of(module)
        backend.check_stage(arguments.emit, target.name, target_place)
    flags = [name for name, _ in arguments.passes]
    options, whole = pipeline_options(arguments), PIPELINE in flags
    only_pipeline = whole and set(flags) <= {PIPELINE, PLUGIN} and flags.count(PIPELINE) == 1
    printer = IRPrinter(arguments)

    def as_steps(passes: Iterable[UserPass]) -> list[Pass]:
        return [PluginPass(each, module, arguments.verify_each, result.diagnostics) for each in passes]

    users = [each for passes in files.values() for each in passes] if whole else []
    before, after = (as_steps(each for each in users if each.when == when) for when in ("before", "after"))
    # As in the plugin, `concerning` must see the module after the passes that run before the pipeline.
    if before and _run(module, before, arguments, printer, result, remarks=True) is None:
        return
    stock = bridge.triton_text(module) if only_pipeline and not after else None
    concerned = concerning(options, module) if whole else options
    passes: list[Pass] = []
    if concerned is not None:
        passes += pipeline(concerned, target.name if target else None)
    passes += after
    plugins = {} if whole else {name: as_steps(files[name]) for name in files}
    steps = pass_steps(arguments.passes, passes, plugins)
    printer.check([*(each.name for each in before), *map(name_of, steps)])
    done = _run(module, steps, arguments, printer, result, remarks=arguments.remarks or not only_pipeline)
    if done is None:
        return
    if arguments.emit == "mlir":
        result.output = printer.shown(module.operation) + "\n"
    elif target is None:
        result.output = _ttgir(bridge.triton_text(module), arguments)
    else:
        result.output = _emitted(
            module, target, concerned or options, done, arguments, stock, result.diagnostics
        )


def _run(
    module: Module,
    steps: Sequence[Pass | str],
    arguments: argparse.Namespace,
    printer: IRPrinter,
    result: Result,
    *,
    remarks: bool,
) -> PipelineRun | None:
    """Run passes over a module; return None if one failed, with the errors in `result`."""
    watch = printer if printer.prints else None
    outcome = run_passes(module, steps, verify=arguments.verify_each, remarks=remarks, watch=watch)
    result.seconds += outcome.seconds
    result.diagnostics += map(compiler.from_pass, outcome.diagnostics)
    if outcome.succeeded:
        return outcome
    errors = [d for d in result.diagnostics if d.severity == "error"]
    if any(compiler.INTERNAL in d.message for d in errors):
        result.diagnostics[:] = [d for d in result.diagnostics if d not in errors]
        raise ToolError(*errors)
    if not errors:
        place = compiler.place_of(module)
        result.diagnostics.append(Diagnostic("error", "a pass failed without saying why", *place))
    return None


# Stages


def _target(module: Module, arguments: argparse.Namespace) -> Target | None:
    """The target on the command line, or else the module's own if the stage needs a target."""
    stated = "ttg.target" in module.operation.attributes
    if arguments.target is None and (arguments.emit == "mlir" or (arguments.emit == "ttgir" and not stated)):
        return None
    return compiler.set_target(module, arguments.target)


def _ttgir(text: str, arguments: argparse.Namespace) -> str:
    module = compiler.to_triton(text)
    return str(module) if arguments.mlir_print_debuginfo else str(module.str_nodebug())


def _emitted(
    module: Module,
    target: Target,
    options: PipelineOptions,
    done: PipelineRun,
    arguments: argparse.Namespace,
    stock: str | None,
    reported: list[Diagnostic],
) -> str | bytes:
    """The module at stage `ttgir` or later, with the code of outlined conversions, compiled as the plugin does.

    `stock` is the module's text before the passes, which is compiled if the shared memory does not suffice.
    """
    stage = arguments.emit
    if stage != "ttgir":
        compiler.check_one_kernel(module, stage)
        compiler.check_sizes(module)
    try:
        result = rewritten(module, done, target)
    except StubError as error:
        fail(str(error), *compiler.place_of(module))
    prepared = Prepared(module, target, options, result, differs=True)
    needs_scratch = any(stub.plan.scratch_bytes for stub in result.stubs.values())
    if stage == "ttgir" and not (needs_scratch and len(compiler.kernels(module)) == 1):
        return _ttgir(next(prepared.attempts()).text, arguments)
    last = "llvm" if stage == "ttgir" else stage
    kernel = compiler.compiled(prepared, last, lenient=stage == "ttgir", stock=stock)
    if result.stubs and not kernel.stubs:
        place = compiler.place_of(module)
        reported.append(Diagnostic("remark", f"the kernel is left to Triton: {EXHAUSTED}", *place))
    return _ttgir(kernel.embedded, arguments) if stage == "ttgir" else kernel.lowered.stages[stage]


class IRPrinter:
    """Prints modules between passes to standard error, according to the command line."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._names = {"before": arguments.mlir_print_ir_before, "after": arguments.mlir_print_ir_after}
        self._all = {"before": arguments.mlir_print_ir_before_all, "after": arguments.mlir_print_ir_after_all}
        self._diff: bool = arguments.mlir_print_ir_diff
        self._debug: bool = arguments.mlir_print_debuginfo
        self._generic: bool = arguments.mlir_print_op_generic
        self._last = ""

    @property
    def prints(self) -> bool:
        """Whether anything is to be printed."""
        return any((*self._names.values(), *self._all.values(), self._diff))

    def check(self, names: Sequence[str]) -> None:
        """Fail if the IR is to be printed at a pass that is not among those that run, and not one of this
        package's, which may have nothing to do in this module."""
        for when, wanted in self._names.items():
            for name in wanted:
                if name not in names and name not in PASSES:
                    runs = f"those that run are {', '.join(names)}" if names else "none runs"
                    fail(f"mlir-print-ir-{when}: no pass '{name}'; {suggestion(name, names) or runs}")

    def shown(self, op: Operation) -> str:
        """The text of a module, in Triton's own form; in MLIR's generic form if asked, or if Triton cannot read
        the module."""
        own = None if self._generic else own_form(op, self._debug)
        return str(op.get_asm(enable_debug_info=self._debug)) if own is None else own.rstrip()

    def __call__(self, name: str, done: bool, op: Operation) -> None:
        """Print the module before or after the pass called `name`."""
        when = "after" if done else "before"
        wanted = self._all[when] or name in self._names[when]
        if not (wanted or self._diff):
            return
        text = self.shown(op)
        if wanted:
            print(f"// -----// IR Dump {when.title()} {name} //----- //\n{text}\n", file=sys.stderr)
        if self._diff and done:
            before, after = self._last.splitlines(), text.splitlines()
            lines = difflib.unified_diff(before, after, f"before {name}", f"after {name}", lineterm="", n=1)
            changed = "\n".join(lines) or "(no change)"
            print(f"// -----// IR Diff of {name} //----- //\n{changed}\n", file=sys.stderr)
        self._last = text
