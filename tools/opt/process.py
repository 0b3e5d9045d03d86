"""Process one module in `triton-linear-opt`: parse it, run passes, and compile it to a stage."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, load_upstream
from triton_linear.lowering.target.targets import Target
from triton_linear.passes import parse
from triton_linear.passes.attempts import EXHAUSTED, Prepared, concerning
from triton_linear.passes.conversions.stubs import StubError
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.run import PipelineRun, name_of, run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline, rewritten
from triton_linear.passes.registry import PASSES
from triton_linear.passes.upstream import DIALECTS
from triton_linear.passes.user_passes import UserPass
from triton_linear.tools.opt.arguments import PIPELINE, PLUGIN, TEXT
from triton_linear.tools.opt.plugins import plugin_passes
from triton_linear.tools.opt.printing import IRPrinter
from triton_linear.tools.support import backend
from triton_linear.tools.support import compile as compiler
from triton_linear.tools.support.arguments import pipeline_options
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail


@dataclass(frozen=True)
class InputPart:
    """A part of the input that is compiled separately: a whole file, or the text between two split markers.

    `text` begins with an empty line for each line before the part, so that line numbers stay.
    """

    text: str
    file: str


@dataclass
class Result:
    """The result for a part: the output (None after an error), the diagnostics, and the times of passes."""

    output: str | bytes | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: tuple[tuple[str, float], ...] = ()


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
    piece: InputPart, arguments: argparse.Namespace, plugins: Mapping[str, Sequence[UserPass]]
) -> Result:
    """Parse a part, run the passes, and compile it to the requested stage. `plugins`: users'
    passes, by file.
    """
    result = Result()
    try:
        with compiler.reporting_invalid_input(piece.text, piece.file):
            _process(piece, arguments, plugins, result)
    except ToolError as error:
        result.diagnostics += error.diagnostics
    return result


def _process(
    piece: InputPart, arguments: argparse.Namespace, files: Mapping[str, Sequence[UserPass]], result: Result
) -> None:
    context = bridge.upstream_context()
    if any(isinstance(step, str) for step in pass_steps(arguments.passes)):
        load_upstream(context, DIALECTS)
    module = compiler.read_module(piece.text, context, piece.file)
    target = _target(module, arguments)
    if target is not None and arguments.emit not in ("mlir", "ttgir"):
        target_place = backend.NOWHERE if arguments.target else compiler.place_of(module)
        backend.check_stage(arguments.emit, target.name, target_place)
    flags = [name for name, _ in arguments.passes]
    options, whole = pipeline_options(arguments), PIPELINE in flags
    only_pipeline = whole and set(flags) <= {PIPELINE, PLUGIN} and flags.count(PIPELINE) == 1
    printer = IRPrinter(arguments)

    def as_steps(passes: Iterable[UserPass]) -> list[Pass]:
        return plugin_passes(passes, module, arguments.verify_each, result.diagnostics)

    user_passes = [each for passes in files.values() for each in passes] if whole else []
    before = as_steps(each for each in user_passes if each.when == "before")
    after = as_steps(each for each in user_passes if each.when == "after")
    # As in the plugin, `concerning` must see the module after the passes that run before the pipeline.
    if before and _run(module, before, arguments, printer, result, remarks=True) is None:
        return
    stock = bridge.triton_text(module) if only_pipeline and not after else None
    concerned = concerning(options, module) if whole else options
    passes: list[Pass] = []
    if concerned is not None:
        passes += pipeline(concerned, target.name if target else None)
    passes += after
    plugins = {} if whole else {file: as_steps(files[file]) for file in files}
    steps = pass_steps(arguments.passes, passes, plugins)
    printer.check([*(each.name for each in before), *map(name_of, steps)], PASSES)
    outcome = _run(module, steps, arguments, printer, result, remarks=arguments.remarks or not only_pipeline)
    if outcome is None:
        return
    if arguments.emit == "mlir":
        result.output = printer.shown(module.operation) + "\n"
    elif target is None:
        result.output = _ttgir(bridge.triton_text(module), arguments.mlir_print_debuginfo)
    else:
        rest = arguments.emit, arguments.mlir_print_debuginfo, stock, result.diagnostics
        result.output = _emitted(module, target, concerned or options, outcome, *rest)


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


def _target(module: Module, arguments: argparse.Namespace) -> Target | None:
    """The target on the command line, or else the module's own if the stage needs a target."""
    stated = "ttg.target" in module.operation.attributes
    if arguments.target is None and (arguments.emit == "mlir" or (arguments.emit == "ttgir" and not stated)):
        return None
    return compiler.set_target(module, arguments.target)


def _ttgir(text: str, debug: bool) -> str:
    module = compiler.to_triton(text)
    return str(module) if debug else str(module.str_nodebug())


def _emitted(
    module: Module,
    target: Target,
    options: PipelineOptions,
    done: PipelineRun,
    stage: str,
    debug: bool,
    stock: str | None,
    reported: list[Diagnostic],
) -> str | bytes:
    """The module at stage `ttgir` or later, with the code of outlined conversions, compiled as the plugin does.

    `stock` is the module's text before the passes, which is compiled if the shared memory does not suffice.
    """
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
        return _ttgir(next(prepared.attempts()).text, debug)
    last = "llvm" if stage == "ttgir" else stage
    kernel = compiler.compiled(prepared, last, lenient=stage == "ttgir", stock=stock)
    if result.stubs and not kernel.stubs:
        reported.append(
            Diagnostic("remark", f"the kernel is left to Triton: {EXHAUSTED}", *compiler.place_of(module))
        )
    return _ttgir(kernel.embedded, debug) if stage == "ttgir" else kernel.lowered.stages[stage]
