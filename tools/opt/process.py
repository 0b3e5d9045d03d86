"""What `triton-linear-opt` does with one module: read it, run passes, bring it to a stage."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from triton_linear.tools.opt.arguments import PIPELINE, PLUGIN, TEXT
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail
from triton_linear.tools.support.options import pipeline_options

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module
    from triton_linear.lowering.target.targets import Target
    from triton_linear.passes.framework.base import Pass
    from triton_linear.passes.framework.run import PipelineRun
    from triton_linear.passes.options import PipelineOptions
    from triton_linear.tools.opt.printing import IRPrinter
    from triton_linear.user_passes import UserPass


@dataclass(frozen=True)
class InputPart:
    """What is compiled at once: a file, or the part of it between two split markers.

    `text` begins with as many empty lines as precede the part, so that lines keep their numbers.
    """

    text: str
    file: str


@dataclass
class Result:
    """What became of a piece: what is to be written (None after an error) and what was reported."""

    output: str | bytes | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: tuple[tuple[str, float], ...] = ()


def pass_steps(
    flags: Sequence[tuple[str, str]],
    pipeline: Sequence[Pass] = (),
    plugins: Mapping[str, Sequence[Pass]] = MappingProxyType({}),
) -> list[Pass | str]:
    """The passes that the flags name, in order; a string is one of upstream MLIR's.

    `pipeline`: those that the flag for all of them stands for. `plugins`: those of users' files, by the file.
    """
    from triton_linear.passes import parse

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
    """Read a piece, run the passes, and bring it to the stage that is asked for. `plugins`: passes of users, by
    their file."""
    from triton_linear.tools.support.compile import blaming_the_input

    result = Result()
    try:
        with blaming_the_input(piece.text, piece.file):
            _process(piece, arguments, plugins, result)
    except ToolError as error:
        result.diagnostics += error.diagnostics
    return result


def _process(
    piece: InputPart, arguments: argparse.Namespace, files: Mapping[str, Sequence[UserPass]], result: Result
) -> None:
    from triton_linear.dialect import bridge
    from triton_linear.dialect.mlir_adapter import load_upstream
    from triton_linear.passes.framework.run import name_of
    from triton_linear.passes.pipeline import pipeline
    from triton_linear.passes.registry import PASSES
    from triton_linear.passes.upstream import DIALECTS
    from triton_linear.pipeline import concerning
    from triton_linear.tools.opt.plugins import made
    from triton_linear.tools.opt.printing import IRPrinter
    from triton_linear.tools.support import backend
    from triton_linear.tools.support import compile as compiler

    context = bridge.upstream_context()
    if any(isinstance(step, str) for step in pass_steps(arguments.passes)):
        load_upstream(context, DIALECTS)
    module = compiler.read_module(piece.text, context, piece.file)
    target = _target(module, arguments)
    if target is not None and arguments.emit not in ("mlir", "ttgir"):
        said_by = backend.NOWHERE if arguments.target else compiler.place_of(module)
        backend.check_stage(arguments.emit, target.name, said_by)
    flags = [name for name, _ in arguments.passes]
    options, whole = pipeline_options(arguments), PIPELINE in flags
    alone = whole and set(flags) <= {PIPELINE, PLUGIN} and flags.count(PIPELINE) == 1
    printer = IRPrinter(arguments)

    def own(passes: Iterable[UserPass]) -> list[Pass]:
        return made(passes, module, arguments.verify_each, result.diagnostics)

    beside = [each for found in files.values() for each in found] if whole else []
    before = own(each for each in beside if each.when == "before")
    after = own(each for each in beside if each.when == "after")
    # Whether ours have anything to do is asked of what passes before them have made, as in the plugin.
    if before and _ran(module, before, arguments, printer, result, remarks=True) is None:
        return
    stock = bridge.triton_text(module) if alone and not after else None
    concerned = concerning(options, module) if whole else options
    passes: list[Pass] = []
    if concerned is not None:
        passes += pipeline(concerned, target.name if target else None, attach=arguments.verify_each)
    passes += after
    steps = pass_steps(arguments.passes, passes, {} if whole else {file: own(files[file]) for file in files})
    printer.check([*(each.name for each in before), *map(name_of, steps)], PASSES)
    outcome = _ran(module, steps, arguments, printer, result, remarks=arguments.remarks or not alone)
    if outcome is None:
        return
    if arguments.emit == "mlir":
        result.output = printer.shown(module.operation) + "\n"
    elif target is None:
        result.output = _ttgir(bridge.triton_text(module), arguments.mlir_print_debuginfo)
    else:
        rest = arguments.emit, arguments.mlir_print_debuginfo, stock, result.diagnostics
        result.output = _emitted(module, target, concerned or options, outcome, *rest)


def _ran(
    module: Module,
    steps: Sequence[Pass | str],
    arguments: argparse.Namespace,
    printer: IRPrinter,
    result: Result,
    *,
    remarks: bool,
) -> PipelineRun | None:
    """How passes went over a module; None where one failed, which `result` then says."""
    from triton_linear.passes.framework.run import run_passes
    from triton_linear.tools.support import compile as compiler

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
    """The target that is asked for, or the module's own where the stage needs one."""
    from triton_linear.tools.support import compile as compiler

    stated = "ttg.target" in module.operation.attributes
    if arguments.target is None and (arguments.emit == "mlir" or (arguments.emit == "ttgir" and not stated)):
        return None
    return compiler.set_target(module, arguments.target)


def _ttgir(text: str, debug: bool) -> str:
    from triton_linear.tools.support import compile as compiler

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
    """The module at a stage from `ttgir` on, with the code of outlined conversions, as the plugin compiles it:
    as it came, which `stock` is, where shared memory does not suffice."""
    from triton_linear.passes.conversions.stubs import StubError
    from triton_linear.passes.pipeline import rewritten
    from triton_linear.pipeline import EXHAUSTED, Prepared
    from triton_linear.tools.support import compile as compiler

    if stage != "ttgir":
        compiler.check_one_kernel(module, stage)
        compiler.check_sizes(module)
    try:
        found = rewritten(module, done, target)
    except StubError as error:
        fail(str(error), *compiler.place_of(module))
    prepared = Prepared(module, target, options, found, differs=True)
    needs_scratch = any(stub.plan.scratch_bytes for stub in found.stubs.values())
    if stage == "ttgir" and not (needs_scratch and len(compiler.kernels(module)) == 1):
        return _ttgir(next(prepared.attempts()).text, debug)
    last = "llvm" if stage == "ttgir" else stage
    made = compiler.compiled(prepared, last, lenient=stage == "ttgir", stock=stock)
    if found.stubs and not made.stubs:
        reported.append(
            Diagnostic("remark", f"the kernel is left to Triton: {EXHAUSTED}", *compiler.place_of(module))
        )
    return _ttgir(made.embedded, debug) if stage == "ttgir" else made.lowered.stages[stage]
